"""/api/files: upload as the request body, and download as an attachment that browsers never execute."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar import Litestar

from palaver.server.api import files
from palaver.server.settings import Settings
from palaver.storage import files as kept
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import FakeCaller, application, rest_client

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n" + b"sky" * 20
SHA = hashlib.sha256(PNG).hexdigest()
UPLOAD_HEADERS = {"content-type": "image/png", "x-palaver-filename": "sky.png"}


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()


@pytest.fixture
def make_app(database: Database) -> Callable[..., Litestar]:
    def build(**settings: Any) -> Litestar:
        return application([files.FileController], database=database, settings=Settings(**settings), now=lambda: NOON)

    return build


@pytest.fixture
async def http(make_app: Callable[..., Litestar]) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(make_app()) as client:
        yield client


def error(answer: httpx.Response) -> tuple[int, str, str | None]:
    body = answer.json()["error"]
    return answer.status_code, body["code"], body.get("path")


async def test_an_uploaded_file_is_stored_listed_and_downloaded(http: httpx.AsyncClient) -> None:
    made = await http.post("/api/files", content=PNG, headers=UPLOAD_HEADERS)

    name = made.json()["id"]
    shown = {
        "id": name,
        "media_type": "image/png",
        "filename": "sky.png",
        "bytes": len(PNG),
        "sha256": SHA,
        "url": f"/api/files/{name}",
        "created_at": "2026-11-15T12:00:00.000000Z",
        "expires_at": "2026-11-16T12:00:00.000000Z",
    }
    assert (made.status_code, made.json(), made.headers["location"]) == (201, shown, f"/api/files/{name}")
    assert name.startswith("file_")
    assert len(name) == 31

    download = await http.get(f"/api/files/{name}")
    assert (download.status_code, download.content) == (200, PNG)
    assert {key: value for key, value in download.headers.items() if key != "vary"} == {
        "content-type": "image/png",
        "content-length": str(len(PNG)),
        "content-disposition": "attachment; filename=\"sky.png\"; filename*=UTF-8''sky.png",
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "private, max-age=3600",
        "etag": f'"{SHA}"',
    }
    again = await http.get(f"/api/files/{name}", headers={"if-none-match": download.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")

    metadata = await http.get(f"/api/files/{name}", params={"meta": "true"})
    assert (metadata.status_code, metadata.json(), metadata.headers["etag"]) == (200, shown, made.headers["etag"])
    listed = await http.get("/api/files")
    assert (listed.status_code, listed.json()) == (200, {"data": [shown], "next": None})


async def test_a_file_of_several_chunks_is_downloaded_completely(make_app: Callable[..., Litestar]) -> None:
    large = bytes(range(256)) * 10_000
    async with rest_client(make_app()) as http:
        name = (await http.post("/api/files", content=large, headers=UPLOAD_HEADERS)).json()["id"]
        download = await http.get(f"/api/files/{name}")

    assert (download.content == large, download.headers["content-length"]) == (True, "2560000")


@pytest.mark.parametrize(
    ("declared", "served"),
    [
        ("image/png", "image/png"),
        ("IMAGE/PNG; x=1", "image/png"),
        ("audio/mpeg", "audio/mpeg"),
        ("video/mp4", "video/mp4"),
        ("application/pdf", "application/pdf"),
        ("text/plain", "text/plain; charset=utf-8"),
        ("text/html", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("application/javascript", "application/octet-stream"),
        ("text/xml", "application/octet-stream"),
        ("application/x-anything", "application/octet-stream"),
    ],
)
async def test_a_media_type_that_a_browser_might_run_is_served_as_octet_stream(
    http: httpx.AsyncClient, declared: str, served: str
) -> None:
    head = {**UPLOAD_HEADERS, "content-type": declared}
    made = (await http.post("/api/files", content=b"<script>", headers=head)).json()

    download = await http.get(made["url"])

    assert made["media_type"] == declared.partition(";")[0].lower()
    assert download.headers["content-type"] == served
    assert download.headers["content-disposition"].startswith("attachment; ")


@pytest.mark.parametrize(
    ("given", "name", "header"),
    [
        ("sky.png", "sky.png", "filename=\"sky.png\"; filename*=UTF-8''sky.png"),
        ("%C3%A9t%C3%A9%20(1)", "été (1)", "filename=\"_t_ _1_\"; filename*=UTF-8''%C3%A9t%C3%A9%20%281%29"),
        ("a%22b%3B%20c.txt", 'a"b; c.txt', "filename=\"ab_ c.txt\"; filename*=UTF-8''ab%3B%20c.txt"),
        ("photo%E2%80%AEgpj.exe", "photo\u202egpj.exe", "filename=\"photogpj.exe\"; filename*=UTF-8''photogpj.exe"),
        ("%22", '"', "filename=\"file\"; filename*=UTF-8''file"),
    ],
)  # fmt: skip
async def test_a_filename_is_stored_as_sent_and_made_safe_in_the_header(
    http: httpx.AsyncClient, given: str, name: str, header: str
) -> None:
    made = (await http.post("/api/files", content=b"x", headers={**UPLOAD_HEADERS, "x-palaver-filename": given})).json()
    download = await http.get(made["url"])

    assert (made["filename"], download.headers["content-disposition"]) == (name, f"attachment; {header}")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_filename_makes_a_header_of_one_line_in_ascii(name: str) -> None:
    header = files.content_disposition(name)

    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2


@pytest.mark.parametrize(
    "name",
    [*".. . %20 ../etc/passwd %2Fetc%2Fpasswd C:%5Cx %5C%5Chost%5Cx a%00.png a%0D%0Ab %FF".split(), "", "x" * 256],
)
async def test_a_filename_that_is_a_path_or_unsafe_is_rejected(http: httpx.AsyncClient, name: str) -> None:
    answer = await http.post("/api/files", content=b"x", headers={**UPLOAD_HEADERS, "x-palaver-filename": name})

    assert error(answer) == (422, "invalid_value", "/filename")


@pytest.mark.parametrize(
    ("head", "content", "refusal"),
    [
        ({"content-type": "image/png"}, b"x", (400, "invalid_value", None)),
        (UPLOAD_HEADERS, b"", (400, "invalid_body", None)),
        (
            {**UPLOAD_HEADERS, "content-type": "multipart/form-data; boundary=x"},
            b"x",
            (415, "unsupported_media_type", None),
        ),
        (
            {**UPLOAD_HEADERS, "content-type": "application/x-www-form-urlencoded"},
            b"x",
            (415, "unsupported_media_type", None),
        ),
        ({**UPLOAD_HEADERS, "content-type": "png"}, b"x", (415, "unsupported_media_type", None)),
        ({"x-palaver-filename": "a"}, b"x", (415, "unsupported_media_type", None)),
        ({**UPLOAD_HEADERS, "content-encoding": "gzip"}, b"x", (415, "unsupported_media_type", None)),
    ],
)
async def test_an_invalid_upload_is_rejected_and_nothing_stored(
    http: httpx.AsyncClient, head: dict[str, str], content: bytes, refusal: tuple[int, str, str | None]
) -> None:
    assert error(await http.post("/api/files", content=content, headers=head)) == refusal
    assert (await http.get("/api/files")).json() == {"data": [], "next": None}


async def test_a_file_that_is_too_large_is_rejected_during_the_upload(make_app: Callable[..., Litestar]) -> None:
    chunks_sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal chunks_sent
        while True:
            chunks_sent += 1
            yield b"x" * 600

    async with rest_client(make_app(max_file=1_000)) as http:
        fits = await http.post("/api/files", content=b"x" * 1_000, headers=UPLOAD_HEADERS)
        declared = await http.post("/api/files", content=b"x" * 1_001, headers=UPLOAD_HEADERS)
        counted = await http.post("/api/files", content=endless(), headers=UPLOAD_HEADERS)

    assert (fits.status_code, error(declared), error(counted), chunks_sent) == (
        201,
        (413, "too_large", None),
        (413, "too_large", None),
        2,
    )


async def test_an_upload_over_the_storage_limit_of_the_project_is_rejected(make_app: Callable[..., Litestar]) -> None:
    async with rest_client(make_app(files_max=10)) as http:
        first = await http.post("/api/files", content=b"x" * 10, headers=UPLOAD_HEADERS)
        same = await http.post("/api/files", content=b"x" * 10, headers=UPLOAD_HEADERS)
        over = await http.post("/api/files", content=b"y", headers=UPLOAD_HEADERS)

    assert (first.status_code, same.status_code, error(over)) == (201, 201, (507, "disk_full", None))


async def test_a_stalled_upload_times_out(make_app: Callable[..., Litestar]) -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(60)

    async with rest_client(make_app(body_seconds=0.05)) as http:
        assert error(await http.post("/api/files", content=stuck(), headers=UPLOAD_HEADERS)) == (
            408,
            "request_timeout",
            None,
        )


async def test_an_upload_that_the_client_aborts_stores_nothing(
    make_app: Callable[..., Litestar], database: Database
) -> None:
    received = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return received.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in UPLOAD_HEADERS.items()]
    target = {"path": "/api/files", "raw_path": b"/api/files", "query_string": b"", "server": ("localhost", 80)}
    scope = {"type": "http", "method": "POST", "scheme": "http", "headers": headers, "palaver.caller": FakeCaller()}
    await make_app()({**scope, **target}, receive, send)  # type: ignore[arg-type]

    assert sent[0]["status"] == 499
    assert (await database.read(kept.list_files, "default")).data == []


async def test_another_projects_file_is_answered_like_an_unknown_one(make_app: Callable[..., Litestar]) -> None:
    app = make_app()
    async with rest_client(app) as ours, rest_client(app, FakeCaller("team-b")) as theirs:
        name = (await ours.post("/api/files", content=PNG, headers=UPLOAD_HEADERS)).json()["id"]
        unknown = name[:-1] + ("0" if name[-1] != "0" else "1")
        answers = [
            (await theirs.request(method, f"/api/files/{one}{query}"))
            for method, query in [("GET", ""), ("GET", "?meta=true"), ("DELETE", "")]
            for one in (name, unknown)
        ]
        listed = await theirs.get("/api/files")
        still = await ours.get(f"/api/files/{name}")

    assert [error(answer) for answer in answers] == [(404, "not_found", None)] * 6
    for theirs_, unknowns in zip(answers[::2], answers[1::2], strict=True):
        assert theirs_.text.replace(name, "") == unknowns.text.replace(unknown, "")
    assert (listed.json()["data"], still.content) == ([], PNG)


async def test_a_file_is_deleted_unless_if_match_is_stale(http: httpx.AsyncClient) -> None:
    made = await http.post("/api/files", content=PNG, headers=UPLOAD_HEADERS)
    url = made.json()["url"]

    stale = await http.delete(url, headers={"if-match": '"another"'})
    deleted = await http.delete(url, headers={"if-match": made.headers["etag"]})

    assert error(stale) == (412, "stale_base", None)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert error(await http.get(url)) == (404, "not_found", None)
    assert error(await http.delete(url)) == (404, "not_found", None)


async def test_a_repeated_upload_with_the_same_idempotency_key_is_stored_once(http: httpx.AsyncClient) -> None:
    head = {**UPLOAD_HEADERS, "idempotency-key": "k1"}
    first = await http.post("/api/files", content=PNG, headers=head)
    again = await http.post("/api/files", content=PNG, headers=head)
    other = await http.post("/api/files", content=PNG + b"!", headers=head)

    assert (again.status_code, again.json(), again.headers["idempotency-replayed"]) == (201, first.json(), "true")
    assert error(other) == (409, "idempotency_mismatch", None)
    assert len((await http.get("/api/files")).json()["data"]) == 1


async def test_the_file_list_is_paginated(http: httpx.AsyncClient) -> None:
    ids = [(await http.post("/api/files", content=b"%d" % n, headers=UPLOAD_HEADERS)).json()["id"] for n in range(3)]

    first = (await http.get("/api/files?limit=2")).json()
    second = (await http.get("/api/files", params={"limit": 2, "after": first["next"]})).json()

    assert sorted(row["id"] for row in first["data"] + second["data"]) == sorted(ids)
    assert (len(first["data"]), second["next"]) == (2, None)
    assert error(await http.get("/api/files?after=broken")) == (400, "invalid_value", "?after")


async def test_a_download_fails_when_the_file_is_deleted_meanwhile(http: httpx.AsyncClient, database: Database) -> None:
    made = (await http.post("/api/files", content=b"x" * (kept.CHUNK_BYTES + 1), headers=UPLOAD_HEADERS)).json()
    file = await database.read(kept.get_file, "default", made["id"])
    assert file is not None
    reading = files._read_chunks(database, file)

    assert len(await anext(reading)) == kept.CHUNK_BYTES
    (await http.delete(made["url"])).raise_for_status()
    with pytest.raises(Exception, match="not found"):
        await anext(reading)


async def test_openapi_describes_the_upload_body_as_binary(make_app: Callable[..., Litestar]) -> None:
    document = make_app().openapi_schema.to_schema()

    assert document["paths"]["/api/files"]["post"]["requestBody"] == {
        "content": {
            "*/*": {"schema": {"type": "string", "format": "binary", "description": "The content of the file."}}
        },
        "required": True,
    }
