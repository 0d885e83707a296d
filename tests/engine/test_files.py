"""`ctx.fetch`: data URLs, stored files and URLs, within the operator's rules."""

from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.messages import File, Message
from palaver.engine import files
from palaver.engine.files import FileFetcher
from palaver.errors import InvalidValue, NotFound, PalaverError, UpstreamFailed, UrlRefused
from palaver.outbound import FetchedDocument
from palaver.storage.database import MEMORY_URL, open_database
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat
from tests.engine.run_factory import new_engine, reply, reply_of, run_to_end
from tests.storage.test_files import insert as insert_file


@given(st.binary())
async def test_data_is_decoded_in_either_alphabet_with_or_without_padding(content: bytes) -> None:
    plain, safe = b64encode(content).decode(), urlsafe_b64encode(content).decode()
    parts = [
        File("text/plain", data=plain),
        File("text/plain", data=safe.rstrip("=")),
        File("text/plain", data=f" {plain}\n"),
        File("text/plain", url=f"data:text/plain;base64,{plain.replace('+', '%2B')}"),
        File("text/plain", url=f"DATA:;BASE64,{safe}"),
        File("text/plain", url="data:," + "".join(f"%{byte:02x}" for byte in content)),
    ]

    assert [await FileFetcher()("default", part) for part in parts] == [content] * len(parts)


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (File("a/b", data="€"), InvalidValue, "The file's data is not valid base64."),
        (File("a/b", data="A"), InvalidValue, "The file's data is not valid base64."),
        (File("a/b", url="data:nothing"), InvalidValue, "The file's data URL contains no data."),
        (File("a/b", file_id="file_1"), NotFound, "File 'file_1' not found."),
        (
            File("a/b"),
            InvalidValue,
            "The file has no content. Set file_id, data, or an http or https URL.",
        ),
        (
            File("a/b", url="file:///etc/passwd"),
            InvalidValue,
            "The file has no content. Set file_id, data, or an http or https URL.",
        ),
        (File("a/b", url="http://127.0.0.1/"), UrlRefused, "This URL is not allowed."),
        (File("a/b", url="http://169.254.169.254/latest"), UrlRefused, "This URL is not allowed."),
    ],
)
async def test_a_file_that_cannot_be_fetched_raises_an_error(
    part: File, error: type[PalaverError], message: str
) -> None:
    with pytest.raises(error) as raised:
        await FileFetcher()("default", part)

    assert raised.value.message == message


async def test_a_url_is_fetched_with_the_operators_rule_for_private_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[tuple[str, bool]] = []

    async def fetch(url: str, *, allow_private: bool) -> FetchedDocument:
        requests.append((url, allow_private))
        return FetchedDocument(status=302 if url.endswith("moved") else 200, media_type="a/b", body=b"there")

    monkeypatch.setattr(files, "fetch_document", fetch)

    assert await FileFetcher()("default", File("a/b", url="HTTPS://host/a")) == b"there"
    assert await FileFetcher(allow_private=True)("default", File("a/b", url="http://host/b")) == b"there"
    with pytest.raises(UpstreamFailed) as raised:
        await FileFetcher()("default", File("a/b", url="https://host/moved"))
    assert raised.value.message == "Cannot fetch the file: the remote service responded with status 302."
    assert requests == [("HTTPS://host/a", False), ("http://host/b", True), ("https://host/moved", False)]


async def test_a_stored_file_is_readable_only_in_its_project() -> None:
    database = open_database(MEMORY_URL)
    await insert_file(database, "a", b"stored")
    part = File("text/plain", file_id="file_a")

    assert await FileFetcher(database)("default", part) == b"stored"
    with pytest.raises(NotFound):
        await FileFetcher(database)("team-b", part)
    await database.close()


@chat
async def reader(messages: list[Message], ctx: Context) -> str:
    return (await ctx.fetch(messages[0].parts[0])).decode()  # type: ignore[arg-type]


@chat
def reader_in_a_thread(messages: list[Message], ctx: Context) -> str:
    return ctx.fetch(messages[0].parts[0]).decode()  # type: ignore[arg-type]


@pytest.mark.parametrize("workflow", [reader, reader_in_a_thread], ids=["async", "sync"])
async def test_fetch_is_awaited_in_async_code_and_returns_directly_in_sync_code(workflow: object) -> None:
    run = await run_to_end(workflow, Message.user(File("text/plain", data="SGk=")), engine=new_engine())  # type: ignore[arg-type]
    refused = await run_to_end(workflow, Message.user(File("text/plain", url="http://localhost/")))  # type: ignore[arg-type]

    assert reply_of(run) == reply(Message.assistant("Hi"))
    assert reply_of(refused).finish == "error"
