"""Files referenced by calls: resolved for the workflow in every protocol, and kept while referenced."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from palaver import Context, File, Message, chat
from palaver.core.messages import Text
from palaver.errors import PalaverError
from palaver.server.app import Server
from tests.server import thread_client
from tests.server.keyed_server import KeyedServer, keyed_server
from tests.server.thread_client import wait_for_run

PNG = b"\x89PNG\r\n\x1a\n" + b"sky" * 20
DATA = b64encode(PNG).decode()
HEADERS = {"content-type": "image/png", "x-palaver-filename": "sky.png"}
UNKNOWN_FILE = "file_01k00000000000000000000000"
received: list[Any] = []


@chat
async def ours(messages: list[Message], ctx: Context) -> str:
    """Takes Palaver messages and fetches the bytes of their files."""
    received.append(list(messages))
    sizes = [len(await ctx.fetch(part)) for part in files(messages)]
    return f"bytes: {sizes}"


@chat
def ours_in_a_thread(messages: list[Message], ctx: Context) -> str:
    """The same, in sync code."""
    received.append(list(messages))
    return f"bytes: {[len(ctx.fetch(part)) for part in files(messages)]}"


@chat
async def theirs(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Takes Chat Completions."""
    received.append(messages)
    yield "Seen."


@chat(name="theirs_whole")
async def theirs_whole(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the whole conversation, as graphs do."""
    received.append(messages)
    return [*messages, {"role": "assistant", "content": "Seen."}]


@chat
def theirs_in_a_thread(messages: list[dict[str, Any]]) -> str:
    """The same, in sync code."""
    received.append(messages)
    return "Seen."


WORKFLOWS = (ours, ours_in_a_thread, theirs, theirs_whole, theirs_in_a_thread)


def files(messages: list[Message]) -> list[File]:
    return [part for message in messages for part in message.parts if isinstance(part, File)]


@asynccontextmanager
async def file_server(**settings: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    received.clear()
    async with thread_client.thread_server(*WORKFLOWS, **settings) as client_and_server:
        yield client_and_server


async def upload_file(http: httpx.AsyncClient, content: bytes = PNG, **headers: str) -> str:
    answer = await http.post("/api/files", content=content, headers={**HEADERS, **headers})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def file_metadata(http: httpx.AsyncClient, file: str) -> Any:
    """Return a file's metadata, or None if it does not exist."""
    answer = await http.get(f"/api/files/{file}", params={"meta": "true"})
    return answer.json() if answer.status_code == 200 else None


def palaver_body(file: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "parts": [{"type": "file", "file_id": file}]}]}


def completions_body(file: str) -> dict[str, Any]:
    content = [{"type": "file", "file": {"file_id": file}}]
    return {"messages": [{"role": "user", "content": content}]}


def responses_body(kind: str) -> Callable[[str], dict[str, Any]]:
    def body(file: str) -> dict[str, Any]:
        return {"input": [{"role": "user", "content": [{"type": kind, "file_id": file}]}]}

    return body


def ui_body(prefix: str = "") -> Callable[[str], dict[str, Any]]:
    def body(file: str) -> dict[str, Any]:
        part = {"type": "file", "mediaType": "image/png", "url": f"{prefix}/api/files/{file}"}
        return {"id": "c1", "messages": [{"id": "m1", "role": "user", "parts": [part]}]}

    return body


Body = Callable[[str], dict[str, Any]]
CALLS: list[tuple[str, str, Body, str | None]] = [
    ("flat", "/invoke", palaver_body, "/messages/0/parts/0/file_id"),
    (
        "envelope",
        "/invoke",
        lambda file: {"data": {"inputs": palaver_body(file)}},
        "/data/inputs/messages/0/parts/0/file_id",
    ),
    ("completions", "/v1/chat/completions", completions_body, "messages[0].content[0].file.file_id"),
    ("responses", "/v1/responses", responses_body("input_file"), "input[0].content[0].file_id"),
    ("image", "/v1/responses", responses_body("input_image"), "input[0].content[0].file_id"),
    ("invocations", "/invocations", responses_body("input_file"), "input[0].content[0].file_id"),
    ("ui", "/api/chat", ui_body(), None),
    ("ui at our origin", "/api/chat", ui_body("http://localhost"), None),
    ("ui at our origin over TLS", "/api/chat", ui_body("https://localhost"), None),
    ("ui below a prefix", "/api/chat", ui_body("/under"), None),
    ("ui below both", "/api/chat", ui_body("http://localhost/under"), None),
]
"""Routes, bodies that name a file, and the reported path of an unknown one; useChat errors have no field for it."""
each_call = pytest.mark.parametrize(
    ("route", "body", "path"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS]
)


