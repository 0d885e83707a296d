"""Palaver's own streams pass every rule in strict mode, in every protocol, in process."""

import asyncio
from collections.abc import Mapping
from typing import Any, get_args

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaver.conform import Protocol, grade, grade_body, grade_refusal
from palaver.protocols.base import HttpRequest
from palaver.protocols.chat_completions import adapter as chat_completions
from palaver.protocols.responses import adapter as responses
from palaver.protocols.services import adapter as services
from palaver.protocols.services.request import ServiceRequest
from palaver.protocols.ui_stream import adapter as ui_stream
from palaver.testing import client, scripted
from tests.core.strategies import hostile, sloppy, terminals
from tests.core.test_grammar_laws import stream_of
from tests.protocols.fixed_run import find

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
PATHS: Mapping[Protocol, str] = {
    "responses": "/scripted/v1/responses",
    "invocations": "/scripted/invocations",
    "chat-completions": "/scripted/v1/chat/completions",
    "ui-stream": "/scripted/api/chat",
    "services": "/services/scripted",
}
FAILURES: Mapping[Protocol, bytes] = {
    "responses": b'"type":"response.failed"',
    "invocations": b'"type":"response.failed"',
    "chat-completions": b'data: {"error":',
    "ui-stream": b'"type":"error"',
    "services": b"event: error\n",
}
"""What the stream of a failed run contains."""
Script = list[dict[str, Any]]


def request_body(protocol: Protocol, script: Script) -> dict[str, Any]:
    """A request that plays the script."""
    text = msgspec.json.encode(script).decode()
    match protocol:
        case "responses" | "invocations":
            return {"input": text}
        case "chat-completions":
            return {"messages": [{"role": "user", "content": text}]}
        case "ui-stream":
            return {"messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": text}]}]}
        case "services":
            return {"content": text}


async def check_conformance(http: httpx.AsyncClient, protocol: Protocol, script: Script, **fields: Any) -> bool:
    """Grade the script's stream and its non-streamed response body, and return whether the run failed.

    The body is not graded if the protocol has none or the run failed.
    """
    body = request_body(protocol, script) | fields
    path = PATHS[protocol] + ("/stream" if protocol == "services" else "")
    streamed = await http.post(path, json=body | {"stream": True})
    assert streamed.status_code == 200, streamed.text
    report = grade(streamed.content, protocol, headers=streamed.headers)
    assert report.faults == (), str(report)
    has_failed = FAILURES[protocol] in streamed.content
    if protocol == "ui-stream":
        return has_failed
    response = await http.post(PATHS[protocol], json=body)
    assert response.status_code == (500 if has_failed else 200), response.text
    if not has_failed:
        body_report = grade_body(response.content, protocol, stream=streamed.content, body_from="another-run")
        assert body_report.faults == (), str(body_report)
    return has_failed


async def check_scripts(http: httpx.AsyncClient, protocol: Protocol, **fields: Any) -> None:
    """Grade all scripts, and check that no other ones fail than those that should."""
    failed = {name for name, script in SCRIPTS.items() if await check_conformance(http, protocol, script, **fields)}
    assert failed == {"a failure after a word", "an exception in a call", "a failure at once"}


def call(call_id: str, arguments: Any = None, name: str = "look") -> dict[str, Any]:
    return {"tool_call": {"name": name, "arguments": arguments or {}, "id": call_id}}


def result(call_id: str, output: Any, error: bool = False) -> dict[str, Any]:
    return {"tool_result": {"id": call_id, "output": output, "error": error}}


