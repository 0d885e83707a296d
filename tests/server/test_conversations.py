"""Calls within threads in every protocol, variants by header, idempotency keys, and chats stored as threads."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

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
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await http.post(f"/{name}/{path}", json=body(text), headers=sent)


async def said(http: httpx.AsyncClient, thread: str, text: str, **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": text}], **more}
    answer = await http.post(f"/api/threads/{thread}/messages", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["messages"][-1]["id"]


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """The error, whatever shape it has; a UI client is told words."""
    try:
        document = answer.json()
    except ValueError:
        return answer.status_code, ""
    error = document.get("error") or document.get("status") or document.get("detail")
    return answer.status_code, error.get("code") or error.get("type", "")


# Threads by header


@each_route
async def test_a_call_in_any_protocol_answers_a_message_of_a_thread(route: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one", "two")
        asked = await said(http, thread, "three")

        answer = await ask(http, route, "three", x_palaver_thread=thread, x_palaver_answer=asked)

        assert answer.status_code == 200, answer.text
        assert "user: one | assistant: two | user: three" in answer.text
        last = (await nodes(http, thread))[-1]
        run = (await http.get(f"/api/runs/{last['run']}")).json()
        assert (last["role"], last["parent"], last["status"]) == ("assistant", asked, "done")
        assert (run["thread"], run["answers"], run["session"]) == (thread, asked, thread)
        found = (await http.get(f"/api/threads/{thread}")).json()
        assert (found["run"], found["head"], found["messages"]) == (None, last["id"], 4)


@each_route
async def test_a_body_that_asks_something_else_contradicts_the_thread(route: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one")
        (asked,) = await nodes(http, thread)

        answer = await ask(http, route, "another", x_palaver_thread=thread, x_palaver_answer=asked["id"])

        assert answer.status_code == 400
        assert "not what the thread's message says" in answer.text
        assert (await http.get(f"/api/threads/{thread}")).json()["run"] is None


@each_route
@pytest.mark.parametrize("header", ["x_palaver_thread", "x_palaver_answer"])
async def test_a_thread_and_a_message_belong_together(route: str, header: str) -> None:
    async with thread_server() as (http, _):
        answer = await ask(http, route, "x", **{header: "conv_1"})

        assert answer.status_code == 400
        assert "belong together" in answer.text


async def test_a_thread_of_another_workflow_or_project_is_not_there() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow", "one")
        (asked,) = await nodes(http, thread)

        other = await ask(http, "responses", "one", x_palaver_thread=thread, x_palaver_answer=asked["id"])
        unknown = await ask(http, "responses", "one", x_palaver_thread="conv_none", x_palaver_answer="x")
        no_message = await ask(http, "responses", "one", "slow", x_palaver_thread=thread, x_palaver_answer="x")

        assert [code_of(one) for one in (other, unknown, no_message)] == [
            (404, "thread_not_found"),
            (404, "thread_not_found"),
            (404, "item_not_found"),
        ]


async def test_a_call_goes_on_from_a_thread_or_from_something_else() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one")
        (asked,) = await nodes(http, thread)

        answer = await http.post(
            "/echo/v1/responses",
            json={"input": "one", "conversation": thread},
            headers={"x-palaver-thread": thread, "x-palaver-answer": asked["id"]},
        )

        assert code_of(answer)[0] == 400


async def test_instructions_are_for_the_call_alone() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "echo", "one")
        (asked,) = await nodes(http, thread)

        answer = await http.post(
            "/echo/v1/responses",
            json={"input": "one", "instructions": "Be short."},
            headers={"x-palaver-thread": thread, "x-palaver-answer": asked["id"]},
        )

        assert answer.json()["output"][0]["content"][0]["text"].endswith(": Be short. | user: one")
        assert [role for role, _ in await branch(http, thread)] == ["user", "assistant"]


async def test_one_turn_at_a_time_is_taken_whatever_the_protocol() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow", "a")
        (asked,) = await nodes(http, thread)
        marks = {"x_palaver_thread": thread, "x_palaver_answer": asked["id"]}
        run = (await take_turn(http, thread))["run"]["id"]
        await wait_for_start(http, thread)

        refused = await ask(http, "responses", "a", "slow", **marks)
        release("a")
        interrupting = await ask(http, "ui stream", "a", "slow", **marks)

        assert code_of(refused) == (409, "conversation_locked")
        assert (await wait_for_run(http, run))["status"] in ("cancelled", "finished")
        assert interrupting.status_code == 200
        assert (await http.get(f"/api/threads/{thread}")).json()["run"] is None


@pytest.mark.parametrize("route", ["invocations", "ui stream", "chat completions"])
async def test_a_run_in_a_thread_goes_on_when_its_client_leaves_and_can_be_resumed(route: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow", "a")
        (asked,) = await nodes(http, thread)
        path, body = ROUTES[route]
        headers = {"x-palaver-thread": thread, "x-palaver-answer": asked["id"]}

        async with http.stream("POST", f"/slow/{path}", json={**body("a"), "stream": True}, headers=headers) as stream:
            await anext(stream.aiter_bytes())
        run = await wait_for_start(http, thread)
        left = (await http.get(f"/api/runs/{run}")).json()
        resuming = asyncio.ensure_future(http.get(f"/slow/api/chat/{thread}/stream"))
        await asyncio.sleep(0)
        release("a")
        resumed = await resuming

        assert (left["status"], left["readers"]) == ("running", 0)
        assert (await wait_for_run(http, run))["status"] == "finished"
        parts = ui_parts(resumed)
        assert "".join(part.get("delta", "") for part in parts) == "begin end of a"
        assert parts[0]["messageId"] == (await nodes(http, thread))[-1]["id"]
        assert (await http.get(f"/slow/api/chat/{thread}/stream")).status_code == 204


async def test_a_chat_that_is_a_thread_is_stopped_however_it_began() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        run = (await take_turn(http, thread, "a"))["run"]["id"]
        await wait_for_start(http, thread)

        elsewhere = await http.post(f"/echo/api/chat/{thread}/stop")
        still = (await http.get(f"/api/runs/{run}")).json()["status"]
        stopped = await http.post(f"/slow/api/chat/{thread}/stop")

        assert (elsewhere.status_code, still, stopped.status_code) == (204, "running", 204)
        assert (await http.get(f"/api/runs/{run}")).json()["status"] == "cancelled"
        assert (await http.get(f"/slow/api/chat/{thread}/stream")).status_code == 204
        assert await branch(http, thread) == [("user", "a"), ("assistant", "begin ")]


# Variants by header


@each_route
async def test_a_variant_is_named_by_header_and_the_body_lies_over_it(route: str) -> None:
    async with thread_server() as (http, _):
        loud = {"name": "loud", "parameters": {"style": "LOUD"}}
        (await http.post("/api/workflows/echo/variants", json=loud)).raise_for_status()

        answer = await ask(http, route, "hi", x_palaver_variant="loud")
        unknown = await ask(http, route, "hi", x_palaver_variant="loud:2")

        assert "LOUD(user: hi)" in answer.text
        assert unknown.status_code == (422 if route in ("invoke", "run") else 400)
        assert "has no variant 'loud:2'" in unknown.text
        (run,) = (await http.get("/api/runs", params={"variant": "loud"})).json()["data"]
        assert run["variant"] == "loud:1"


async def test_parameters_of_the_body_lie_over_those_of_the_variant() -> None:
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


# Once


@pytest.mark.parametrize("route", ["responses", "invocations", "chat completions", "invoke", "run", "ui stream"])
async def test_a_call_with_a_key_is_made_once(route: str) -> None:
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


async def test_a_stream_with_a_key_is_told_again_from_its_start() -> None:
    async with thread_server() as (http, _):
        body, key = {"input": "a", "stream": True}, {"idempotency-key": "k"}

        async with http.stream("POST", "/slow/v1/responses", json=body, headers=key) as first:
            again = asyncio.ensure_future(http.post("/slow/v1/responses", json=body, headers=key))
            pieces = [await anext(reading := first.aiter_text())]
            release("a")
            pieces += [piece async for piece in reading]

        assert (await again).text == "".join(pieces)


async def test_a_call_that_was_refused_or_whose_key_is_none() -> None:
    async with thread_server() as (http, _):
        refused = await ask(http, "responses", "hi", idempotency_key="k", x_palaver_variant="late")
        (
            await http.post("/api/workflows/echo/variants", json={"name": "late", "parameters": {"style": "LATE"}})
        ).raise_for_status()
        made = await ask(http, "responses", "hi", idempotency_key="k", x_palaver_variant="late")
        wrong = await ask(http, "responses", "hi", idempotency_key="k" * 129)

        assert (refused.status_code, made.status_code, wrong.status_code) == (400, 200, 400)
        assert "LATE(user: hi)" in made.text


async def test_a_call_in_a_conversation_is_made_once() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        body = {"input": "hi", "conversation": thread}

        first = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})
        again = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})

        assert first.json()["id"] == again.json()["id"]
        assert await branch(http, thread) == [("user", "hi"), ("assistant", "user: hi")]


# Chats that are threads


def ui(role: str, text: str, name: str, *more: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "role": role, "parts": [*([{"type": "text", "text": text}] if text else []), *more]}


def ui_parts(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: {")]
    return [msgspec.json.decode(line) for line in lines]


async def chat(http: httpx.AsyncClient, thread: str, *messages: dict[str, Any], name: str = "echo", **more: Any) -> str:
    """Send a UI client's list; the id of the message that it begins."""
    answer = await http.post(f"/{name}/api/chat", json={"id": thread, "messages": list(messages), **more})
    return ui_parts(answer)[0]["messageId"]


