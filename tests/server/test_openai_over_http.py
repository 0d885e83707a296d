"""The OpenAI-compatible routes and /api/chat over HTTP: paths, choice of the workflow, and errors."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from palaver import Message, chat
from palaver.testing import client, echo, scripted

RESPONSES = ("/v1/responses", "/responses", "/invocations")
CALLS = (*RESPONSES, "/v1/chat/completions")


@chat
async def tutor(messages: list[Message], subject: str = "maths") -> AsyncIterator[str]:
    """Explains a subject."""
    yield f"{messages[-1].text} "
    yield f"about {subject}."


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client(tutor, scripted, echo, default="tutor") as opened:
        yield opened


def request_body(text: str = "Why?", **more: Any) -> dict[str, Any]:
    """A body that both protocols of the family understand."""
    return {"input": text, "messages": [{"role": "user", "content": text}], **more}


def answer_text(answer: httpx.Response) -> str:
    body = answer.json()
    if "choices" in body:
        return body["choices"][0]["message"]["content"]
    return "".join(part["text"] for item in body["output"] for part in item.get("content", ()))


def event_types(body: str) -> list[str]:
    lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [msgspec.json.decode(line)["type"] for line in lines]


@pytest.mark.parametrize("path", CALLS)
async def test_a_workflow_answers_under_its_name_and_at_the_root(http: httpx.AsyncClient, path: str) -> None:
    for url, body in (
        (f"/tutor{path}", request_body()),
        (f"/tutor{path}/", request_body(model="anything")),
        (path, request_body()),
        (path, request_body(model="tutor")),
    ):
        answer = await http.post(url, json=body)
        assert (answer.status_code, answer_text(answer)) == (200, "Why? about maths.")


@pytest.mark.parametrize("path", CALLS)
async def test_the_model_selects_the_workflow_at_the_root(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.post(path, json=request_body("[]", model="scripted"))

    assert (answer.status_code, answer_text(answer)) == (200, "")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
async def test_an_unknown_model_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.post(path, json=request_body(model="gpt-9"))

    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": "Workflow 'gpt-9' not found. Available: echo, scripted, tutor.",
        "type": "not_found",
        "code": "model_not_found",
        "param": None,
    }


async def test_without_a_default_the_root_needs_a_model() -> None:
    async with client(tutor, scripted) as http:
        for path in CALLS:
            answer = await http.post(path, json=request_body())

            assert answer.status_code == 400
            assert answer.json()["error"] == {
                "message": "Missing required parameter: model. This server has no default workflow. "
                "Available: scripted, tutor.",
                "type": "invalid_request",
                "code": "missing_required_parameter",
                "param": "model",
            }
            assert (await http.post(path, json=request_body(model="tutor"))).status_code == 200


async def test_mlflow_clients_may_name_a_model_that_is_no_workflow_only_with_a_default(http: httpx.AsyncClient) -> None:
    with_default = await http.post("/invocations", json=request_body(model="title-model"))
    async with client(tutor, scripted) as without:
        refused = await without.post("/invocations", json=request_body(model="title-model"))

    assert (with_default.status_code, answer_text(with_default)) == (200, "Why? about maths.")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("prefix", ["", "/tutor"])
@pytest.mark.parametrize(
    ("route", "message"),
    [
        ("input_tokens", "Counting input tokens is not supported: only a workflow knows its tokenizer."),
        ("compact", "Compacting a conversation is not supported: only a workflow knows its model."),
    ],
)
async def test_unsupported_routes_of_responses_are_not_taken_for_ids(
    http: httpx.AsyncClient, method: str, prefix: str, route: str, message: str
) -> None:
    for version in ("/v1", ""):
        body = request_body() if method == "POST" else None
        answer = await http.request(method, f"{prefix}{version}/responses/{route}", json=body)

        assert answer.status_code == 404
        assert answer.json()["error"] == {"message": message, "type": "not_found", "code": "not_found", "param": None}


@pytest.mark.parametrize("path", CALLS)
async def test_custom_inputs_become_the_inputs_of_the_workflow(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.post(f"/tutor{path}", json=request_body(custom_inputs={"subject": "art", "thread_id": "t"}))
    wrong = await http.post(f"/tutor{path}", json=request_body(custom_inputs={"subject": 5}))
    unknown = await http.post(f"/tutor{path}", json=request_body(custom_inputs={"subjct": "art"}))

    assert answer_text(answer) == "Why? about art."
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_input")
    assert wrong.json()["error"]["param"] == "custom_inputs.subject"
    error = unknown.json()["error"]
    assert (unknown.status_code, error["code"], error["param"]) == (400, "unknown_input", "custom_inputs.subjct")
    assert error["message"] == "Unknown input 'subjct'. Available: subject."


@pytest.mark.parametrize("path", CALLS)
async def test_a_workflow_that_is_not_a_chat_answers_with_its_value_as_text(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.post(f"/echo{path}", json=request_body(custom_inputs={"a": [1]}))

    assert (answer.status_code, answer_text(answer)) == (200, '{"a":[1]}')


@pytest.mark.parametrize("path", CALLS)
async def test_invalid_methods_media_types_and_bodies_get_openai_errors(http: httpx.AsyncClient, path: str) -> None:
    got = await http.get(f"/tutor{path}")
    text = await http.post(f"/tutor{path}", content="x", headers={"content-type": "text/plain"})
    broken = await http.post(f"/tutor{path}", content="{", headers={"content-type": "application/json"})
    unknown = await http.post(f"/nobody{path}", json=request_body())

    assert (got.status_code, got.headers["allow"]) == (405, "POST")
    assert [answer.json()["error"]["code"] for answer in (got, text, broken, unknown)] == [
        "method_not_allowed",
        "unsupported_media_type",
        "invalid_json",
        "model_not_found",
    ]


@pytest.mark.parametrize("path", RESPONSES)
async def test_a_run_that_fails_at_once_is_an_error_status_or_a_failed_stream(
    http: httpx.AsyncClient, path: str
) -> None:
    script = {"script": [{"fail": {"code": "model_down", "message": "The model is down.", "status": 502}}]}

    plain = await http.post(f"/scripted{path}", json=request_body(custom_inputs=script))
    stream = await http.post(f"/scripted{path}", json=request_body(custom_inputs=script, stream=True))

    assert (plain.status_code, plain.json()["error"]["code"]) == (502, "model_down")
    assert plain.headers["x-should-retry"] == "false"
    assert stream.status_code == 200
    assert "error" in event_types(stream.text)
    assert event_types(stream.text)[-1] == "response.failed"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/responses/resp_1?stream=true"),
        ("DELETE", "/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("GET", "/v1/conversations/conv_1"),
        ("DELETE", "/conversations/conv_1"),
        ("GET", "/conversations/conv_1/items"),
        ("GET", "/conversations/conv_1/items/item_1"),
    ],
)
async def test_unknown_responses_and_conversations_are_not_found(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    for url in (path, f"/tutor{path}"):
        answer = await http.request(method, url)
        kind = "response" if "resp_1" in path else "conversation"
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, f"{kind}_not_found")
    unknown_workflow = await http.request(method, f"/nobody{path}")
    assert (unknown_workflow.status_code, unknown_workflow.json()["error"]["code"]) == (404, "model_not_found")


async def test_a_wrong_method_on_a_storage_route_is_405_with_an_allow_header(
    http: httpx.AsyncClient,
) -> None:
    for method, path, allowed in (
        ("GET", "/v1/conversations", "POST"),
        ("POST", "/v1/responses/resp_1", "DELETE, GET, HEAD"),
        ("GET", "/v1/responses/resp_1/cancel", "POST"),
        ("POST", "/v1/responses/resp_1/input_items", "GET, HEAD"),
        ("PUT", "/v1/conversations/conv_1", "DELETE, GET, HEAD, POST"),
    ):
        answer = await http.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


async def test_a_stored_response_is_served_below_its_workflow_and_at_the_root(http: httpx.AsyncClient) -> None:
    made = await http.post("/tutor/v1/responses", json=request_body())
    name = made.json()["id"]

    for path in (f"/v1/responses/{name}", f"/responses/{name}", f"/tutor/responses/{name}/"):
        stored = await http.get(path)
        assert (stored.status_code, stored.content) == (200, made.content)
        assert (await http.head(path)).content == b""
    assert (await http.get(f"/scripted/v1/responses/{name}")).status_code == 404
    assert (await http.delete(f"/scripted/v1/responses/{name}")).status_code == 404
    after = request_body(previous_response_id=name)
    assert (await http.post("/scripted/v1/responses", json=after)).status_code == 404
    assert (await http.post("/v1/responses", json=after)).status_code == 200


async def test_a_conversation_is_limited_to_the_workflow_it_was_created_below(http: httpx.AsyncClient) -> None:
    shared = (await http.post("/v1/conversations")).json()["id"]
    limited = (await http.post("/tutor/v1/conversations", json={})).json()["id"]

    async def status(workflow: str, conversation: str) -> int:
        body = request_body(conversation=conversation, model=workflow)
        return (await http.post("/v1/responses", json=body)).status_code

    assert [await status(workflow, shared) for workflow in ("tutor", "scripted")] == [200, 200]
    assert [await status(workflow, limited) for workflow in ("tutor", "scripted")] == [200, 404]
    assert (await http.get(f"/scripted/conversations/{shared}")).status_code == 200
    assert (await http.get(f"/scripted/conversations/{limited}")).status_code == 404


async def test_the_models_route_lists_only_chats(http: httpx.AsyncClient) -> None:
    all_models = (await http.get("/v1/models")).json()
    models_below_scripted = (await http.get("/scripted/v1/models")).json()
    one = await http.get("/v1/models/tutor")

    assert [model["id"] for model in all_models["data"]] == ["scripted", "tutor"]
    assert [model["id"] for model in models_below_scripted["data"]] == ["scripted"]
    assert one.json() == all_models["data"][1]
    assert one.json()["object"] == "model"
    for name in ("echo", "nobody"):
        assert (await http.get(f"/v1/models/{name}")).status_code == 404


async def test_agent_info_describes_the_workflow(http: httpx.AsyncClient) -> None:
    assert (await http.get("/agent/info")).json() == {
        "name": "tutor",
        "use_case": "agent",
        "agent_api": "responses",
    }
    assert (await http.get("/scripted/agent/info")).json()["name"] == "scripted"
    assert (await http.get("/nobody/agent/info")).status_code == 404


# The AI SDK's route


def ui_body(script: list[Any], chat_id: str = "chat-1") -> dict[str, Any]:
    text = msgspec.json.encode(script).decode()
    return {"id": chat_id, "messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": text}]}]}


async def test_stopping_a_chat_sends_abort_to_its_reader(http: httpx.AsyncClient) -> None:
    async with http.stream("POST", "/scripted/api/chat", json=ui_body([{"text": "Hi"}, {"sleep": 60}])) as stream:
        body = ""
        async for piece in stream.aiter_text():
            body += piece
            if '"delta":"Hi"' in body and "abort" not in body:
                stopped = await http.post("/scripted/api/chat/chat-1/stop")
                assert stopped.status_code == 204

    assert event_types(body)[-1] == "abort"
    assert (await http.post("/scripted/api/chat/chat-1/stop")).status_code == 204
    assert (await http.get("/scripted/api/chat/chat-1/stream")).status_code == 204
    assert (await http.post("/nobody/api/chat/chat-1/stop")).status_code == 404


async def test_the_next_message_interrupts_the_running_answer_of_the_same_chat(http: httpx.AsyncClient) -> None:
    first = asyncio.create_task(http.post("/scripted/api/chat", json=ui_body([{"text": "Hi"}, {"sleep": 60}])))
    other = asyncio.create_task(http.post("/scripted/api/chat", json=ui_body([{"sleep": 60}], "chat-2")))
    async with asyncio.timeout(60):
        while not await _has_active_runs(http, 2):  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.01)

    second = await http.post("/scripted/api/chat", json=ui_body([{"text": "Again"}]))

    assert event_types(second.text)[-1] == "finish"
    assert event_types((await first).text)[-1] == "abort"
    assert not other.done()
    assert (await http.post("/scripted/api/chat/chat-2/stop")).status_code == 204
    await other


async def _has_active_runs(http: httpx.AsyncClient, count: int) -> bool:
    return f"palaver_runs_alive {count}.0" in (await http.get("/metrics")).text


async def test_errors_of_the_chat_route_are_plain_text(http: httpx.AsyncClient) -> None:
    answer = await http.post("/scripted/api/chat", json={"messages": 5})

    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (400, "text/plain")
    assert "messages" in answer.text
