"""Stored responses and conversations over HTTP: read, resumed, cancelled, deleted, listed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from tests.server.thread_client import gates, thread_server

HELLO = {"role": "user", "content": "Hello"}
CALL = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "12:00"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with thread_server() as (opened, _):
        yield opened


@asynccontextmanager
async def waiting_run(http: httpx.AsyncClient, **more: Any) -> AsyncIterator[tuple[str, AsyncIterator[str]]]:
    """Start a run of `slow`; yield its response id and the remaining lines of its stream."""
    body = {"input": "gate", "stream": True, **more}
    async with http.stream("POST", "/slow/v1/responses", json=body) as stream:
        lines = stream.aiter_lines()
        async for line in lines:
            if '"delta":"begin "' in line:
                break
        yield f"resp_{stream.headers['x-palaver-run-id'].removeprefix('run_')}", lines


async def create_response(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post("/echo/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def create_conversation(http: httpx.AsyncClient, *items: Any) -> str:
    return (await http.post("/v1/conversations", json={"items": items})).json()["id"]


async def texts(http: httpx.AsyncClient, path: str) -> list[str]:
    """Return the texts of a list's items, oldest first."""
    data = (await http.get(path, params={"order": "asc"})).json()["data"]
    return [item["content"][0]["text"] if item["type"] == "message" else item["type"] for item in data]


def status_and_code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# Responses


async def test_a_running_response_can_be_read_and_followed_but_not_deleted(http: httpx.AsyncClient) -> None:
    async with waiting_run(http) as (name, lines):
        shown = (await http.get(f"/v1/responses/{name}")).json()
        refused = await http.delete(f"/v1/responses/{name}")
        gates["gate"].set()
        followed = await http.get(f"/v1/responses/{name}", params={"stream": "true", "starting_after": 4})
        rest = [line async for line in lines]

    assert (shown["status"], shown["output"], shown["usage"]) == ("in_progress", [], None)
    assert status_and_code(refused) == (400, "still_running")
    assert [line for line in followed.text.splitlines() if line] == [line for line in rest if line]
    assert followed.text.endswith("data: [DONE]\n\n")


async def test_a_cancelled_response_stays_the_same_when_cancelled_again(http: httpx.AsyncClient) -> None:
    async with waiting_run(http) as (name, lines):
        cancelled = await http.post(f"/v1/responses/{name}/cancel")
        rest = [line async for line in lines]

    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert cancelled.json()["output"][0]["content"][0]["text"] == "begin "
    assert (await http.post(f"/v1/responses/{name}/cancel")).content == cancelled.content
    assert (await http.get(f"/v1/responses/{name}")).content == cancelled.content
    assert any('"type":"response.incomplete"' in line for line in rest)


async def test_a_finished_response_cannot_be_cancelled(http: httpx.AsyncClient) -> None:
    name = (await create_response(http, input="Hi"))["id"]

    assert status_and_code(await http.post(f"/v1/responses/{name}/cancel")) == (400, "not_cancellable")


async def test_input_items_are_not_found_once_the_previous_response_is_deleted(http: httpx.AsyncClient) -> None:
    first = await create_response(http, input="One?", instructions="Be brief.")
    second = await create_response(http, input="Two?", previous_response_id=first["id"])
    path = f"/v1/responses/{second['id']}/input_items"

    assert await texts(http, path) == ["One?", "system: Be brief. | user: One?", "Two?"]
    deleted = await http.delete(f"/v1/responses/{first['id']}")

    assert deleted.json() == {"id": first["id"], "object": "response", "deleted": True}
    assert status_and_code(await http.get(path)) == (404, "response_not_found")
    assert (await http.get(f"/v1/responses/{second['id']}")).status_code == 200


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"stream": "yes"}, "invalid_value"),
        ({"starting_after": "1"}, "invalid_value"),
        ({"stream": "true", "starting_after": "x"}, "invalid_type"),
        ({"stream": "true", "starting_after": "-1"}, "invalid_value"),
    ],
)
async def test_invalid_query_parameters_of_a_response_are_rejected(
    http: httpx.AsyncClient, query: dict[str, str], code: str
) -> None:
    name = (await create_response(http, input="Hi"))["id"]

    assert status_and_code(await http.get(f"/v1/responses/{name}", params=query)) == (400, code)