async def test_a_chat_with_the_id_of_a_thread_goes_on_in_it() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)

        first = await chat(http, thread, ui("user", "one", "u1"))
        second = await chat(
            http, thread, ui("user", "one", "u1"), ui("assistant", "forged", first), ui("user", "two", "u2")
        )

        assert [(node["id"], node["parts"][0]["text"]) for node in await nodes(http, thread)] == [
            ("u1", "one"),
            (first, "user: one"),
            ("u2", "two"),
            (second, "user: one | assistant: user: one | user: two"),
        ]


async def test_what_was_said_and_not_answered_is_not_said_twice() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "broken")

        refused = await http.post("/broken/api/chat", json={"id": thread, "messages": [ui("user", "one", "u1")]})
        (
            await http.post(
                "/broken/api/chat", json={"id": thread, "messages": [ui("user", "one", "u1"), ui("user", "two", "u2")]}
            )
        ).raise_for_status()

        assert refused.status_code == 200
        assert await branch(http, thread) == [("user", "one"), ("user", "two")]


async def test_a_message_that_is_edited_gets_a_sibling() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        first = await chat(http, thread, ui("user", "one", "u1"))
        await chat(http, thread, ui("user", "one", "u1"), ui("assistant", "x", first), ui("user", "two", "u2"))

        await chat(
            http,
            thread,
            ui("user", "one", "u1"),
            ui("assistant", "x", first),
            ui("user", "changed", "u2"),
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
async def test_an_answer_is_made_anew(named: str) -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        first = await chat(http, thread, ui("user", "one", "u1"))
        about = {"answer": first, "question": "u1", "nothing": None}[named]

        second = await chat(http, thread, ui("user", "one", "u1"), trigger="regenerate-message", messageId=about)

        shown = await nodes(http, thread)
        assert [node["id"] for node in shown] == ["u1", second]
        assert shown[-1]["siblings"] == [first, second]


async def test_a_result_of_the_clients_own_tool_is_taken_from_its_list() -> None:
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

        message = await chat(http, thread, ui("user", "one", "u1"), ui("assistant", "", before[1]["id"], done))

        shown = await nodes(http, thread)
        assert message == before[1]["id"]  # The client goes on in it.
        assert [node["role"] for node in shown] == ["user", "assistant", "tool", "assistant"]
        assert shown[2]["parts"][0]["output"] == "here"
        assert shown[2]["parent"] == before[1]["id"]


async def test_an_approval_is_taken_from_the_clients_list() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http)
        call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
        asking = {"id": "a1", "role": "assistant", "content": "May I?", "tool_calls": [call]}
        (
            await http.post(
                f"/api/threads/{thread}/messages",
                json={"messages": [{"id": "u1", "role": "user", "content": "pay"}, asking]},
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
        given = {**part, "approval": {"id": "c1", "approved": True}}

        await chat(http, thread, ui("user", "pay", "u1"), ui("assistant", "May I?", before[1]["id"], given))

        shown = await nodes(http, thread)
        assert [node["role"] for node in shown] == ["user", "assistant", "user", "assistant"]
        assert shown[2]["parts"] == [
            {"type": "data", "name": "approval-response", "value": {"id": "c1", "approve": True, "reason": None}}
        ]


async def test_a_new_message_in_a_chat_ends_the_run_before() -> None:
    async with thread_server() as (http, _):
        thread = await new_thread(http, "slow")
        async with http.stream(
            "POST", "/slow/api/chat", json={"id": thread, "messages": [ui("user", "a", "u1")]}
        ) as first:
            await anext(first.aiter_bytes())
        run = await wait_for_start(http, thread)
        release("b")

        await chat(
            http, thread, ui("user", "a", "u1"), ui("assistant", "begin", "m"), ui("user", "b", "u2"), name="slow"
        )

        assert (await http.get(f"/api/runs/{run}")).json()["status"] == "cancelled"
        assert await branch(http, thread) == [
            ("user", "a"),
            ("assistant", "begin "),
            ("user", "b"),
            ("assistant", "begin end of b"),
        ]


async def test_a_chat_with_the_id_of_no_thread() -> None:
    async with thread_server() as (http, _):
        unknown = await http.post("/echo/api/chat", json={"id": "conv_none", "messages": [ui("user", "a", "u1")]})
        own = await http.post("/echo/api/chat", json={"id": "mine", "messages": [ui("user", "a", "u1")]})

        assert (unknown.status_code, own.status_code) == (404, 200)
        assert (await http.get("/echo/api/chat/conv_none/stream")).status_code == 204
        assert (await http.post("/echo/api/chat/conv_none/stop")).status_code == 204
        assert (await http.get("/api/threads")).json()["data"] == []


async def test_a_chat_that_is_sent_again_under_its_key_does_not_end_itself() -> None:
    async with thread_server() as (http, _):
        body, key = {"id": "mine", "messages": [ui("user", "a", "u1")]}, {"idempotency-key": "k"}

        first = asyncio.ensure_future(http.post("/slow/api/chat", json=body, headers=key))
        again = asyncio.ensure_future(http.post("/slow/api/chat", json=body, headers=key))
        for _ in range(20):
            await asyncio.sleep(0.01)
        release("a")

        assert (await first).text == (await again).text
        assert "end of a" in (await first).text


# Responses


async def test_a_response_goes_on_from_the_one_before() -> None:
    async with thread_server() as (http, _):
        first = (await http.post("/echo/v1/responses", json={"input": "one", "instructions": "Be."})).json()
        second = (
            await http.post("/echo/v1/responses", json={"input": "two", "previous_response_id": first["id"]})
        ).json()
        third = await http.post("/echo/v1/responses", json={"input": "three", "previous_response_id": second["id"]})

        said_first = f"{first['output'][0]['content'][0]['text']}"
        said_second = f"user: one | assistant: {said_first} | user: two"
        assert second["output"][0]["content"][0]["text"] == said_second
        assert (
            third.json()["output"][0]["content"][0]["text"] == f"{said_second} | assistant: {said_second} | user: three"
        )
        run = (await http.get(f"/api/runs/{third.headers['x-palaver-run-id']}", params={"include": "input"})).json()
        assert len(run["input"]["messages"]) == 5


async def test_a_response_goes_on_from_none_that_is_not_its_own_or_has_not_ended() -> None:
    async with thread_server() as (http, _):
        first = (await http.post("/echo/v1/responses", json={"input": "one"})).json()["id"]
        slow = asyncio.ensure_future(http.post("/slow/v1/responses", json={"input": "a"}))
        async with asyncio.timeout(10):
            while not (going := (await http.get("/api/runs", params={"status": "running"})).json()["data"]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        alive = going[0]["id"].replace("run_", "resp_")

        async def after(name: str, previous: str) -> tuple[int, str]:
            body = {"input": "x", "previous_response_id": previous}
            return code_of(await http.post(f"/{name}/v1/responses", json=body))

        assert await after("slow", first) == (404, "previous_response_not_found")
        assert await after("echo", "resp_none") == (404, "previous_response_not_found")
        assert await after("slow", alive) == (400, "still_running")
        release("a")
        await slow


async def test_a_response_joins_a_conversation() -> None:
    async with thread_server() as (http, _):
        thread = (await http.post("/v1/conversations", json={})).json()["id"]

        for text in ("one", "two"):
            (await http.post("/echo/v1/responses", json={"input": text, "conversation": thread})).raise_for_status()
        again = await http.post("/echo/v1/responses", json={"input": [], "conversation": {"id": thread}})
        unknown = await http.post("/echo/v1/responses", json={"input": "x", "conversation": "conv_none"})

        shown = await branch(http, thread)
        assert [role for role, _ in shown] == ["user", "assistant"] * 2 + ["assistant"]
        assert again.status_code == 200
        assert code_of(unknown) == (404, "conversation_not_found")


async def test_a_response_refers_to_what_was_said_elsewhere() -> None:
    async with thread_server() as (http, _):
        first = (await http.post("/echo/v1/responses", json={"input": "one"})).json()
        thread = await new_thread(http, "echo", "in a thread")
        (node,) = await nodes(http, thread)
        item = {"type": "item_reference", "id": first["output"][0]["id"]}
        other = {"type": "item_reference", "id": node["id"]}
        asking = {"role": "user", "content": "two"}

        answer = await http.post("/echo/v1/responses", json={"input": [other, item, asking]})
        in_chain = await http.post(
            "/echo/v1/responses", json={"input": [item, asking], "previous_response_id": first["id"]}
        )
        unknown = await http.post(
            "/echo/v1/responses", json={"input": [{"type": "item_reference", "id": "msg_none"}, asking]}
        )

        text = answer.json()["output"][0]["content"][0]["text"]
        assert text == "user: in a thread | assistant: user: one | user: two"
        assert in_chain.json()["output"][0]["content"][0]["text"] == "user: one | assistant: user: one | user: two"
        assert code_of(unknown) == (404, "item_not_found")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_in_the_background_is_begun_once(stream: bool) -> None:
    async with thread_server() as (http, _):
        body = {"input": "hi", "background": True, "stream": stream}

        first = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})
        run = first.headers["x-palaver-run-id"]
        await wait_for_run(http, run)
        again = await http.post("/echo/v1/responses", json=body, headers={"idempotency-key": "k"})

        assert again.headers["x-palaver-run-id"] == run
        assert "user: hi" in again.text
        assert len((await http.get("/api/runs")).json()["data"]) == 1


async def test_a_server_that_is_full_says_so() -> None:
    async with thread_server(max_streams_total=0) as (http, _):
        thread = await new_thread(http)

        assert (await ask(http, "responses", "hi")).status_code == 503
        assert (await http.post(f"/api/threads/{thread}/turns", json={})).status_code == 503
        assert (await ask(http, "responses", "hi", "unknown")).status_code == 404


async def test_what_was_not_kept_cannot_be_told_again() -> None:
    async with thread_server(record="metadata") as (http, _):
        first = await ask(http, "invoke", "hi", idempotency_key="k")
        again = await ask(http, "invoke", "hi", idempotency_key="k")

        assert (first.status_code, again.status_code) == (200, 404)
        assert len((await http.get("/api/runs")).json()["data"]) == 1


# Chats that are no threads


async def test_a_chat_of_the_clients_own_is_resumed_interrupted_and_stopped_by_its_name() -> None:
    async with thread_server() as (http, _):
        body = {"id": "mine", "messages": [ui("user", "a", "u1")]}

        async def leave(text: str) -> str:
            said = {**body, "messages": [ui("user", text, "u1")]}
            async with http.stream("POST", "/slow/api/chat", json=said) as stream:
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