@each_call
@pytest.mark.parametrize("name", ["ours", "ours_in_a_thread"])
async def test_a_workflow_with_palaver_messages_gets_the_file_id_type_and_name(
    name: str, route: str, body: Body, path: str | None
) -> None:
    async with file_server(root_path="/under") as (http, _):
        file = await upload_file(http)

        answer = await http.post(f"/{name}{route}", json=body(file))

        assert answer.status_code == 200, answer.text
        assert f"bytes: [{len(PNG)}]" in answer.text
        [[message]] = received
        assert message.parts == (File("image/png", file_id=file, filename="sky.png"),)
        assert (await file_metadata(http, file))["expires_at"] is None


@each_call
@pytest.mark.parametrize("name", ["theirs", "theirs_whole", "theirs_in_a_thread"])
async def test_a_workflow_with_chat_completions_messages_gets_the_bytes_inline(
    name: str, route: str, body: Body, path: str | None
) -> None:
    async with file_server(root_path="/under") as (http, _):
        file = await upload_file(http)

        answer = await http.post(f"/{name}{route}", json=body(file))

        assert answer.status_code == 200, answer.text
        assert "Seen." in answer.text
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}
        [[message]] = received
        assert message["content"] == [image]


async def test_a_stored_run_references_the_file_without_its_bytes() -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        answer = await http.post("/theirs/v1/chat/completions", json=completions_body(file))
        run = answer.headers["x-palaver-run-id"]

        stored = (await http.get(f"/api/runs/{run}", params={"include": "input"})).json()

        part = {"type": "file", "media_type": "image/png", "file_id": file, "filename": "sky.png"}
        assert stored["input"]["messages"][0]["parts"] == [part]
        assert DATA not in (await http.get(f"/api/runs/{run}/events")).text


@each_call
async def test_an_unknown_file_is_404_with_its_path_in_the_body(route: str, body: Body, path: str | None) -> None:
    async with file_server(root_path="/under") as (http, _):
        for name in (UNKNOWN_FILE, "file-of-somebody-else" if "/api/chat" not in route else UNKNOWN_FILE):
            answer = await http.post(f"/ours{route}", json=body(name))

            assert answer.status_code == 404, answer.text
            assert f"File '{name}' not found." in answer.text
            match route:
                case "/api/chat":
                    assert answer.text == f"File '{name}' not found."
                case "/invoke":
                    error = answer.json()["status"]
                    assert (error["type"], error["errors"][0]["pointer"]) == ("not_found", path)
                case _:
                    error = answer.json()["error"]
                    assert (error["code"], error["param"]) == ("not_found", path)
        assert received == []
        assert (await http.get("/api/runs")).json()["data"] == []


@each_call
async def test_a_file_of_another_project_gets_the_same_404_as_an_unknown_one(
    route: str, body: Body, path: str | None
) -> None:
    async with keyed_server(root_path="/under") as backend:
        _, mine = await backend.create_key()
        _, other = await backend.create_key(project="team-b")
        file = await upload_file(backend.http, PNG, **mine)

        answers = [
            await backend.http.post(f"/scripted{route}", json=body(name), headers=other)
            for name in (file, UNKNOWN_FILE)
        ]
        own = await backend.http.post(f"/scripted{route}", json=body(file), headers=mine)

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(file, UNKNOWN_FILE) == answers[1].text
        assert own.status_code == 200, own.text


