"""Calls within threads in every protocol, variants by header, idempotency keys, and chats stored as threads."""

import asyncio
import json
from typing import Any

import httpx
import msgspec
import pytest

import palaver
from palaver import Message
from palaver.testing import client, scripted
from tests.server.thread_client import (
    branch,
    new_thread,
    nodes,
    release,
    take_turn,
    thread_server,
    wait_for_run,
    wait_for_start,
)

ROUTES: dict[str, tuple[str, Any]] = {
    "responses": ("v1/responses", lambda text: {"input": text}),
    "invocations": ("invocations", lambda text: {"input": [{"role": "user", "content": text}]}),
    "chat completions": ("v1/chat/completions", lambda text: {"messages": [{"role": "user", "content": text}]}),
    "invoke": ("invoke", lambda text: {"data": {"inputs": {"messages": [{"role": "user", "content": text}]}}}),
    "run": ("run", lambda text: {"inputs": {}, "messages": [{"role": "user", "content": text}]}),
    "ui stream": (
        "api/chat",
        lambda text: {
            "id": "mine",
            "messages": [{"id": "x", "role": "user", "parts": [{"type": "text", "text": text}]}],
        },
    ),
}
each_route = pytest.mark.parametrize("route", ROUTES)


async def ask(http: httpx.AsyncClient, route: str, text: str, name: str = "echo", **headers: str) -> httpx.Response:
    path, body = ROUTES[route]
    request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.post(f"/{name}/{path}", json=body(text), headers=request_headers)