SCRIPTS: dict[str, Script] = {
    "text": [{"text": "Hello "}, {"text": "world"}],
    "an empty answer": [],
    "text, tool, text": [{"text": "a"}, call("c1", {"x": 1}), result("c1", {"y": 1}), {"text": "b"}],
    "parallel tools": [call("c1"), call("c2", "not json"), result("c2", None), result("c1", "no", True), {"text": "b"}],
    "a call that is left": [{"text": "a"}, call("c1", {"x": 1})],
    "reasoning": [{"reasoning": "Hm"}, {"reasoning": "m"}, {"text": "a"}, {"reasoning": "again"}, {"text": "b"}],
    "usage": [{"text": "a"}, {"usage": {"input_tokens": 3, "output_tokens": 4}}],
    "two messages": [{"text": "a"}, {"break": True}, {"text": "b"}],
    "data": [{"text": "a"}, {"data": {"name": "chart", "value": {"x": [1]}}}, {"text": "b"}],
    "beyond the BMP": [{"text": "\U0001f600 \u2028 \U0001d518"}, call("c1", {"\U0001f600": "\u202e"})],
    "a refusal": [{"message": {"role": "assistant", "content": None, "refusal": "No."}}],
    "cut by length": [{"text": "a"}, {"finish": "length"}],
    "filtered": [{"text": "a"}, {"finish": "content-filter"}],
    "a failure after a word": [{"text": "a"}, {"fail": {"code": "model_down", "message": "The model is down."}}],
    "an exception in a call": [{"text": "a"}, call("c1"), {"raise": "secret"}],
    "a failure at once": [{"fail": {"code": "model_down", "message": "The model is down."}}],
    "many deltas": [{"repeat": {"times": 500, "steps": [{"text": "word "}]}}],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_streams_of_all_scripts_pass_every_rule(protocol: Protocol) -> None:
    async with client(scripted) as http:
        await check_scripts(http, protocol)


async def test_streams_with_requested_usage_pass_every_rule() -> None:
    async with client(scripted) as http:
        await check_scripts(http, "chat-completions", stream_options={"include_usage": True})


@pytest.mark.parametrize("protocol", ["responses", "invocations", "chat-completions"])
async def test_streams_of_replies_that_must_be_json_pass_every_rule(protocol: Protocol) -> None:
    json_format = {"type": "json_object"}
    field = {"response_format": json_format} if protocol == "chat-completions" else {"text": {"format": json_format}}
    async with client(scripted) as http:
        scripts = {**SCRIPTS, "JSON": [{"text": '{"a": '}, {"data": {"name": "chart", "value": 1}}, {"text": "1}"}]}
        matching = {
            name for name, script in scripts.items() if not await check_conformance(http, protocol, script, **field)
        }

    calls = {"a call that is left", "beyond the BMP"}
    assert matching == {"JSON", *calls, "a refusal", "cut by length", "filtered"}


@pytest.mark.parametrize("protocol", ["responses", "invocations", "chat-completions"])
async def test_streams_with_stop_sequences_pass_every_rule(protocol: Protocol) -> None:
    async with client(scripted) as http:
        await check_scripts(http, protocol, stop=["lo wor", "b", "ord word w"])


@pytest.mark.parametrize("tools", [["look"], [{"type": "function", "name": "look", "parameters": {}}]])
async def test_streams_with_client_tool_calls_pass_every_rule(tools: list[Any]) -> None:
    function = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    async with client(scripted) as http:
        await check_scripts(http, "ui-stream", tools=tools)
        if isinstance(tools[0], dict):
            await check_scripts(http, "responses", tools=tools)
            await check_scripts(http, "invocations", tools=tools)
            await check_scripts(http, "chat-completions", tools=function)


@pytest.mark.parametrize("version", [5, 6, 7])
async def test_every_ui_stream_version_passes_every_rule(version: Any) -> None:
    async with client(scripted) as http:
        for script in SCRIPTS.values():
            headers = {"x-palaver-ui-version": str(version)}
            response = await http.post(PATHS["ui-stream"], json=request_body("ui-stream", script), headers=headers)
            assert grade(response.content, "ui-stream", ui_version=version).faults == ()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_rejection_of_an_invalid_request_passes_every_rule(protocol: Protocol) -> None:
    async with client(scripted) as http:
        response = await http.post(PATHS[protocol], json={"input": 42, "messages": 42})

    assert grade_refusal(response.status_code, response.content, protocol).faults == ()


STEPS = st.one_of(
    st.builds(lambda text: {"text": text}, st.text(max_size=4)),
    st.builds(lambda text: {"reasoning": text}, st.text(max_size=4)),
    st.builds(call, st.sampled_from(["c1", "c2", "c3"]), st.sampled_from([{}, {"x": 1}, "{bad", ""])),
    st.builds(result, st.sampled_from(["c1", "c2", "c3"]), st.sampled_from(["", "x", {"y": 1}, None]), st.booleans()),
    st.builds(lambda name: {"data": {"name": name, "value": 1}}, st.sampled_from(["chart", "status"])),
    st.just({"usage": {"input_tokens": 1, "output_tokens": 2}}),
    st.just({"break": True}),
    st.just({"finish": "length"}),
    st.just({"fail": {"code": "odd", "message": "Odd."}}),
)


@settings(max_examples=25)
@given(script=st.lists(STEPS, max_size=8), protocol=st.sampled_from(PROTOCOLS))
def test_stream_of_any_generated_script_passes_every_rule(script: Script, protocol: Protocol) -> None:
    async def play() -> None:
        async with client(scripted) as http:
            has_failed = await check_conformance(http, protocol, script)
        assert has_failed or not any("fail" in step for step in script)

    asyncio.run(play())


ADAPTERS: Mapping[Protocol, tuple[Any, str]] = {
    "responses": (responses, "v1/responses"),
    "invocations": (responses, "invocations"),
    "chat-completions": (chat_completions, "v1/chat/completions"),
    "ui-stream": (ui_stream, "api/chat"),
}


@given(values=sloppy | hostile, end=st.none() | terminals, is_chat=st.booleans(), sparse=st.booleans())
def test_service_stream_of_any_producer_passes_every_rule_and_matches_the_body(
    values: list[Any], end: Any, is_chat: bool, sparse: bool
) -> None:
    service_request = ServiceRequest(workflow="tutor", is_chat=is_chat, stream=True, sparse=sparse)
    events = stream_of(values, end)

    stream = b"".join(map(services.stream_encoder(service_request, status=lambda _: 418), events))
    response_body = services.encode_response(events, ServiceRequest(workflow="tutor", is_chat=is_chat), status=418).body
    report = grade(stream, "services", body=response_body)

    assert report.faults == (), str(report)


@pytest.mark.parametrize("protocol", ADAPTERS)
@given(values=sloppy | hostile, end=st.none() | terminals)
def test_stream_of_any_producer_passes_every_rule_and_matches_the_body(
    protocol: Protocol, values: list[Any], end: Any
) -> None:
    adapter, route = ADAPTERS[protocol]
    body = msgspec.json.encode(request_body(protocol, []) | {"stream": True})
    _, request = adapter.decode(HttpRequest(route=route, workflow="tutor", body=body), find)
    events = stream_of(values, end)
    # The grammar drops refusals without text, so no stream breaks I15b.

    stream = b"".join(map(adapter.stream_encoder(request), events))
    response_body = adapter.encode_response(events, request, status=200).body if protocol != "ui-stream" else None
    report = grade(stream, protocol, body=response_body, history=["h1", "h2"])

    assert report.faults == (), str(report)
