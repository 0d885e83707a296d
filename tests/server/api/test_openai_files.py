"""/v1/files: forms that OpenAI's SDKs don't send, limits, and errors in OpenAI's format."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from litestar import Litestar

from palaver.server.api.files import FileController
from palaver.server.api.openai_files import OpenAIFileController
from palaver.server.settings import Settings
from palaver.storage import files as kept
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import application, rest_client

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FORM = {"content-type": "multipart/form-data; boundary=b"}
PURPOSE = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="sky.png"\r\n\r\nsky\r\n'
END = b"--b--\r\n"


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()


@pytest.fixture
def make_app(database: Database) -> Callable[..., Litestar]:
    def build(**settings: Any) -> Litestar:
        controllers = [FileController, OpenAIFileController]
        return application(controllers, database=database, settings=Settings(**settings), now=lambda: NOON)

    return build


@pytest.fixture
async def http(make_app: Callable[..., Litestar]) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(make_app()) as client:
        yield client


def error(answer: httpx.Response) -> tuple[int, str, str | None]:
    document = answer.json()
    assert document["detail"] == document["error"]["message"]
    return answer.status_code, document["error"]["code"], document["error"]["param"]


@pytest.mark.parametrize("form", [PURPOSE + FILE + END, FILE + PURPOSE + END, FILE + PURPOSE + END + b"\r\n"])
async def test_the_fields_of_a_form_may_come_in_any_order_and_in_any_pieces(
    http: httpx.AsyncClient, form: bytes
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for index in range(len(form)):
            yield form[index : index + 1]

    answers = [await http.post("/v1/files", content=content, headers=FORM) for content in (form, pieces())]

    for answer in answers:
        created = answer.json()
        assert answer.status_code == 200
        assert created == {
            "id": created["id"],
            "object": "file",
            "bytes": 3,
            "created_at": int(NOON.timestamp()),
            "expires_at": None,
            "filename": "sky.png",
            "purpose": "user_data",
            "status": "processed",
            "status_details": None,
        }
        metadata = (await http.get(f"/api/files/{created['id']}?meta=true")).json()
        assert (metadata["media_type"], metadata["expires_at"]) == ("image/png", None)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (b"", (400, "invalid_type", None)),
        (b"nothing", (400, "invalid_type", None)),
        (PURPOSE + FILE, (400, "invalid_type", None)),
        (PURPOSE + END, (400, "missing_required_parameter", "file")),
        (FILE + END, (400, "missing_required_parameter", "purpose")),
        (PURPOSE + FILE + FILE + END, (400, "invalid_value", "file")),
        (FILE + PURPOSE.replace(b"user_data", b"party") + END, (400, "invalid_value", "purpose")),
        (FILE + PURPOSE.replace(b"user_data", b"evals") + END, (400, "unsupported_value", "purpose")),
        (PURPOSE.replace(b"purpose", b"colour") + FILE + END, (400, "unsupported_value", "colour")),
        (FILE + PURPOSE.replace(b"user_data", b"x" * 1_001) + END, (413, "too_large", None)),
        (PURPOSE + FILE.replace(b"sky.png", b"../sky") + END, (400, "invalid_value", "file")),
        (PURPOSE + FILE.replace(b'; filename="sky.png"', b"") + END, (400, "invalid_value", "file")),
    ],
)
async def test_an_invalid_form_is_refused_and_stores_nothing(
    http: httpx.AsyncClient, form: bytes, expected: tuple[int, str, str | None]
) -> None:
    answer = await http.post("/v1/files", content=form, headers=FORM)

    assert error(answer) == expected
    assert (await http.get("/v1/files")).json()["data"] == []


@pytest.mark.parametrize("media_type", ["application/json", "multipart/form-data", "multipart/mixed; boundary=b", ""])
async def test_a_body_that_is_no_form_is_415(http: httpx.AsyncClient, media_type: str) -> None:
    answer = await http.post("/v1/files", content=PURPOSE + FILE + END, headers={"content-type": media_type})

    assert error(answer) == (415, "unsupported_media_type", None)


async def test_the_limits_of_files_hold_for_forms(make_app: Callable[..., Litestar]) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield PURPOSE + FILE.removesuffix(b"\r\n")
        while True:
            sent += 100
            yield b"x" * 100

    async with rest_client(make_app(max_file=1_000, files_max=1_500)) as http:
        content = [
            FILE.replace(b"\r\nsky\r\n", b"\r\n" + letter * 1_000 + b"\r\n") + PURPOSE + END for letter in (b"x", b"y")
        ]
        fits = await http.post("/v1/files", content=content[0], headers=FORM)
        counted = await http.post("/v1/files", content=endless(), headers=FORM)
        over = await http.post("/v1/files", content=content[1], headers=FORM)

    assert (fits.status_code, error(counted), error(over)) == (200, (413, "too_large", None), (507, "disk_full", None))
    assert sent <= 1_200


async def test_a_repeated_upload_with_an_idempotency_key_is_stored_once(http: httpx.AsyncClient) -> None:
    headers = {**FORM, "idempotency-key": "k1"}
    first, again = [await http.post("/v1/files", content=PURPOSE + FILE + END, headers=headers) for _ in range(2)]

    assert first.json() == again.json()
    assert len((await http.get("/v1/files")).json()["data"]) == 1


async def test_files_of_the_rest_api_are_listed_with_their_expiry(http: httpx.AsyncClient) -> None:
    upload = {"content-type": "image/png", "x-palaver-filename": "sky.png"}
    created = (await http.post("/api/files", content=b"sky", headers=upload)).json()["id"]
    page = (await http.get("/v1/files")).json()

    [file] = page["data"]
    assert (file["id"], file["purpose"]) == (created, "user_data")
    assert file["expires_at"] == int((NOON + kept.UNUSED_FILE_TTL).timestamp())
    assert {**page, "data": []} == {
        "object": "list",
        "data": [],
        "first_id": created,
        "last_id": created,
        "has_more": False,
    }


@pytest.mark.parametrize(
    ("query", "param"), [("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=x", "after")]
)
async def test_an_invalid_query_is_refused(http: httpx.AsyncClient, query: str, param: str) -> None:
    assert error(await http.get(f"/v1/files?{query}")) == (400, "invalid_value", param)


async def test_a_kept_file_is_not_deleted_with_its_last_reference(http: httpx.AsyncClient, database: Database) -> None:
    created = (await http.post("/v1/files", content=PURPOSE + FILE + END, headers=FORM)).json()["id"]

    await database.write(kept.delete_unreferenced_files, "default", [created])
    await database.write(kept.delete_unused_files, NOON.replace(year=2030))

    assert (await http.get(f"/v1/files/{created}/content")).content == b"sky"
    assert (await http.delete(f"/v1/files/{created}")).json() == {"id": created, "object": "file", "deleted": True}
    assert error(await http.delete(f"/v1/files/{created}")) == (404, "not_found", None)
