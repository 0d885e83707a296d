"""A remote service as a workflow, over real connections to well-behaved and faulty servers."""

import asyncio
import gzip
import logging
import socket
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, cast

import httpx
import msgspec
import pytest
from msgspec import UNSET

from palaver.core.descriptions import Description
from palaver.core.events import Event, RunCancelled, RunFailed, RunFinished, TextDelta, UsageAdded
from palaver.core.fold import fold
from palaver.core.messages import Message, Usage
from palaver.core.runs import Call, Secret
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.errors import NotDiscovered
from palaver.frameworks import remote
from palaver.frameworks.remote import RemoteService, RemoteWorkflow
from palaver.testing import client, echo, scripted
from palaver.workflows.workflow import Workflow
from tests.frameworks.fake_servers import (
    FakeServer,
    ReceivedRequest,
    event,
    fake_server,
    full_response,
    response_head,
    serve_workflows,
)

HELLO = (Message.user("Hello"),)
DELTA = event("message_delta", id="m", message="m", delta="Hel")


async def run_workflow(workflow: Workflow, *, attend: Any = None, **call: Any) -> Run:
    """Run a workflow to its end."""
    workflow_call = Call(**({"workflow": workflow.description.name, "messages": HELLO} | call))
    run = Engine().start(workflow, workflow_call, consumer=attend)
    await run.wait_ended()
    return run


async def text_and_end(workflow: Workflow, **call: Any) -> tuple[str, Event]:
    """Return the text of a run and its last event."""
    log = (await run_workflow(workflow, **call)).log
    return "".join(one.delta for one in log if isinstance(one, TextDelta)), log[-1]


async def failure(workflow: Workflow, **call: Any) -> tuple[str, str, str]:
    """Return the text of a run, and the code and message of its failure."""
    output, end = await text_and_end(workflow, **call)
    assert isinstance(end, RunFailed)
    return output, end.code, end.message


# A Palaver server, remote and local


@pytest.fixture(scope="module")
def palaver_url() -> Iterator[str]:
    with serve_workflows(scripted, echo) as url:
        yield url


def remote_workflow(url: str, workflow: Workflow) -> RemoteWorkflow:
    """A workflow of a remote Palaver server, as that server describes it."""
    description = workflow.description
    service = RemoteService(url=f"{url}/{description.name}/invoke", dialect="invoke", description=description)
    return RemoteWorkflow(service, placeholder=description, url=url, discover=_fail_discovery, headers={}, timeout=60)


async def _fail_discovery() -> RemoteService | None:
    raise AssertionError("it is known what stands there")