async def post_message(http: httpx.AsyncClient, thread: str, text: str, **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": text}], **more}
    answer = await http.post(f"/api/threads/{thread}/messages", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["messages"][-1]["id"]


def status_and_code(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the error code of any protocol; the code is empty if the body is not JSON."""
    try:
        document = answer.json()
    except ValueError:
        return answer.status_code, ""
    error = document.get("error") or document.get("status") or document.get("detail")
    return answer.status_code, error.get("code") or error.get("type", "")


# Threads by header


@each_route
async def test_a_call_in_any_protocol_can_answer_a_message_of_a_thread(route: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two")
        question = await post_message(http, thread, "three")

        answer = await ask(http, route, "three", x_palaver_thread=thread, x_palaver_answer=question)

        assert answer.status_code == 200, answer.text
        assert "user: one | assistant: two | user: three" in answer.text
        last = (await nodes(http, thread))[-1]
        run = (await http.get(f"/api/runs/{last['run']}")).json()
        assert (last["role"], last["parent"], last["status"]) == ("assistant", question, "done")
        assert (run["thread"], run["answers"], run["session"]) == (thread, question, thread)
        stored = (await http.get(f"/api/threads/{thread}")).json()
        assert (stored["run"], stored["head"], stored["messages"]) == (None, last["id"], 4)


@each_route
async def test_a_body_that_differs_from_the_threads_message_is_rejected(route: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one")
        (question,) = await nodes(http, thread)

        answer = await ask(http, route, "another", x_palaver_thread=thread, x_palaver_answer=question["id"])

        assert answer.status_code == 400
        assert "differs from the one stored in the thread" in answer.text
        assert (await http.get(f"/api/threads/{thread}")).json()["run"] is None


@each_route
@pytest.mark.parametrize("header", ["x_palaver_thread", "x_palaver_answer"])
async def test_thread_and_answer_headers_must_be_sent_together(route: str, header: str) -> None:
    async with thread_server() as (http, _):
        answer = await ask(http, route, "x", **{header: "conv_1"})

        assert answer.status_code == 400
        assert "x-palaver-thread and x-palaver-answer must be sent together" in answer.text


async def test_unknown_threads_and_messages_and_threads_of_another_workflow_are_not_found() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow", "one")
        (question,) = await nodes(http, thread)

        other = await ask(http, "responses", "one", x_palaver_thread=thread, x_palaver_answer=question["id"])
        unknown = await ask(http, "responses", "one", x_palaver_thread="conv_none", x_palaver_answer="x")
        no_message = await ask(http, "responses", "one", "slow", x_palaver_thread=thread, x_palaver_answer="x")

        assert [status_and_code(one) for one in (other, unknown, no_message)] == [
            (404, "thread_not_found"),
            (404, "thread_not_found"),
            (404, "item_not_found"),
        ]


async def test_thread_headers_and_a_conversation_in_the_body_cannot_be_combined() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one")
        (question,) = await nodes(http, thread)

        answer = await http.post(
            "/echo/v1/responses",
            json={"input": "one", "conversation": thread},
            headers={"x-palaver-thread": thread, "x-palaver-answer": question["id"]},
        )

        assert status_and_code(answer)[0] == 400


async def test_instructions_apply_to_one_call_and_are_not_stored_in_the_thread() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one")
        (question,) = await nodes(http, thread)

        answer = await http.post(
            "/echo/v1/responses",
            json={"input": "one", "instructions": "Be short."},
            headers={"x-palaver-thread": thread, "x-palaver-answer": question["id"]},
        )

        assert answer.json()["output"][0]["content"][0]["text"].endswith(": Be short. | user: one")
        assert [role for role, _ in await branch(http, thread)] == ["user", "assistant"]


async def test_a_turn_during_a_running_turn_is_rejected_except_from_a_ui_client() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow", "a")
        (question,) = await nodes(http, thread)
        headers = {"x_palaver_thread": thread, "x_palaver_answer": question["id"]}
        run = (await take_turn(http, thread))["run"]["id"]
        await wait_for_start(http, thread)

        refused = await ask(http, "responses", "a", "slow", **headers)
        release("a")
        interrupting = await ask(http, "ui stream", "a", "slow", **headers)

        assert status_and_code(refused) == (409, "conversation_locked")
        assert (await wait_for_run(http, run))["status"] in ("cancelled", "finished")
        assert interrupting.status_code == 200
        assert (await http.get(f"/api/threads/{thread}")).json()["run"] is None


@pytest.mark.parametrize("route", ["invocations", "ui stream", "chat completions"])
async def test_a_thread_run_continues_after_its_client_disconnects_and_can_be_resumed(route: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow", "a")
        (question,) = await nodes(http, thread)
        path, body = ROUTES[route]
        headers = {"x-palaver-thread": thread, "x-palaver-answer": question["id"]}

        async with http.stream("POST", f"/slow/{path}", json={**body("a"), "stream": True}, headers=headers) as stream:
            await anext(stream.aiter_bytes())
        run = await wait_for_start(http, thread)
        row = (await http.get(f"/api/runs/{run}")).json()
        resuming = asyncio.ensure_future(http.get(f"/slow/api/chat/{thread}/stream"))
        await asyncio.sleep(0)
        release("a")
        resumed = await resuming

        assert (row["status"], row["readers"]) == ("running", 0)
        assert (await wait_for_run(http, run))["status"] == "finished"
        parts = ui_parts(resumed)
        assert "".join(part.get("delta", "") for part in parts) == "begin end of a"
        assert parts[0]["messageId"] == (await nodes(http, thread))[-1]["id"]
        assert (await http.get(f"/slow/api/chat/{thread}/stream")).status_code == 204


async def test_stopping_a_chat_cancels_a_thread_run_started_by_another_route() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        run = (await take_turn(http, thread, "a"))["run"]["id"]
        await wait_for_start(http, thread)

        other_workflow = await http.post(f"/echo/api/chat/{thread}/stop")
        status = (await http.get(f"/api/runs/{run}")).json()["status"]
        stopped = await http.post(f"/slow/api/chat/{thread}/stop")

        assert (other_workflow.status_code, status, stopped.status_code) == (204, "running", 204)
        assert (await http.get(f"/api/runs/{run}")).json()["status"] == "cancelled"
        assert (await http.get(f"/slow/api/chat/{thread}/stream")).status_code == 204
        assert await branch(http, thread) == [("user", "a"), ("assistant", "begin ")]


# Variants by header


@each_route
async def test_a_header_selects_the_variant_and_an_unknown_variant_is_rejected(route: str) -> None:
    async with thread_server() as (http, _):
        loud = {"name": "loud", "parameters": {"style": "LOUD"}}
        (await http.post("/api/workflows/echo/variants", json=loud)).raise_for_status()

        answer = await ask(http, route, "hi", x_palaver_variant="loud")
        unknown = await ask(http, route, "hi", x_palaver_variant="loud:2")

        assert "LOUD(user: hi)" in answer.text
        assert unknown.status_code == (422 if route in ("invoke", "run") else 400)
        assert "Variant 'loud:2' of workflow" in unknown.text
        (run,) = (await http.get("/api/runs", params={"variant": "loud"})).json()["data"]
        assert run["variant"] == "loud:1"


async def test_body_parameters_override_those_of_the_variant() -> None:
    async with thread_server() as (http, _):
        (
            await http.post("/api/workflows/echo/variants", json={"name": "loud", "parameters": {"style": "LOUD"}})
        ).raise_for_status()

        answer = await http.post(
            "/echo/v1/responses",
            json={"input": "hi", "parameters": {"style": "own"}},
            headers={"x-palaver-variant": "loud:1"},
        )

        assert answer.json()["output"][0]["content"][0]["text"] == "own(user: hi)"


# Idempotency keys


@pytest.mark.parametrize("route", ["responses", "invocations", "chat completions", "invoke", "run", "ui stream"])
async def test_repeated_call_with_an_idempotency_key_runs_once(route: str) -> None:
    async with thread_server() as (http, _):
        first, second = await asyncio.gather(*(ask(http, route, "hi", idempotency_key="k") for _ in range(2)))
        third = await ask(http, route, "hi", idempotency_key="k")
        other = await ask(http, route, "ho", idempotency_key="k")
        variant = await ask(http, route, "hi", idempotency_key="k", x_palaver_variant="default")

        assert (first.status_code, first.content, first.content) == (200, second.content, third.content)
        assert third.headers["idempotency-replayed"] == "true"
        assert sorted(one.headers.get("idempotency-replayed", "") for one in (first, second)) == ["", "true"]
        assert first.headers["x-palaver-run-id"] == third.headers["x-palaver-run-id"]
        assert (other.status_code, variant.status_code) == (409, 409)
        assert len((await http.get("/api/runs")).json()["data"]) == 1


async def test_a_stream_with_an_idempotency_key_is_replayed_from_its_start() -> None:
    async with thread_server() as (http, _):
        body, key = {"input": "a", "stream": True}, {"idempotency-key": "k"}

        async with http.stream("POST", "/slow/v1/responses", json=body, headers=key) as first:
            again = asyncio.ensure_future(http.post("/slow/v1/responses", json=body, headers=key))
            pieces = [await anext(reading := first.aiter_text())]
            release("a")
            pieces += [piece async for piece in reading]

        assert (await again).text == "".join(pieces)


async def test_a_rejected_call_frees_its_idempotency_key_and_a_too_long_key_is_rejected() -> None:
    async with thread_server() as (http, _):
        refused = await ask(http, "responses", "hi", idempotency_key="k", x_palaver_variant="late")
        (
            await http.post("/api/workflows/echo/variants", json={"name": "late", "parameters": {"style": "LATE"}})
        ).raise_for_status()
        accepted = await ask(http, "responses", "hi", idempotency_key="k", x_palaver_variant="late")
        too_long = await ask(http, "responses", "hi", idempotency_key="k" * 129)

        assert (refused.status_code, accepted.status_code, too_long.status_code) == (400, 200, 400)
        assert "LATE(user: hi)" in accepted.text


async def test_repeated_conversation_call_with_an_idempotency_key_runs_once() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        body = {"input": "hi", "conversation": thread}

        first = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})
        again = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})

        assert first.json()["id"] == again.json()["id"]
        assert await branch(http, thread) == [("user", "hi"), ("assistant", "user: hi")]


# Chats that are threads


def ui_message(role: str, text: str, name: str, *more: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "role": role, "parts": [*([{"type": "text", "text": text}] if text else []), *more]}


def ui_parts(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: {")]
    return [msgspec.json.decode(line) for line in lines]


async def chat(http: httpx.AsyncClient, thread: str, *messages: dict[str, Any], name: str = "echo", **more: Any) -> str:
    """Send a UI client's messages and return the id of the answer's message."""
    answer = await http.post(f"/{name}/api/chat", json={"id": thread, "messages": list(messages), **more})
    return ui_parts(answer)[0]["messageId"]


async def test_a_chat_with_the_id_of_a_thread_continues_the_thread() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)

        first = await chat(http, thread, ui_message("user", "one", "u1"))
        second = await chat(
            http,
            thread,
            ui_message("user", "one", "u1"),
            ui_message("assistant", "forged", first),
            ui_message("user", "two", "u2"),
        )

        assert [(node["id"], node["parts"][0]["text"]) for node in await nodes(http, thread)] == [
            ("u1", "one"),
            (first, "user: one"),
            ("u2", "two"),
            (second, "user: one | assistant: user: one | user: two"),
        ]


async def test_an_unanswered_message_that_the_client_resends_is_stored_once() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "broken")

        failed = await http.post("/broken/api/chat", json={"id": thread, "messages": [ui_message("user", "one", "u1")]})
        (
            await http.post(
                "/broken/api/chat",
                json={"id": thread, "messages": [ui_message("user", "one", "u1"), ui_message("user", "two", "u2")]},
            )
        ).raise_for_status()

        assert failed.status_code == 200
        assert await branch(http, thread) == [("user", "one"), ("user", "two")]


async def test_editing_a_message_adds_a_sibling() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        first = await chat(http, thread, ui_message("user", "one", "u1"))
        await chat(
            http,
            thread,
            ui_message("user", "one", "u1"),
            ui_message("assistant", "x", first),
            ui_message("user", "two", "u2"),
        )

        await chat(
            http,
            thread,
            ui_message("user", "one", "u1"),
            ui_message("assistant", "x", first),
            ui_message("user", "changed", "u2"),
            messageId="u2",
        )

        edited = (await nodes(http, thread))[2]
        assert await branch(http, thread) == [
            ("user", "one"),
            ("assistant", "user: one"),
            ("user", "changed"),
            ("assistant", "user: one | assistant: user: one | user: changed"),
        ]
        assert (edited["siblings"], edited["metadata"]) == (["u2", edited["id"]], {"client_id": "u2"})


@pytest.mark.parametrize("named", ["answer", "question", "nothing"])
async def test_regenerating_an_answer_adds_a_sibling(named: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        first = await chat(http, thread, ui_message("user", "one", "u1"))
        message_id = {"answer": first, "question": "u1", "nothing": None}[named]

        second = await chat(
            http, thread, ui_message("user", "one", "u1"), trigger="regenerate-message", messageId=message_id
        )

        shown = await nodes(http, thread)
        assert [node["id"] for node in shown] == ["u1", second]
        assert shown[-1]["siblings"] == [first, second]


async def test_a_client_side_tool_result_is_taken_from_the_clients_messages() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        call = {
            "id": "a1",
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "where", "arguments": "{}"}}],
        }
        (
            await http.post(
                f"/api/threads/{thread}/messages",
                json={"messages": [{"id": "u1", "role": "user", "content": "one"}, call]},
            )
        ).raise_for_status()
        before = await nodes(http, thread)
        part = {"type": "dynamic-tool", "toolName": "where", "toolCallId": "c1", "input": {}}
        done = {**part, "state": "output-available", "output": "here"}

        message = await chat(
            http, thread, ui_message("user", "one", "u1"), ui_message("assistant", "", before[1]["id"], done)
        )

        shown = await nodes(http, thread)
        assert message == before[1]["id"]  # The client continues this message.
        assert [node["role"] for node in shown] == ["user", "assistant", "tool", "assistant"]
        assert shown[2]["parts"][0]["output"] == "here"
        assert shown[2]["parent"] == before[1]["id"]


async def test_a_tool_approval_is_taken_from_the_clients_messages() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
        request = {"id": "a1", "role": "assistant", "content": "May I?", "tool_calls": [call]}
        (
            await http.post(
                f"/api/threads/{thread}/messages",
                json={"messages": [{"id": "u1", "role": "user", "content": "pay"}, request]},
            )
        ).raise_for_status()
        before = await nodes(http, thread)
        part = {
            "type": "dynamic-tool",
            "toolName": "pay",
            "toolCallId": "c1",
            "input": {},
            "state": "approval-responded",
        }
        approval = {**part, "approval": {"id": "c1", "approved": True}}

        await chat(
            http, thread, ui_message("user", "pay", "u1"), ui_message("assistant", "May I?", before[1]["id"], approval)
        )

        shown = await nodes(http, thread)
        assert [node["role"] for node in shown] == ["user", "assistant", "user", "assistant"]
        assert shown[2]["parts"] == [
            {"type": "data", "name": "approval-response", "value": {"id": "c1", "approve": True, "reason": None}}
        ]


async def test_a_new_chat_message_cancels_the_running_turn() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        async with http.stream(
            "POST", "/slow/api/chat", json={"id": thread, "messages": [ui_message("user", "a", "u1")]}
        ) as first:
            await anext(first.aiter_bytes())
        run = await wait_for_start(http, thread)
        release("b")

        await chat(
            http,
            thread,
            ui_message("user", "a", "u1"),
            ui_message("assistant", "begin", "m"),
            ui_message("user", "b", "u2"),
            name="slow",
        )

        assert (await http.get(f"/api/runs/{run}")).json()["status"] == "cancelled"
        assert await branch(http, thread) == [
            ("user", "a"),
            ("assistant", "begin "),
            ("user", "b"),
            ("assistant", "begin end of b"),
        ]


async def test_a_chat_with_an_unknown_thread_id_is_404_and_other_ids_create_no_thread() -> None:
    async with thread_server() as (http, _):
        unknown = await http.post(
            "/echo/api/chat", json={"id": "conv_none", "messages": [ui_message("user", "a", "u1")]}
        )
        client_chosen = await http.post(
            "/echo/api/chat", json={"id": "mine", "messages": [ui_message("user", "a", "u1")]}
        )

        assert (unknown.status_code, client_chosen.status_code) == (404, 200)
        assert (await http.get("/echo/api/chat/conv_none/stream")).status_code == 204
        assert (await http.post("/echo/api/chat/conv_none/stop")).status_code == 204
        assert (await http.get("/api/threads")).json()["data"] == []


async def test_a_repeated_chat_with_an_idempotency_key_does_not_cancel_the_first() -> None:
    async with thread_server() as (http, _):
        body, key = {"id": "mine", "messages": [ui_message("user", "a", "u1")]}, {"idempotency-key": "k"}

        first = asyncio.ensure_future(http.post("/slow/api/chat", json=body, headers=key))
        again = asyncio.ensure_future(http.post("/slow/api/chat", json=body, headers=key))
        for _ in range(20):
            await asyncio.sleep(0.01)
        release("a")

        assert (await first).text == (await again).text
        assert "end of a" in (await first).text


# Responses


async def test_a_response_continues_from_its_previous_response_id() -> None:
    async with thread_server() as (http, _):
        first = (await http.post("/echo/v1/responses", json={"input": "one", "instructions": "Be."})).json()
        second = (
            await http.post("/echo/v1/responses", json={"input": "two", "previous_response_id": first["id"]})
        ).json()
        third = await http.post("/echo/v1/responses", json={"input": "three", "previous_response_id": second["id"]})

        first_text = f"{first['output'][0]['content'][0]['text']}"
        second_text = f"user: one | assistant: {first_text} | user: two"
        assert second["output"][0]["content"][0]["text"] == second_text
        assert (
            third.json()["output"][0]["content"][0]["text"] == f"{second_text} | assistant: {second_text} | user: three"
        )
        run = (await http.get(f"/api/runs/{third.headers['x-palaver-run-id']}", params={"include": "input"})).json()
        assert len(run["input"]["messages"]) == 5


async def test_the_previous_response_must_be_finished_and_of_the_same_workflow() -> None:
    async with thread_server() as (http, _):
        first = (await http.post("/echo/v1/responses", json={"input": "one"})).json()["id"]
        slow = asyncio.ensure_future(http.post("/slow/v1/responses", json={"input": "a"}))
        async with asyncio.timeout(60):
            while not (running := (await http.get("/api/runs", params={"status": "running"})).json()["data"]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running_id = running[0]["id"].replace("run_", "resp_")

        async def after(name: str, previous: str) -> tuple[int, str]:
            body = {"input": "x", "previous_response_id": previous}
            return status_and_code(await http.post(f"/{name}/v1/responses", json=body))

        assert await after("slow", first) == (404, "previous_response_not_found")
        assert await after("echo", "resp_none") == (404, "previous_response_not_found")
        assert await after("slow", running_id) == (400, "still_running")
        release("a")
        await slow


async def test_responses_are_added_to_their_conversation() -> None:
    async with thread_server() as (http, _):
        thread = (await http.post("/v1/conversations", json={})).json()["id"]

        for text in ("one", "two"):
            (await http.post("/echo/v1/responses", json={"input": text, "conversation": thread})).raise_for_status()
        again = await http.post("/echo/v1/responses", json={"input": [], "conversation": {"id": thread}})
        unknown = await http.post("/echo/v1/responses", json={"input": "x", "conversation": "conv_none"})

        shown = await branch(http, thread)
        assert [role for role, _ in shown] == ["user", "assistant"] * 2 + ["assistant"]
        assert again.status_code == 200
        assert status_and_code(unknown) == (404, "conversation_not_found")


@pytest.mark.parametrize("form", ["mcp_call", "function_call"])
async def test_every_item_of_a_stored_response_can_be_referenced(form: str) -> None:
    script = [
        {"reasoning": "Hm."},
        {"tool_call": {"name": "look", "arguments": {"x": 1}, "id": "c1"}},
        {"tool_result": {"id": "c1", "output": "seen"}},
        {"text": "Done."},
    ]
    question = {"role": "user", "content": "two"}
    async with client(scripted, heard_parts, default="scripted") as http:
        body = {"input": json.dumps(script), "palaver": {"server_tools": form}}
        first = (await http.post("/v1/responses", json=body)).json()
        items = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]

        answer = await http.post("/heard_parts/v1/responses", json={"input": [*items, question]})

    kinds = {"mcp_call": ["mcp_call"], "function_call": ["function_call", "function_call_output"]}[form]
    assert [item["type"] for item in first["output"]] == ["reasoning", *kinds, "message"]
    assert json.loads(answer.json()["output"][0]["content"][0]["text"]) == [
        ["assistant", "Reasoning", "Hm."],
        ["assistant", "ToolCall", "c1"],
        ["tool", "ToolResult", "c1"],
        ["assistant", "Text", "Done."],
        ["user", "Text", "two"],
    ]


async def test_a_call_that_a_client_sends_back_without_its_result_is_looked_up() -> None:
    script = [
        {"tool_call": {"name": "look", "arguments": {}, "id": "c1"}},
        {"tool_result": {"id": "c1", "output": "seen"}},
    ]
    async with client(scripted, heard_parts, default="scripted") as http:
        first = (await http.post("/v1/responses", json={"input": json.dumps(script)})).json()
        [item] = first["output"]
        bare = {name: item[name] for name in ("type", "id", "name", "arguments", "server_label")}
        sent = {"input": [{**bare, "output": None, "error": None}, {"role": "user", "content": "two"}]}

        answer = await http.post("/heard_parts/v1/responses", json=sent)

    assert json.loads(answer.json()["output"][0]["content"][0]["text"]) == [
        ["assistant", "ToolCall", "c1"],
        ["tool", "ToolResult", "c1"],
        ["user", "Text", "two"],
    ]


async def test_a_call_in_a_conversation_can_be_referenced_by_the_id_without_its_run() -> None:
    script = [
        {"tool_call": {"name": "look", "arguments": {}, "id": "c1"}},
        {"tool_result": {"id": "c1", "output": "seen"}},
    ]
    async with client(scripted, heard_parts, default="scripted") as http:
        thread = (await http.post("/v1/conversations", json={})).json()["id"]
        await http.post("/v1/responses", json={"input": json.dumps(script), "conversation": thread})
        references = [{"type": "item_reference", "id": item_id} for item_id in ("fc_c1", "fco_c1")]
        sent = {"input": [*references, {"role": "user", "content": "two"}], "conversation": thread}

        listed = (await http.get(f"/v1/conversations/{thread}/items", params={"order": "asc"})).json()["data"]
        answer = await http.post("/heard_parts/v1/responses", json=sent)

    assert [item["id"].partition("_")[0] for item in listed] == ["msg", "fc", "fco"]
    assert not {"fc_c1", "fco_c1"} & {item["id"] for item in listed}
    assert json.loads(answer.json()["output"][0]["content"][0]["text"])[-3:] == [
        ["assistant", "ToolCall", "c1"],
        ["tool", "ToolResult", "c1"],
        ["user", "Text", "two"],
    ]


@palaver.chat
def heard_parts(messages: list[Message]) -> str:
    """Return the role, the type and the text or call id of each part."""
    return json.dumps(
        [
            [message.role, type(part).__name__, getattr(part, "call_id", None) or getattr(part, "text", None)]
            for message in messages
            for part in message.parts
        ]
    )


async def test_item_references_resolve_to_items_of_responses_and_threads() -> None:
    async with thread_server() as (http, _):
        first = (await http.post("/echo/v1/responses", json={"input": "one"})).json()
        thread = await new_thread(http, "echo", "in a thread")
        (node,) = await nodes(http, thread)
        item = {"type": "item_reference", "id": first["output"][0]["id"]}
        other = {"type": "item_reference", "id": node["id"]}
        question = {"role": "user", "content": "two"}

        answer = await http.post("/echo/v1/responses", json={"input": [other, item, question]})
        in_chain = await http.post(
            "/echo/v1/responses", json={"input": [item, question], "previous_response_id": first["id"]}
        )
        unknown = await http.post(
            "/echo/v1/responses", json={"input": [{"type": "item_reference", "id": "msg_none"}, question]}
        )

        text = answer.json()["output"][0]["content"][0]["text"]
        assert text == "user: in a thread | assistant: user: one | user: two"
        assert in_chain.json()["output"][0]["content"][0]["text"] == "user: one | assistant: user: one | user: two"
        assert status_and_code(unknown) == (404, "item_not_found")


@pytest.mark.parametrize("stream", [False, True])
async def test_repeated_background_response_with_an_idempotency_key_runs_once(stream: bool) -> None:
    async with thread_server() as (http, _):
        body = {"input": "hi", "background": True, "stream": stream}

        first = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})
        run = first.headers["x-palaver-run-id"]
        await wait_for_run(http, run)
        again = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})

        assert again.headers["x-palaver-run-id"] == run
        assert "user: hi" in again.text
        assert len((await http.get("/api/runs")).json()["data"]) == 1


async def test_a_server_without_free_streams_answers_503() -> None:
    async with thread_server(max_streams_total=0) as (http, _):
        thread = await new_thread(http)

        assert (await ask(http, "responses", "hi")).status_code == 503
        assert (await http.post(f"/api/threads/{thread}/turns", json={})).status_code == 503
        assert (await ask(http, "responses", "hi", "unknown")).status_code == 404


async def test_an_answer_that_was_not_recorded_cannot_be_replayed() -> None:
    async with thread_server(record="metadata") as (http, _):
        first = await ask(http, "invoke", "hi", idempotency_key="k")
        again = await ask(http, "invoke", "hi", idempotency_key="k")

        assert (first.status_code, again.status_code) == (200, 404)
        assert len((await http.get("/api/runs")).json()["data"]) == 1


# Chats outside threads


async def test_a_chat_outside_a_thread_is_resumed_interrupted_and_stopped_by_its_id() -> None:
    async with thread_server() as (http, _):
        body = {"id": "mine", "messages": [ui_message("user", "a", "u1")]}

        async def leave(text: str) -> str:
            chat_body = {**body, "messages": [ui_message("user", text, "u1")]}
            async with http.stream("POST", "/slow/api/chat", json=chat_body) as stream:
                await anext(stream.aiter_bytes())
                return stream.headers["x-palaver-run-id"]

        first = await leave("a")
        second = await leave("b")
        resuming = asyncio.ensure_future(http.get("/slow/api/chat/mine/stream"))
        for _ in range(5):
            await asyncio.sleep(0.01)
        stopped = await http.post("/slow/api/chat/mine/stop")

        assert [(await wait_for_run(http, run))["status"] for run in (first, second)] == ["cancelled", "cancelled"]
        assert (await resuming).headers["x-palaver-run-id"] == second
        assert ui_parts(await resuming)[-1]["type"] == "abort"
        assert stopped.status_code == 204
        assert (await http.get("/slow/api/chat/mine/stream")).status_code == 204
        assert (await http.post("/slow/api/chat/mine/stop")).status_code == 204
