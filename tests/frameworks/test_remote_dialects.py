"""Remote services that speak Responses or Chat Completions, including other Palaver servers."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from palaver import chat
from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningEnded,
    RunCancelled,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.fold import fold
from palaver.core.messages import Message, Usage
from palaver.core.runs import Call
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.frameworks import remote
from palaver.frameworks.remote import RemoteService, RemoteWorkflow
from palaver.testing import client, echo, scripted
from palaver.workflows.workflow import Workflow
from tests.frameworks.fake_servers import ReceivedRequest, fake_server, full_response, response_head, serve_workflows

HELLO = (Message.user("Hello"),)
DONE = b"data: [DONE]\n\n"


async def run_workflow(workflow: Workflow, *, attend: Any = None, **call: Any) -> Run:
    workflow_call = Call(**({"workflow": workflow.description.name, "messages": HELLO} | call))
    run = Engine().start(workflow, workflow_call, consumer=attend)
    await run.wait_ended()
    return run


def frame(**fields: Any) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def named_frame(**fields: Any) -> bytes:
    return f"event: {fields['type']}\n".encode() + frame(**fields)


def delta(text: str) -> bytes:
    return frame(type="response.output_text.delta", item_id="m", delta=text)


def item_done(text: str) -> bytes:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    return frame(type="response.output_item.done", item=item)


def chunk(finish: str | None = None, **piece: Any) -> bytes:
    return frame(object="chat.completion.chunk", choices=[{"index": 0, "delta": piece, "finish_reason": finish}])


USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
MLFLOW = response_head() + delta("Hel") + delta("lo") + item_done("Hello") + DONE
OPENAI = response_head("text/event-stream; charset=utf-8") + b"".join(
    [
        named_frame(type="response.created", sequence_number=0, response={"id": "resp_1", "status": "in_progress"}),
        named_frame(
            type="response.output_item.added", output_index=0, item={"type": "message", "id": "m", "content": []}
        ),
        named_frame(type="response.output_text.delta", item_id="m", output_index=0, content_index=0, delta="Hel"),
        named_frame(type="response.output_text.delta", item_id="m", output_index=0, content_index=0, delta="lo"),
        named_frame(type="response.output_text.done", item_id="m", output_index=0, content_index=0, text="Hello"),
        named_frame(type="response.completed", response={"status": "completed", "output": [], "usage": USAGE}),
    ]
)
COMPLETIONS = (
    response_head()
    + chunk(role="assistant", content="")
    + chunk(content="Hel")
    + chunk(content="lo")
    + chunk("stop")
    + frame(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 4})
    + DONE
)
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
RESPONSE = {"object": "response", "status": "completed", "output": [MESSAGE]}
COMPLETION = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}

DIALECTS = [("responses", MLFLOW), ("responses", OPENAI), ("chat-completions", COMPLETIONS)]
NAMES = ["MLflow", "OpenAI", "Chat Completions"]


# Other servers


@pytest.mark.parametrize(("dialect", "answer"), DIALECTS, ids=NAMES)
async def test_a_stream_of_another_service_is_available_over_every_protocol(dialect: str, answer: bytes) -> None:
    with fake_server(answer) as server:
        async with client(server.workflow(dialect=dialect)) as http:
            invoked = await http.post("/far/invoke", json={"messages": [{"role": "user", "content": "Hi"}]})
            responded = await http.post("/far/v1/responses", json={"input": "Hi"})
            invocated = await http.post("/far/invocations", json={"input": [{"role": "user", "content": "Hi"}]})
            completed = await http.post(
                "/far/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
            )

    assert invoked.json() == {"role": "assistant", "content": "Hello"}
    assert responded.json()["output"][0]["content"][0]["text"] == "Hello"
    assert invocated.json()["output"][0]["content"][0]["text"] == "Hello"
    assert completed.json()["choices"][0]["message"]["content"] == "Hello"
    assert [call.body["stream"] for call in server.requests] == [True] * 4


@pytest.mark.parametrize(("dialect", "answer"), DIALECTS, ids=NAMES)
async def test_deltas_of_another_service_are_passed_on_one_by_one(dialect: str, answer: bytes) -> None:
    with fake_server(answer) as server:
        log = (await run_workflow(server.workflow(dialect=dialect))).log

    assert [one.delta for one in log if isinstance(one, TextDelta)] == ["Hel", "lo"]
    assert isinstance(log[-1], RunFinished)
    assert (log[-1].finish, log[-1].usage) == (
        "stop",
        None if answer is MLFLOW else Usage(input_tokens=3, output_tokens=4),
    )


@pytest.mark.parametrize(
    ("dialect", "answer"), [("responses", RESPONSE), ("chat-completions", COMPLETION)], ids=lambda one: str(one)[:16]
)
async def test_a_service_that_does_not_stream_may_send_a_complete_response(dialect: str, answer: Any) -> None:
    with fake_server(full_response(answer)) as server:
        run = await run_workflow(server.workflow(dialect=dialect))

    assert server.requests[0].body["stream"] is True
    assert [message.text for message in fold(run.log).messages] == ["Hello"]


def second_delta_offset(answer: bytes) -> int:
    """Return the offset of the frame with the second delta."""
    return answer.rindex(b"\n\n", 0, answer.index(b'"lo"')) + 2


@pytest.mark.parametrize(("dialect", "answer"), DIALECTS, ids=NAMES)
async def test_the_first_delta_arrives_before_the_second_is_sent(dialect: str, answer: bytes) -> None:
    arrived = threading.Event()
    cut = second_delta_offset(answer)

    def halting(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(answer[:cut])
        assert arrived.wait(20)
        connection.sendall(answer[cut:])

    async def attend(events: Sequence[Event]) -> None:
        if any(isinstance(one, TextDelta) for one in events):
            arrived.set()

    with fake_server(halting) as server:
        run = await run_workflow(server.workflow(dialect=dialect), attend=attend)

    assert fold(run.log).messages[0].text == "Hello"


@pytest.mark.parametrize(("dialect", "answer"), DIALECTS, ids=NAMES)
async def test_cancelling_closes_the_connection_to_the_service(dialect: str, answer: bytes) -> None:
    closed = threading.Event()
    cut = second_delta_offset(answer)

    def waiting(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(answer[:cut])
        if connection.recv(1) == b"":
            closed.set()

    async def attend(events: Sequence[Event]) -> None:
        if any(isinstance(one, TextDelta) for one in events):
            asyncio.get_running_loop().call_soon(run.cancel)

    with fake_server(waiting) as server:
        run = Engine().start(server.workflow(dialect=dialect), Call(workflow="far", messages=HELLO), consumer=attend)
        await run.wait_ended()
        assert await asyncio.to_thread(closed.wait, 10)

    assert isinstance(run.log[-1], RunCancelled)
    assert fold(run.log).messages[0].text == "Hel"


@pytest.mark.parametrize(
    ("dialect", "answer", "expected_text", "message"),
    [
        ("responses", response_head() + delta("Hel") + frame(error="No\ntea.") + DONE, "Hel", "far failed: No\\ntea."),
        (
            "responses",
            response_head() + delta("Hel") + frame(type="response.failed", response={"error": {"message": "No tea."}}),
            "Hel",
            "far failed: No tea.",
        ),
        ("responses", full_response({"detail": "Bad."}, status="400 Bad Request"), "", "far returned status 400: Bad."),
        (
            "responses",
            full_response({"error": {"message": "No model."}}, status="404 Oh"),
            "",
            "far returned status 404: No model.",
        ),
        ("responses", response_head(content_length="999") + delta("Hel"), "Hel", "The connection to far was lost."),
        (
            "responses",
            response_head() + delta("Hel") + b'data: {"ty',
            "Hel",
            "The remote service sent a record that is not JSON.",
        ),
        (
            "chat-completions",
            response_head() + chunk(content="Hel") + frame(error={"message": "No tea."}),
            "Hel",
            "far failed: No tea.",
        ),
    ],
)
async def test_a_failure_of_another_service_is_reported_after_the_text_before_it(
    dialect: str, answer: bytes, expected_text: str, message: str
) -> None:
    with fake_server(answer) as server:
        log = (await run_workflow(server.workflow(dialect=dialect))).log

    assert isinstance(log[-1], RunFailed)
    assert ("".join(one.delta for one in log if isinstance(one, TextDelta)), log[-1].message) == (
        expected_text,
        message,
    )
    assert log[-1].code == "upstream_failed"


async def test_a_stream_without_a_terminal_event_finishes_the_run() -> None:
    with fake_server(response_head() + delta("Hel")) as server:
        log = (await run_workflow(server.workflow(dialect="responses"))).log

    assert isinstance(log[-1], RunFinished)
    assert fold(log).messages[0].text == "Hel"


# Workflows that are not chats


@pytest.mark.parametrize(
    ("dialect", "answer", "value"),
    [
        ("responses", full_response(RESPONSE), "Hello"),
        ("responses", MLFLOW, "Hello"),
        (
            "responses",
            full_response({"output": [MESSAGE, {"type": "palaver:data", "id": "d", "name": "output", "value": [1]}]}),
            [1],
        ),
        ("responses", full_response({"any": "thing"}), {"any": "thing"}),
        ("chat-completions", full_response(COMPLETION), "Hello"),
    ],
)
async def test_a_workflow_that_is_not_a_chat_returns_the_value_of_the_response(
    dialect: str, answer: bytes, value: Any
) -> None:
    with fake_server(answer) as server:
        run = await run_workflow(server.workflow(dialect=dialect, is_chat=False), messages=(), inputs={"x": 1})

    assert fold(run.log).value == value
    assert [type(one).__name__ for one in run.log] == ["RunStarted", "RunFinished"]
    assert server.requests[0].body["custom_inputs"] == {"x": 1}
    assert server.requests[0].body.get("stream", False) is False


async def test_a_value_over_the_size_limit_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_REPLY_BYTES", 1000)
    with fake_server(response_head() + delta("x") * 100) as server:
        end = (await run_workflow(server.workflow(dialect="responses", is_chat=False), messages=())).log[-1]

    assert isinstance(end, RunFailed)
    assert end.message == "The response from far exceeds the limit of 1,000 bytes."


@pytest.mark.parametrize(
    ("end", "kind"),
    [({"status": "failed", "error": {"message": "No."}}, RunFailed), ({"status": "cancelled"}, RunCancelled)],
)
async def test_a_failed_or_cancelled_response_fails_or_cancels_the_run(end: Any, kind: type) -> None:
    with fake_server(full_response({**RESPONSE, **end})) as server:
        run = await run_workflow(server.workflow(dialect="responses", is_chat=False), messages=())

    assert isinstance(run.log[-1], kind)


async def test_a_chat_discovered_at_its_first_call_returns_its_messages() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "now", "arguments": "{}"}
    answers = [
        full_response({**RESPONSE, "usage": USAGE}),
        full_response(
            {**RESPONSE, "output": [call, {"type": "function_call_output", "call_id": "c1", "output": "x"}, MESSAGE]}
        ),
    ]

    def answer(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(answers.pop(0))

    hello = {"role": "assistant", "content": "Hello"}
    with fake_server(answer) as server:
        described = server.workflow(dialect="responses")
        service = RemoteService(url=f"{server.url}/responses", dialect="responses", description=described.description)

        async def discover() -> RemoteService:
            return service

        values = []
        for _ in range(2):
            unknown = Description(name="far", flags={"is_chat": False}, remote=True)
            undiscovered = RemoteWorkflow(
                None, placeholder=unknown, url=server.url, discover=discover, headers={}, timeout=20
            )
            history = [{"role": "user", "content": "Hi"}]
            values.append(fold((await run_workflow(undiscovered, messages=(), inputs={"messages": history})).log))

    assert values[0].value == hello
    assert values[0].usage == Usage(input_tokens=3, output_tokens=4)
    assert values[1].value[1:] == [{"role": "tool", "tool_call_id": "c1", "content": "x"}, hello]
    assert [received.body["input"] for received in server.requests] == [
        [{"type": "message", "role": "user", "content": "Hi"}]
    ] * 2


# A Palaver server behind another


@pytest.fixture(scope="module")
def palaver_url() -> Iterator[str]:
    with serve_workflows(scripted, echo) as url:
        yield url


ROUTES = {
    "invoke": ("invoke", "invoke"),
    "responses": ("responses", "v1/responses"),
    "invocations": ("responses", "invocations"),
    "chat-completions": ("chat-completions", "v1/chat/completions"),
}


def remote_workflow(url: str, workflow: Workflow, route: str) -> RemoteWorkflow:
    dialect, path = ROUTES[route]
    description = workflow.description
    service_url = f"{url}/{description.name}/{path}"
    service = RemoteService(
        url=service_url, dialect=dialect, description=description, model="any" if "v1" in path else None
    )

    async def fail_discovery() -> RemoteService:
        raise AssertionError("it is known what stands there")

    return RemoteWorkflow(service, placeholder=description, url=url, discover=fail_discovery, headers={}, timeout=60)


SCRIPTS: dict[str, list[Any]] = {
    "text": [{"text": "Hel"}, {"text": "lo \u2028 ö 👩‍🚀"}],
    "nothing": [],
    "reasoning": [{"reasoning": "Hm"}, {"reasoning": "."}, {"text": "So."}],
    "two messages": [{"text": "One."}, {"break": True}, {"text": "Two."}],
    "tools": [
        {"text": "Let me see."},
        {"tool_call": {"name": "add", "arguments": {"a": 1}, "id": "c1"}},
        {"tool_call": {"name": "add", "arguments": "{oops", "id": "c2"}},
        {"tool_result": {"id": "c1", "output": "2", "error": True}},
        {"tool_result": {"id": "c2", "output": "3"}},
        {"text": "Two."},
    ],
    "a call left open": [{"tool_call": {"name": "add", "arguments": {"a": 1}, "id": "c1"}}],
    "data": [{"data": {"name": "chart", "value": {"x": [1]}}}, {"text": "Look."}],
    "usage": [{"text": "x"}, {"usage": {"input_tokens": 1, "output_tokens": 2}}],
    "an end": [{"text": "Hel"}, {"finish": "length"}],
    "a refusal": [{"message": {"role": "assistant", "content": None, "refusal": "No."}}],
    "a failure": [{"text": "Hel"}, {"fail": {"code": "no_tea", "message": "No tea."}}],
    "many pieces": [{"repeat": {"times": 500, "steps": [{"text": "x "}]}}],
}
UNSUPPORTED_CASES = {
    ("invocations", "a refusal"): "a refusal is plain text there",
    ("chat-completions", "two messages"): "messages are joined",
    ("chat-completions", "tools"): "tools that the server ran are left out",
    ("chat-completions", "data"): "data is left out",
}
"""What a protocol cannot carry (docs/reference/protocols.md); everything else arrives unchanged."""


def summarize_events(log: Sequence[Event]) -> list[Any]:
    """Summarize the events of a run, without ids."""
    output: list[Any] = []
    for one in log:
        match one:
            case TextDelta(delta=piece):
                output.append(piece)
            case TextEnded() | ReasoningEnded():
                output.append((type(one).__name__, one.text))
            case ToolStarted():
                output.append(("call", one.call_id, one.name))
            case ToolEnded():
                output.append(one.arguments)
            case ToolReturned():
                output.append(("result", one.call_id, one.output, one.is_error))
            case PartAdded():
                output.append(one.part)
            case RunFailed():
                output.append(("failed", one.message.removeprefix("scripted failed: ")))
            case RunFinished():
                output.append(("finished", one.finish))
            case _:
                pass
    usage = fold(log).usage
    return [*output, usage and (usage.input_tokens, usage.output_tokens)]


@pytest.mark.parametrize(
    ("route", "script"),
    [(route, script) for route in ROUTES for script in SCRIPTS if (route, script) not in UNSUPPORTED_CASES],
)
async def test_a_script_gives_the_same_output_remotely_as_locally(palaver_url: str, route: str, script: str) -> None:
    local_run = await run_workflow(scripted, messages=(), inputs={"script": SCRIPTS[script]})
    messages = HELLO if route == "chat-completions" else ()  # Chat Completions requires a message.

    remote_run = await run_workflow(
        remote_workflow(palaver_url, scripted, route), messages=messages, inputs={"script": SCRIPTS[script]}
    )

    assert summarize_events(remote_run.log) == summarize_events(local_run.log)


async def test_protocols_lose_only_what_they_cannot_carry(palaver_url: str) -> None:
    async def remote_output(route: str, script: str) -> list[Any]:
        workflow = remote_workflow(palaver_url, scripted, route)
        return summarize_events((await run_workflow(workflow, inputs={"script": SCRIPTS[script]})).log)

    assert await remote_output("invocations", "a refusal") == ["No.", ("TextEnded", "No."), ("finished", "stop"), None]
    assert (await remote_output("chat-completions", "two messages"))[-3:] == [
        ("TextEnded", "One.\n\nTwo."),
        ("finished", "stop"),
        None,
    ]
    assert (await remote_output("chat-completions", "tools"))[-3:] == [
        ("TextEnded", "Let me see.\n\nTwo."),
        ("finished", "stop"),
        None,
    ]
    assert await remote_output("chat-completions", "data") == [
        "Look.",
        ("TextEnded", "Look."),
        ("finished", "stop"),
        None,
    ]


@pytest.mark.parametrize("route", ROUTES.keys())
async def test_the_history_is_sent_to_the_remote_server(palaver_url: str, route: str) -> None:
    history = (Message.user("One"), Message.assistant("Two"), Message.user("Three four"))

    run = await run_workflow(remote_workflow(palaver_url, scripted, route), messages=history)

    assert [one.delta for one in run.log if isinstance(one, TextDelta)] == ["Three ", "four"]


@pytest.mark.parametrize("value", ["text", [1, [2]], {"a": None}], ids=repr)
@pytest.mark.parametrize("route", ["invoke", "responses", "invocations"])
async def test_a_value_is_returned_from_the_remote_server(palaver_url: str, route: str, value: Any) -> None:
    run = await run_workflow(remote_workflow(palaver_url, echo, route), messages=(), inputs={"value": value})

    assert fold(run.log).value == {"value": value}


async def test_a_chat_completion_returns_a_value_as_text(palaver_url: str) -> None:
    run = await run_workflow(remote_workflow(palaver_url, echo, "chat-completions"), inputs={"value": 1})

    assert json.parse_or_text(str(fold(run.log).value)) == {"value": 1}


@pytest.mark.parametrize("route", ROUTES.keys())
async def test_cancelling_a_run_of_a_remote_workflow_cancels_the_remote_run(route: str) -> None:
    remote_cancelled = threading.Event()

    @chat
    async def endless(messages: list[Message]) -> AsyncIterator[str]:
        yield "Hel"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            remote_cancelled.set()
            raise

    async def attend(events: Sequence[Event]) -> None:
        if any(isinstance(one, TextDelta) for one in events):
            asyncio.get_running_loop().call_soon(run.cancel)

    with serve_workflows(endless) as url:
        call = Call(workflow="endless", messages=HELLO)
        run = Engine().start(remote_workflow(url, endless, route), call, consumer=attend)
        await asyncio.wait_for(run.wait_ended(), 10)
        is_remote_cancelled = await asyncio.to_thread(remote_cancelled.wait, 10)  # Before the server stops.

    assert is_remote_cancelled
    assert isinstance(run.log[-1], RunCancelled)
    assert fold(run.log).messages[0].text == "Hel"