async def test_a_call_without_files_does_not_query_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    async with file_server(record="off") as (http, server):
        (
            await http.post("/ours/invoke", json={"messages": [{"role": "user", "content": "Hi."}]})
        ).raise_for_status()  # The first call starts the server.
        queries: list[object] = []

        async def refuse(work: object, *_: Any) -> None:
            queries.append(work)

        monkeypatch.setattr(server.runtime.database, "read", refuse)
        monkeypatch.setattr(server.runtime.database, "write", refuse)
        url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        for content in ("Hi.", [url]):
            body = {"messages": [{"role": "user", "content": content}]}
            answer = await http.post("/theirs/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text

        assert queries == []


# Threads, conversations and chained responses


async def create_thread(http: httpx.AsyncClient, file: str, name: str = "ours") -> str:
    answer = await http.post("/api/threads", json={"workflow": name, **palaver_body(file)})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def run_turn(http: httpx.AsyncClient, thread: str, **body: Any) -> dict[str, Any]:
    answer = await http.post(f"/api/threads/{thread}/turns", json=body)
    assert answer.status_code == 202, answer.text
    return await wait_for_run(http, answer.json()["run"]["id"])


async def test_thread_files_reach_every_turn_and_are_deleted_with_the_thread() -> None:
    async with file_server() as (http, _):
        file, second = await upload_file(http), await upload_file(http, b"other")
        thread = await create_thread(http, file)
        ended = await run_turn(http, thread, **palaver_body(second))

        assert ended["status"] == "finished"
        assert [part.file_id for part in files(received[-1])] == [file, second]
        assert [(await file_metadata(http, name))["expires_at"] for name in (file, second)] == [None, None]
        (await http.delete(f"/api/threads/{thread}")).raise_for_status()
        assert [await file_metadata(http, name) for name in (file, second)] == [None, None]


@pytest.mark.parametrize("name", ["ours", "theirs"])
async def test_a_deleted_file_is_replaced_by_a_note_for_the_workflow(name: str) -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        thread = await create_thread(http, file, name)
        (await http.delete(f"/api/files/{file}")).raise_for_status()

        ended = await run_turn(http, thread, messages=[{"role": "user", "content": "What is it?"}])
        shown = (await http.get(f"/api/threads/{thread}/messages")).json()["data"][0]

        note = "[A file was attached here ('sky.png', image/png), but it is no longer available.]"
        assert ended["status"] == "finished"
        first = received[-1][0]
        assert (first.text if isinstance(first, Message) else first["content"]) == note
        part = {"type": "file", "media_type": "image/png", "file_id": file, "filename": "sky.png"}
        assert shown["parts"] == [part]  # The part keeps its name and type.


async def test_an_ai_sdk_client_can_continue_a_thread_whose_file_was_deleted() -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        thread = await create_thread(http, file)
        (await http.delete(f"/api/files/{file}")).raise_for_status()
        old = ui_body()(file)["messages"]
        question = {"id": "m2", "role": "user", "parts": [{"type": "text", "text": "Well?"}]}
        messages = [*old, {"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "Hm."}]}, question]

        new = await http.post("/ours/api/chat", json={"id": thread, "messages": messages})
        unknown = await http.post(
            "/ours/api/chat", json={"id": thread, "messages": [*messages, *ui_body()(UNKNOWN_FILE)["messages"]]}
        )

        assert new.status_code == 200, new.text
        assert received[-1][-1].text == "Well?"
        assert (unknown.status_code, unknown.text) == (404, f"File '{UNKNOWN_FILE}' not found.")


async def test_a_file_id_of_a_model_provider_is_replaced_by_a_note() -> None:
    part = {"type": "file", "media_type": "application/pdf", "file_id": "file-of-a-provider", "filename": "a.pdf"}
    messages = [{"role": "assistant", "parts": [part]}, {"role": "user", "parts": [{"type": "text", "text": "Go on."}]}]
    async with file_server() as (http, _):
        answer = await http.post("/ours/invoke", json={"messages": messages})

        assert answer.status_code == 200, answer.text
        note = Text("[A file was attached here ('a.pdf', application/pdf), but it is no longer available.]")
        assert received[-1][0].parts == (note,)


async def test_chained_and_referencing_responses_get_the_earlier_files() -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        first = (await http.post("/ours/v1/responses", json=responses_body("input_file")(file))).json()["id"]
        next_body = {"previous_response_id": first, "input": "And now?"}
        second = await http.post("/ours/v1/responses", json=next_body)
        seen = received[-1]
        items = (await http.get(f"/ours/v1/responses/{first}/input_items")).json()["data"]
        reference = {"type": "item_reference", "id": items[0]["id"]}
        unknown = responses_body("input_file")(UNKNOWN_FILE)["input"]
        referred = await http.post("/ours/v1/responses", json={"input": [reference]})
        refused = await http.post("/ours/v1/responses", json={"input": [reference, *unknown]})
        (await http.delete(f"/api/files/{file}")).raise_for_status()
        third = await http.post("/ours/v1/responses", json=next_body)

        assert [second.status_code, referred.status_code, third.status_code] == [200, 200, 200]
        assert [part.file_id for part in files(seen)] == [file]
        assert (refused.status_code, refused.json()["error"]["param"]) == (404, "input[1].content[0].file_id")
        assert received[-1][0].text.startswith("[A file was attached here")


async def test_conversations_take_files_and_refuse_unknown_ones() -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        item = responses_body("input_file")(file)["input"]
        unknown = responses_body("input_file")(UNKNOWN_FILE)["input"]
        made = await http.post("/v1/conversations", json={"items": item})
        refused = await http.post("/v1/conversations", json={"items": unknown})
        name = made.json()["id"]
        added = await http.post(f"/v1/conversations/{name}/items", json={"items": unknown})
        answer = await http.post("/ours/v1/responses", json={"conversation": name, "input": "Well?"})

        assert made.status_code == 200, made.text
        for problem in (refused, added):
            assert (problem.status_code, problem.json()["error"]["param"]) == (404, "items[0].content[0].file_id")
        assert answer.status_code == 200, answer.text
        assert [part.file_id for part in files(received[-1])] == [file]
        items = (await http.get(f"/v1/conversations/{name}/items", params={"order": "asc"})).json()["data"]
        (await http.delete(f"/v1/conversations/{name}/items/{items[0]['id']}")).raise_for_status()
        assert await file_metadata(http, file) is None


async def test_a_run_in_the_background_gets_its_files() -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        body = responses_body("input_file")(file) | {"background": True}
        queued = (await http.post("/theirs/v1/responses", json=body)).json()
        async with asyncio.timeout(60):
            url = f"/v1/responses/{queued['id']}"
            while (response := (await http.get(url)).json())["status"] != "completed":  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.02)

        assert response["output"][0]["content"][0]["text"] == "Seen."
        assert DATA in str(received[-1])


async def test_a_shared_file_is_deleted_with_the_last_thread_that_references_it() -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        first, second = await create_thread(http, file), await create_thread(http, file)
        copy = (await http.post(f"/api/threads/{first}/duplicate", json={})).json()["id"]
        exists = []
        for thread in (first, second, copy):
            (await http.delete(f"/api/threads/{thread}")).raise_for_status()
            exists.append(await file_metadata(http, file) is not None)

        assert exists == [True, True, False]


async def test_board_cells_get_the_files_of_their_row() -> None:
    async with file_server() as (http, _):
        file = await upload_file(http)
        board = {
            "mode": "single",
            "columns": [{"id": "c1", "workflow": "theirs"}],
            "rows": [{"id": "r1", "inputs": {"messages": ui_body()(file)["messages"]}}],
        }
        url = (await http.post("/api/boards", json=board)).headers["location"]
        started = await http.post(f"{url}/run", json={})
        ended = await wait_for_run(http, started.json()["runs"][0]["run"])

        assert ended["status"] == "finished"
        assert DATA in str(received[-1])


async def test_erasing_a_user_erases_the_files_that_only_they_used() -> None:
    async with file_server() as (http, _):
        hers, shared = await upload_file(http), await upload_file(http, b"other")
        body = completions_body(hers) | {"user": "ada"}
        (await http.post("/ours/v1/chat/completions", json=body)).raise_for_status()
        (
            await http.post("/ours/v1/chat/completions", json=completions_body(shared) | {"user": "ada"})
        ).raise_for_status()
        (
            await http.post("/ours/v1/chat/completions", json=completions_body(shared) | {"user": "bob"})
        ).raise_for_status()

        preview = (await http.post("/api/erase", json={"user": "ada"})).json()
        (await http.post("/api/erase", json={"user": "ada", "dry_run": False})).raise_for_status()

        assert (preview["runs"], preview["files"]) == (2, 1)
        assert [await file_metadata(http, file) is None for file in (hers, shared)] == [True, False]


async def test_inlining_more_than_the_byte_limit_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palaver.workflows.inline_files.MAX_INLINED_BYTES", 2 * len(PNG) - 1)
    async with file_server() as (http, _):
        file = await upload_file(http)
        twice = [*completions_body(file)["messages"], *completions_body(file)["messages"]]

        answer = await http.post("/theirs/v1/chat/completions", json={"messages": twice})
        by_id = await http.post("/ours/v1/chat/completions", json={"messages": twice})

        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "too_large")
        assert by_id.status_code == 200


async def test_a_run_cannot_fetch_a_file_of_another_project() -> None:
    async with keyed_server() as backend:
        _, mine = await backend.create_key()
        file = await upload_file(backend.http, PNG, **mine)

        assert await fetch_file(backend, "default", file) == PNG
        with pytest.raises(PalaverError, match="not found"):
            await fetch_file(backend, "team-b", file)


async def fetch_file(backend: KeyedServer, project: str, file: str) -> bytes:
    return await backend.server.engine._services.fetch(project, File("image/png", file_id=file))