# Conversations


async def test_metadata_of_a_conversation_is_replaced(http: httpx.AsyncClient) -> None:
    path = f"/v1/conversations/{await create_conversation(http)}"

    changed = await http.post(path, json={"metadata": {"topic": "time"}})

    assert changed.json()["metadata"] == {"topic": "time"}
    assert (await http.get(path)).content == changed.content
    assert status_and_code(await http.post(path, json={})) == (400, "missing_required_parameter")
    assert (await http.delete(path)).json()["object"] == "conversation.deleted"
    assert status_and_code(await http.get(path)) == (404, "conversation_not_found")


async def test_items_are_added_listed_and_read(http: httpx.AsyncClient) -> None:
    path = f"/v1/conversations/{await create_conversation(http, HELLO)}/items"

    added = (await http.post(path, json={"items": [CALL, RESULT]})).json()

    assert [item["id"] for item in added["data"]] == ["fc_c1", "fco_c1"]
    assert await texts(http, path) == ["Hello", "function_call", "function_call_output"]
    assert (await http.get(f"{path}/fc_c1")).json() == added["data"][0]
    assert status_and_code(await http.get(f"{path}/fc_c2")) == (404, "item_not_found")
    unknown = {"items": [RESULT | {"call_id": "c2"}]}
    assert status_and_code(await http.post(path, json=unknown)) == (400, "unknown_call")


async def test_items_cannot_be_added_while_a_turn_runs(http: httpx.AsyncClient) -> None:
    name = await create_conversation(http)
    path = f"/v1/conversations/{name}/items"

    async with waiting_run(http, conversation=name) as (_, lines):
        refused = await http.post(path, json={"items": [HELLO]})
        refused_turn = await http.post("/slow/v1/responses", json={"input": "b", "conversation": name})
        gates["gate"].set()
        _ = [line async for line in lines]

    assert (status_and_code(refused), refused.headers["retry-after"]) == ((409, "conversation_locked"), "1")
    message = f"Conversation {name!r} already has a run in progress. Wait for it to finish."
    assert [answer.json()["error"]["message"] for answer in (refused, refused_turn)] == [message, message]
    assert (await http.post(path, json={"items": [HELLO]})).status_code == 200
    assert await texts(http, path) == ["gate", "begin end of gate", "Hello"]


async def test_deleting_an_item_keeps_the_other_items_of_its_message(http: httpx.AsyncClient) -> None:
    answer = [{"role": "assistant", "content": "Let me see."}, CALL, CALL | {"call_id": "c2"}]
    name = await create_conversation(http, HELLO, *answer, RESULT)
    path = f"/v1/conversations/{name}/items"

    deleted = await http.delete(f"{path}/fc_c2")

    assert (deleted.status_code, deleted.json()["id"]) == (200, name)
    assert await texts(http, path) == ["Hello", "Let me see.", "function_call", "function_call_output"]
    assert status_and_code(await http.delete(f"{path}/fc_c2")) == (404, "item_not_found")


async def test_deleting_a_call_also_deletes_its_result(http: httpx.AsyncClient) -> None:
    name = await create_conversation(http, HELLO, CALL, RESULT, CALL, RESULT | {"output": "13:00"})
    path = f"/v1/conversations/{name}/items"

    (await http.delete(f"{path}/fc_c1")).raise_for_status()

    assert await texts(http, path) == ["Hello", "function_call", "function_call_output"]
    assert msgspec.json.decode((await http.get(f"{path}/fco_c1")).content)["output"] == "13:00"
    assert (await create_response(http, input="And?", conversation=name))["status"] == "completed"


async def test_deleting_a_result_keeps_its_call(http: httpx.AsyncClient) -> None:
    path = f"/v1/conversations/{await create_conversation(http, HELLO, CALL, RESULT)}/items"

    (await http.delete(f"{path}/fco_c1")).raise_for_status()

    assert await texts(http, path) == ["Hello", "function_call"]