SCRIPTS: dict[str, list[Any]] = {
    "text": [{"text": "Hel"}, {"text": "lo \u2028 ö"}],
    "nothing": [],
    "reasoning": [{"reasoning": "Hm."}, {"text": "So."}],
    "tools": [
        {"tool_call": {"name": "add", "arguments": {"a": 1}, "id": "c1"}},
        {"tool_call": {"name": "add", "arguments": "{oops", "id": "c2"}},
        {"tool_result": {"id": "c1", "output": [2], "error": True}},
        {"text": "Two."},
        {"break": True},
        {"text": "Yes, two."},
    ],
    "a call left open": [{"tool_call": {"name": "add", "id": "c1"}}],
    "data": [{"data": {"name": "chart", "value": {"x": [1]}}}, {"yield": {"any": ["value"]}}],
    "usage": [{"usage": {"input_tokens": 1, "output_tokens": 2}}, {"usage": {"input_tokens": 3, "output_tokens": 4}}],
    "an end": [{"text": "Hel"}, {"finish": "length"}],
    "a message": [{"message": {"role": "assistant", "content": "Hi", "refusal": "No."}}],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_remote_chat_answers_like_the_local_one(palaver_url: str, script: list[Any], accept: str) -> None:
    body = {"session_id": "s-1", "data": {"inputs": {"messages": [], "script": script}}}
    answers = []
    for workflow in (scripted, remote_workflow(palaver_url, scripted)):
        async with client(workflow) as http:
            answer = await http.post("/scripted/invoke", json=body, headers={"accept": accept})
        assert answer.status_code == 200
        answers.append(_without_ids(answer))

    assert answers[0] == answers[1]


def _without_ids(answer: httpx.Response) -> Any:
    if answer.headers["content-type"] == "application/json":
        document = answer.json()
        return document["data"], document["meta"]["finish"], document["meta"].get("usage"), document["session_id"]
    ids = ("id", "message", "run_id", "trace_id")
    records = [msgspec.json.decode(line[6:]) for line in answer.content.split(b"\n") if line]
    return [
        (output["type"], {name: value for name, value in output["data"].items() if name not in ids})
        for output in records
    ]


@pytest.mark.parametrize("value", [None, "text", [1, [2]], {"role": "user", "content": "x"}, {}], ids=repr)
async def test_a_remote_workflow_that_is_not_a_chat_returns_its_value(palaver_url: str, value: Any) -> None:
    run = await run_workflow(remote_workflow(palaver_url, echo), messages=(), inputs={"value": value})

    assert fold(run.log).value == {"value": value}
    assert [type(one).__name__ for one in run.log] == ["RunStarted", "RunFinished"]


async def test_a_remote_failure_is_reported_after_the_text_before_it(palaver_url: str) -> None:
    script = [{"text": "Hel"}, {"fail": {"code": "no_tea", "message": "Out of\ntea. " + "x" * 300}}]

    assert await failure(remote_workflow(palaver_url, scripted), inputs={"script": script}) == (
        "Hel",
        "upstream_failed",
        "scripted failed: Out of\\ntea. " + "x" * 187 + "…",
    )


async def test_a_422_of_the_remote_is_reported_with_its_message(palaver_url: str) -> None:
    assert await failure(remote_workflow(palaver_url, scripted), inputs={"scrypt": 1}) == (
        "",
        "upstream_failed",
        "scripted returned status 422: Unknown input 'scrypt'. Available: script.",
    )


async def test_a_cancelled_remote_run_is_cancelled_locally() -> None:
    with fake_server(response_head() + DELTA + event("done", stopReason="cancelled")) as server:
        output, end = await text_and_end(server.workflow())

    assert (output, type(end)) == ("Hel", RunCancelled)


# Requests


async def test_only_session_inputs_parameters_and_configured_headers_are_sent() -> None:
    secret = "hunter2"
    with fake_server(full_response({"data": {"outputs": {"role": "assistant", "content": "Hi"}}})) as server:
        workflow = server.workflow(streams=False, headers={"authorization": "Bearer far", "x-own": "1"})
        async with client(workflow) as http:
            answer = await http.post(
                "/far/invoke",
                json={
                    "session_id": "s-1",
                    "secrets": {"key": secret},
                    "credentials": secret,
                    "references": {"application": secret},
                    "tags": {"tag": secret},
                    "meta": {"m": secret},
                    "data": {
                        "inputs": {"messages": [{"role": "user", "content": "Why?"}], "subject": "physics"},
                        "parameters": {"temperature": 0},
                    },
                },
                headers={
                    "authorization": f"Bearer {secret}",
                    "cookie": f"c={secret}",
                    "x-api-key": secret,
                    "baggage": f"user={secret},ag.session.id=other",
                    "traceparent": f"00-{'a' * 32}-{'b' * 16}-01",
                },
            )

    (received,) = server.requests
    traceparent = received.headers.pop("traceparent")
    assert answer.json()["data"]["outputs"] == {"role": "assistant", "content": "Hi"}
    assert traceparent.startswith(f"00-{'a' * 32}-")
    assert received == ReceivedRequest(
        "POST /invoke HTTP/1.1",
        {
            "host": server.url.removeprefix("http://"),
            "user-agent": received.headers["user-agent"],
            "accept": "*/*",
            "accept-encoding": "identity",
            "authorization": "Bearer far",
            "x-own": "1",
            "baggage": "ag.session.id=s-1",
            "content-type": "application/json",
            "content-length": received.headers["content-length"],
            "connection": "keep-alive",
        },
        {
            "version": "2025.07.14",
            "session_id": "s-1",
            "data": {
                "inputs": {"messages": [{"role": "user", "content": "Why?"}], "subject": "physics"},
                "parameters": {"temperature": 0},
            },
        },
    )


async def test_a_generated_session_id_is_sent() -> None:
    with fake_server(full_response("Hi")) as server:
        run = await run_workflow(server.workflow(), secrets={"key": Secret("hunter2")})

    assert server.requests[0].body["session_id"] == run.started.session
    assert server.requests[0].headers["accept"] == "text/event-stream"


async def test_configured_headers_are_neither_logged_nor_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "palaver")

    def reset(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(response_head(content_length="99"))

    with fake_server(reset) as server:
        workflow = server.workflow(headers={"authorization": "Bearer hunter2"})
        output = await failure(workflow)

    assert output == ("", "upstream_failed", "The connection to far was lost.")
    assert "hunter2" not in repr(workflow) + workflow.place + repr(workflow.description) + caplog.text
    assert repr(workflow) == f"<remote far at {server.url}>"
    assert [record.getMessage().split(": ")[0] for record in caplog.records if record.name == "palaver.remote"] == [
        repr(workflow)
    ]


# Responses


@pytest.mark.parametrize(
    ("answer", "expected_text"),
    [
        pytest.param(
            full_response({"data": {"outputs": {"role": "assistant", "content": "Hi"}}}), "Hi", id="an envelope"
        ),
        pytest.param(full_response({"role": "assistant", "content": "Hi"}), "Hi", id="a flat message"),
        pytest.param(full_response([{"role": "assistant", "content": "Hi"}]), "Hi", id="a flat list"),
        pytest.param(full_response("Hi"), "Hi", id="a bare text"),
        pytest.param(full_response(b"Hi", "text/plain"), "Hi", id="plain text"),
        pytest.param(full_response(b"", status="204 No Content"), "", id="nothing"),
        pytest.param(response_head("application/x-ndjson") + b'"H"\n"i"\n', "Hi", id="texts in lines"),
        pytest.param(response_head() + b'data: "H"\r\n\r\n: hm\r\n\r\ndata: "i"\r\n\r\n', "Hi", id="texts in events"),
        pytest.param(
            response_head() + b'data: {"role":"assistant","content":"Hi"}\n\n', "Hi", id="a message in an event"
        ),
        pytest.param(
            response_head() + DELTA + event("message_end", id="m"), "Hel", id="a clean end without a terminal record"
        ),
        pytest.param(response_head() + DELTA, "Hel", id="a clean end inside an item"),
    ],
)
async def test_a_response_in_any_supported_form_is_a_reply(answer: bytes, expected_text: str) -> None:
    with fake_server(answer) as server:
        text, end = await text_and_end(server.workflow(streams=False))

    assert isinstance(end, RunFinished)
    assert (text, end.finish, end.value) == (expected_text, "stop", UNSET)


@pytest.mark.parametrize("value", [None, "text", [1, 2], {"role": "user", "content": "x"}], ids=repr)
async def test_a_bare_value_is_the_result_of_a_workflow_that_is_not_a_chat(value: Any) -> None:
    with fake_server(full_response(value)) as server:
        run = await run_workflow(server.workflow(is_chat=False, streams=False), messages=(), inputs={"text": "Hi"})

    assert fold(run.log).value == value
    assert server.requests[0].body["data"]["inputs"] == {"text": "Hi"}


async def test_a_legacy_service_is_called_in_the_run_dialect() -> None:
    with fake_server(full_response({"version": "3.0", "data": {"role": "assistant", "content": "Hi"}})) as server:
        output, _ = await text_and_end(server.workflow(dialect="run"), parameters={"t": 0})

    assert output == "Hi"
    assert (server.requests[0].line, server.requests[0].body) == (
        "POST /run HTTP/1.1",
        {"messages": [{"role": "user", "content": "Hello"}], "inputs": {}, "ag_config": {"t": 0}},
    )


async def test_usage_is_counted_even_without_a_terminal_record() -> None:
    with fake_server(response_head() + DELTA + event("usage", input=3, output=4)) as server:
        run = await run_workflow(server.workflow())

    assert [one.usage for one in run.log if isinstance(one, UsageAdded)] == [Usage(input_tokens=3, output_tokens=4)]


# Streams pass through


async def test_a_stream_passes_through_record_by_record() -> None:
    arrived = threading.Event()

    def answer(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(response_head() + DELTA)
        assert arrived.wait(20)  # The second is sent only once the first has arrived.
        connection.sendall(event("message_delta", id="m", delta="lo") + event("done", stopReason="stop"))

    async def attend(events: Sequence[Event]) -> None:
        if any(isinstance(one, TextDelta) for one in events):
            arrived.set()

    with fake_server(answer) as server:
        run = await run_workflow(server.workflow(), attend=attend)

    assert [one.delta for one in run.log if isinstance(one, TextDelta)] == ["Hel", "lo"]


async def test_a_remote_is_read_no_faster_than_events_are_consumed() -> None:
    sent = 0
    stalled = threading.Event()
    record = event("data", name="x", value="y" * 50_000)

    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        nonlocal sent
        connection.settimeout(0.3)
        connection.sendall(response_head())
        try:
            for _ in range(5_000):
                connection.sendall(record)
                sent += len(record)
        except TimeoutError:
            stalled.set()

    async def attend(events: Sequence[Event]) -> None:
        if len(events) and events[0].seq == 2:
            assert await asyncio.to_thread(stalled.wait, 20)
            run.cancel()

    with fake_server(answer) as server:
        workflow = server.workflow()
        run = Engine().start(workflow, Call(workflow="far", messages=HELLO), consumer=attend)
        await run.wait_ended()

    assert stalled.is_set()
    assert sent < 50_000_000  # Of 250 MB: what the buffers of both sides hold.


async def test_cancelling_closes_the_connection() -> None:
    closed = threading.Event()

    def answer(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(response_head() + DELTA)
        if connection.recv(1) == b"":
            closed.set()

    async def attend(events: Sequence[Event]) -> None:
        if any(isinstance(one, TextDelta) for one in events):
            asyncio.get_running_loop().call_soon(run.cancel)

    with fake_server(answer) as server:
        run = Engine().start(server.workflow(), Call(workflow="far", messages=HELLO), consumer=attend)
        await run.wait_ended()
        assert await asyncio.to_thread(closed.wait, 10)

    assert isinstance(run.log[-1], RunCancelled)
    assert fold(run.log).messages[0].text == "Hel"


async def test_the_connection_is_closed_after_the_terminal_record() -> None:
    closed = threading.Event()

    def answer(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(
            response_head() + DELTA + event("done", stopReason="stop") + event("message_delta", id="m", delta="!")
        )
        if connection.recv(1) == b"":
            closed.set()

    with fake_server(answer) as server:
        output, end = await text_and_end(server.workflow())
        assert await asyncio.to_thread(closed.wait, 10)

    assert (output, type(end)) == ("Hel", RunFinished)


# Failures


@pytest.mark.parametrize(
    ("answer", "expected_text", "message"),
    [
        pytest.param(
            response_head(transfer_encoding="chunked") + b"%x\r\n%b\r\n" % (len(DELTA), DELTA),
            "Hel",
            "The connection to far was lost.",
            id="a chunk is missing",
        ),
        pytest.param(
            response_head(content_length="999") + DELTA,
            "Hel",
            "The connection to far was lost.",
            id="bytes are missing",
        ),
        pytest.param(b"", "", "The connection to far was lost.", id="no answer at all"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "", "The connection to far was lost.", id="no HTTP"),
        pytest.param(
            response_head() + DELTA + b'data: {"type":"mess',
            "Hel",
            "The stream from the remote service ended in the middle of a record.",
            id="half a record",
        ),
        pytest.param(
            response_head() + DELTA + event("error", message="\x1b[31mNo."),
            "Hel",
            "far failed: \\x1b[31mNo.",
            id="an error",
        ),
        pytest.param(
            response_head() + event("done", stopReason="error"), "", "far failed.", id="an error without words"
        ),
        pytest.param(
            full_response({"version": "1", "status": {"code": 500, "message": "No\ntea."}}),
            "",
            "far failed: No\\ntea.",
            id="an error inside an envelope",
        ),
        pytest.param(
            full_response(b"<html>", "text/html"), "", "The response from the remote service is not JSON.", id="a page"
        ),
        pytest.param(
            response_head(content_encoding="gzip") + gzip.compress(DELTA),
            "",
            "far sent a compressed reply, although an uncompressed one was requested.",
            id="compressed",
        ),
        pytest.param(
            response_head() + DELTA + b"data: " + b"x" * 1_100_000,
            "Hel",
            "The remote service sent a record larger than 1,048,576 bytes.",
            id="a record without end",
        ),
        pytest.param(full_response({}, status="404 Not Found"), "", "far returned status 404.", id="404"),
        pytest.param(
            full_response({"detail": "N\x1bo " + "x" * 300}, status="500 Oh"),
            "",
            "far returned status 500: N\\x1bo " + "x" * 195 + "…",
            id="500 with words",
        ),
        pytest.param(
            response_head(status="307 Temporary Redirect", location="http://127.0.0.1:1/"),
            "",
            "far returned a redirect (307), which is not followed.",
            id="a redirect",
        ),
    ],
)
async def test_an_invalid_response_fails_the_run_with_upstream_failed(
    answer: bytes, expected_text: str, message: str
) -> None:
    with fake_server(answer) as server:
        output = await failure(server.workflow())

    assert output == (expected_text, "upstream_failed", message)
    assert len(server.requests) == 1  # Requests are not retried.


async def test_a_reply_over_the_size_limit_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_REPLY_BYTES", 100_000)

    with fake_server(full_response("x" * 1_000_000)) as server:
        assert await failure(server.workflow()) == (
            "",
            "upstream_failed",
            "The response from far exceeds the limit of 100,000 bytes.",
        )


async def test_an_endless_error_body_is_read_only_up_to_a_limit() -> None:
    def answer(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(response_head("application/json", status="500 Oh"))
        while True:
            connection.sendall(b" " * 65_536)

    with fake_server(answer) as server:
        assert await failure(server.workflow()) == ("", "upstream_failed", "far returned status 500.")


async def test_a_stream_may_exceed_the_size_limit_of_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_REPLY_BYTES", 100)

    with fake_server(response_head() + DELTA * 5 + event("done")) as server:
        assert (await text_and_end(server.workflow()))[0] == "Hel" * 5


def stall_after(servers: list[FakeServer], first_bytes: bytes) -> Any:
    """An answer that stops after its first bytes."""

    def answer(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(first_bytes)
        servers[0].test_ended.wait(20)

    return answer


@pytest.mark.parametrize(
    ("first", "expected_text"),
    [(b"", ""), (response_head(), ""), (response_head() + DELTA, "Hel")],
    ids=["first byte", "first record", "gap"],
)
async def test_a_silent_remote_fails_the_run_with_upstream_timeout(first: bytes, expected_text: str) -> None:
    servers: list[FakeServer] = []
    with fake_server(stall_after(servers, first)) as server:
        servers.append(server)
        output = await failure(server.workflow(timeout=0.5))

    assert output == (expected_text, "upstream_timeout", "far did not answer within 0.5 seconds.")


async def test_a_response_that_never_ends_fails_the_run_with_upstream_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CALL_TIMEOUT_S", 0.6)

    def drip(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(response_head() + DELTA)
        while not server.test_ended.wait(0.01):
            connection.sendall(b": still here\n\n")

    with fake_server(drip) as server:
        assert await failure(server.workflow()) == ("Hel", "upstream_timeout", "far took longer than 0.6 seconds.")


async def test_the_time_limit_does_not_count_delays_of_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CALL_TIMEOUT_S", 0.5)

    async def attend(events: Sequence[Event]) -> None:
        if isinstance(events[-1], TextDelta):
            await asyncio.sleep(0.6)

    with fake_server(response_head() + DELTA + event("done", stopReason="stop")) as server:
        run = await run_workflow(server.workflow(), attend=attend)

    assert isinstance(run.log[-1], RunFinished)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (httpx.ConnectTimeout("x"), "upstream_timeout", "far could not be reached within 5 seconds."),
        (httpx.ConnectError("[Errno 111] hunter2"), "upstream_failed", "far could not be reached."),
        (httpx.ReadError("hunter2"), "upstream_failed", "The connection to far was lost."),
    ],
)
async def test_transport_errors_are_reported_without_their_original_message(
    error: Exception, code: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise error

    def mocked(**_: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(refuse))

    monkeypatch.setattr(remote, "client", mocked)

    assert await failure(FakeServer("http://far").workflow()) == ("", code, message)


async def test_an_unreachable_service_fails_the_run_with_upstream_failed() -> None:
    with fake_server(b"") as server:
        pass

    assert await failure(server.workflow()) == ("", "upstream_failed", "far could not be reached.")


# A service that could not be reached at discovery


class ScriptedDiscovery:
    """Returns the given discovery results in turn and counts the attempts."""

    def __init__(self, *found: RemoteService | Exception | None) -> None:
        self.found = [*found]
        self.looks = 0

    async def __call__(self) -> RemoteService | None:
        self.looks += 1
        await asyncio.sleep(0)
        result = self.found.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def unreachable_workflow(discovery: ScriptedDiscovery, *, is_chat: bool = False) -> RemoteWorkflow:
    unknown = Description(name="far", flags={"is_chat": is_chat}, remote=True)
    return RemoteWorkflow(None, placeholder=unknown, url="http://far", discover=discovery, headers={}, timeout=60)


async def test_discovery_is_retried_on_a_call_after_the_retry_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server(response_head() + DELTA + event("done")) as server:
        service = RemoteService(url=f"{server.url}/invoke", dialect="invoke", description=server.workflow().description)
        discovery = ScriptedDiscovery(None, service)
        workflow = unreachable_workflow(discovery, is_chat=True)

        assert not workflow.reachable
        assert await failure(workflow) == ("", "upstream_failed", "far could not be reached.")
        assert await failure(workflow) == (
            "",
            "upstream_failed",
            "far could not be reached. Try again shortly.",
        )
        assert discovery.looks == 1
        monkeypatch.setattr(remote, "RETRY_INTERVAL_S", 0)
        assert (await text_and_end(workflow))[0] == "Hel"
        assert workflow.reachable
        assert workflow.description is service.description
        assert (await text_and_end(workflow))[0] == "Hel"
        assert discovery.looks == 2


async def test_concurrent_calls_share_one_discovery() -> None:
    with fake_server(response_head() + DELTA + event("done")) as server:
        service = RemoteService(url=f"{server.url}/invoke", dialect="invoke", description=server.workflow().description)
        discovery = ScriptedDiscovery(service)
        workflow = unreachable_workflow(discovery, is_chat=True)

        results = await asyncio.gather(*(text_and_end(workflow) for _ in range(3)))

    assert [text for text, _ in results] == ["Hel"] * 3
    assert discovery.looks == 1


async def test_the_reason_of_a_failed_discovery_is_logged_but_not_returned(caplog: pytest.LogCaptureFixture) -> None:
    workflow = unreachable_workflow(ScriptedDiscovery(NotDiscovered("http://far says nothing.")))

    assert await failure(workflow) == (
        "",
        "upstream_failed",
        "far cannot be called: its protocol could not be identified.",
    )
    assert "http://far says nothing." in caplog.text  # The operator learns why, the caller does not.


async def test_a_call_made_before_the_service_is_known_as_a_chat_is_answered_by_it() -> None:
    message = {"role": "assistant", "content": "Hel"}

    def answer(connection: socket.socket, request: ReceivedRequest) -> None:
        complete_response = full_response({"data": {"outputs": message}})
        connection.sendall(
            complete_response if request.headers["accept"] == "*/*" else response_head() + DELTA + event("done")
        )

    with fake_server(answer) as server:
        service = RemoteService(url=f"{server.url}/invoke", dialect="invoke", description=server.workflow().description)
        async with client(unreachable_workflow(ScriptedDiscovery(service))) as http:
            history = [{"role": "user", "content": "Why?"}]
            answers = [(await http.post("/far/invoke", json={"messages": history})).json() for _ in range(2)]

    assert [request.body["data"]["inputs"] for request in server.requests] == [{"messages": history}] * 2
    assert [request.headers["accept"] for request in server.requests] == ["*/*", "text/event-stream"]
    assert answers == [message, message]


async def test_closing_the_generator_closes_the_connection() -> None:
    closed = threading.Event()

    def answer(connection: socket.socket, _: ReceivedRequest) -> None:
        connection.sendall(response_head() + DELTA)
        if connection.recv(1) == b"":
            closed.set()

    with fake_server(answer) as server:
        workflow, call = server.workflow(), Call(workflow="far", messages=HELLO)
        run = Engine().start(scripted, Call(workflow="scripted"))
        values = cast("AsyncGenerator[object, None]", workflow.bind(call)(run.context))
        assert await anext(values) == TextDelta(item="m", delta="Hel")
        await values.aclose()
        assert await asyncio.to_thread(closed.wait, 10)
        await run.wait_ended()
