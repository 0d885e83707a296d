"""One script over every protocol: all official clients build the same answer, up to the losses listed here.

The losses of Palaver's protocols are those of docs/reference/protocols.md; the others are specific to a client.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import reduce
from typing import Any

import pytest

from tests.conformance import python_clients
from tests.conformance.node_drivers import Driver
from tests.conformance.python_clients import Record
from tests.conformance.scenarios import MODEL_DOWN, SCENARIOS, ClientResult, Scenario
from tests.server_process import ServerProcess

Drivers = Callable[[str], Driver]
Loss = Callable[[ClientResult], ClientResult]


# --- Losses: how each of them changes the expected answer


def join_text(built: ClientResult) -> ClientResult:
    """Chat Completions has one content: messages are joined."""
    return replace(built, text=["\n\n".join(built.text)] if built.text else [])


def without_own_tools(built: ClientResult) -> ClientResult:
    """Chat Completions shows only the calls that the client is to answer."""
    answered_ids = {result["id"] for result in built.results}
    return replace(built, calls=[call for call in built.calls if call["id"] not in answered_ids], results=[])


def tool_calls_as_stop(built: ClientResult) -> ClientResult:
    """Responses has one status for every successful end."""
    return replace(built, finish="stop" if built.finish == "tool-calls" else built.finish)


def error_only(built: ClientResult) -> ClientResult:
    """A response that is not streamed has the error only, without the output before it."""
    return built if built.error is None else ClientResult(finish="error", error=built.error)


def only_message(built: ClientResult) -> ClientResult:
    """The client reports only the message of an error."""
    return built if built.error is None else replace(built, error=(None, built.error[1]))


def only_status(built: ClientResult) -> ClientResult:
    """The client cannot read an error whose `param` is null, and reports the name of the HTTP status."""
    names = {"model_not_found": "Not Found", "model_down": "Internal Server Error"}
    return built if built.error is None else replace(built, error=(None, names[str(built.error[0])]))


def no_failure_reason(built: ClientResult) -> ClientResult:
    """The client sees that a stream failed, not why."""
    return replace(built, error=None) if built.error == MODEL_DOWN else built


def no_reasoning(built: ClientResult) -> ClientResult:
    """The client does not read the reasoning there."""
    return replace(built, reasoning="")


def last_reasoning(built: ClientResult) -> ClientResult:
    """The client adds up the fields it knows; of `reasoning_content` it keeps the last piece."""
    return replace(built, reasoning="two." if built.reasoning else "")


def tool_calls_finish(built: ClientResult) -> ClientResult:
    """The client derives the finish reason itself: any call makes it `tool-calls`."""
    return replace(built, finish="tool-calls") if built.calls and built.error is None else built


def zero_usage(built: ClientResult) -> ClientResult:
    """The client reports an unknown usage as zeros."""
    return replace(built, usage=(0, 0)) if built.usage is None and built.error is None else built


def zero_usage_of_started_runs(built: ClientResult) -> ClientResult:
    """Like `zero_usage` for a stream: also for a failed run, but not if no run was started."""
    return replace(built, usage=(0, 0)) if built.usage is None and built.error in (None, MODEL_DOWN) else built


def unknown_finish_without_usage(built: ClientResult) -> ClientResult:
    """The client cannot read the end of a stream whose usage is null."""
    return replace(built, finish="unknown") if built.usage is None and built.error is None else built


def rejects_truncation(message: str) -> Loss:
    """The client's helper rejects a truncated answer."""

    def reject(built: ClientResult) -> ClientResult:
        return ClientResult(finish="error", error=(None, message)) if built.finish == "length" else built

    return reject


def results_in_call_order(built: ClientResult) -> ClientResult:
    """A call and its result are one part: results have the order of the calls."""
    order = [call["id"] for call in built.calls]
    return replace(built, results=sorted(built.results, key=lambda result: order.index(result["id"])))


def calls_in_result_order(built: ClientResult) -> ClientResult:
    """A call that the server runs is complete once its result has come."""
    order = [result["id"] for result in built.results]
    return replace(built, calls=sorted(built.calls, key=lambda call: order.index(call["id"]) if order else 0))


def no_server_tool_names(built: ClientResult) -> ClientResult:
    """The client has one name for all tools that a server runs."""
    return replace(built, calls=[{**call, "name": "remote_mcp"} for call in built.calls])


def no_server_tools(built: ClientResult) -> ClientResult:
    """The client leaves out the tools that the server runs."""
    return replace(built, calls=[], results=[])


def trimmed(built: ClientResult) -> ClientResult:
    """Whitespace before the first and after the last word is removed."""
    return replace(built, text=[text.strip() for text in built.text if text.strip()])


def text_and_usage_only(built: ClientResult) -> ClientResult:
    """A service's document has only the text and the usage."""
    finish = built.finish if built.error else "stop"
    return replace(built, calls=[], results=[], reasoning="", finish=finish)


def uppercase_codes(built: ClientResult) -> ClientResult:
    """Services write codes in capitals and have a different code and message for what is not found."""
    if built.error is None:
        return built
    code, message = built.error
    if code == "model_not_found":
        return replace(built, error=("NOT_FOUND", "There is no service named"))
    return replace(built, error=(str(code).upper(), message))


def error_replaces_result(built: ClientResult) -> ClientResult:
    """The last event of a stream is the error, instead of the document with the text and the usage."""
    return built if built.error is None else replace(built, text=[], usage=None)


CHAT_LOSSES = (join_text, without_own_tools)

CLIENTS: Mapping[str, tuple[str, str, tuple[Loss, ...]]] = {
    # Responses, /v1/responses
    "openai for Python": ("python", "whole", (tool_calls_as_stop, error_only, results_in_call_order)),
    "openai for Python, streamed": ("python", "streamed", (tool_calls_as_stop, calls_in_result_order)),
    "openai for Python, stream()": (
        "python",
        "helper",
        (
            tool_calls_as_stop,
            error_only,
            results_in_call_order,
            rejects_truncation("Didn't receive a `response.completed` event."),
        ),
    ),
    "openai for Node": ("openai", "whole", (tool_calls_as_stop, error_only, results_in_call_order)),
    "openai for Node, streamed": ("openai", "streamed", (tool_calls_as_stop, calls_in_result_order)),
    "openai for Node, stream()": ("openai", "helper", (tool_calls_as_stop, error_only, results_in_call_order)),
    "LangChain, Responses": (
        "python",
        "langchain_responses",
        (tool_calls_as_stop, error_only, results_in_call_order, no_server_tool_names),
    ),
    "LangChain, Responses, streamed": (
        "python",
        "langchain_responses_streamed",
        (tool_calls_as_stop, calls_in_result_order, no_server_tool_names),
    ),
    "AI SDK openai, Responses": (
        "ai_sdk",
        "openaiResponsesWhole",
        (tool_calls_as_stop, error_only, results_in_call_order),
    ),
    "AI SDK openai, Responses, streamed": (
        "ai_sdk",
        "openaiResponsesStreamed",
        (tool_calls_as_stop, calls_in_result_order),
    ),
    "AI SDK 5 openai, Responses, streamed": (
        "ai_sdk",
        "openaiResponses5Streamed",
        (tool_calls_as_stop, no_server_tools, unknown_finish_without_usage),
    ),
    "AI SDK 7 openai, Responses": (
        "ai_sdk",
        "openaiResponses7Whole",
        (tool_calls_as_stop, error_only, results_in_call_order),
    ),
    "AI SDK 7 openai, Responses, streamed": (
        "ai_sdk",
        "openaiResponses7Streamed",
        (tool_calls_as_stop, calls_in_result_order),
    ),
    "AI SDK open-responses": (
        "ai_sdk",
        "openResponsesWhole",
        (tool_calls_as_stop, error_only, only_status, no_reasoning, no_server_tools),
    ),
    "AI SDK open-responses, streamed": (
        "ai_sdk",
        "openResponsesStreamed",
        (tool_calls_as_stop, no_failure_reason, only_status, no_server_tools),
    ),
    # Responses, /invocations
    "MLflow": ("python", "mlflow_whole", (tool_calls_as_stop, error_only)),
    "MLflow, streamed": ("python", "mlflow_streamed", (tool_calls_as_stop,)),
    "AI SDK databricks": ("ai_sdk", "databricksWhole", (error_only, tool_calls_finish, zero_usage)),
    "AI SDK databricks, streamed": ("ai_sdk", "databricksStreamed", (tool_calls_finish, zero_usage_of_started_runs)),
    # Chat Completions
    "openai for Python, chat": ("python", "chat_whole", (*CHAT_LOSSES, error_only)),
    "openai for Python, chat streamed": ("python", "chat_streamed", CHAT_LOSSES),
    "openai for Python, chat stream()": (
        "python",
        "chat_helper",
        (
            *CHAT_LOSSES,
            error_only,
            rejects_truncation("Could not parse response content as the length limit was reached"),
        ),
    ),
    "openai for Node, chat": ("openai", "chatWhole", (*CHAT_LOSSES, error_only)),
    "openai for Node, chat streamed": ("openai", "chatStreamed", CHAT_LOSSES),
    "openai for Node, chat stream()": ("openai", "chatHelper", (*CHAT_LOSSES, error_only, last_reasoning)),
    "LangChain, chat": ("python", "langchain_chat", (*CHAT_LOSSES, error_only, no_reasoning)),
    "LangChain, chat streamed": ("python", "langchain_chat_streamed", (*CHAT_LOSSES, no_reasoning)),
    "AI SDK openai, chat": ("ai_sdk", "openaiChatWhole", (*CHAT_LOSSES, error_only, no_reasoning)),
    "AI SDK openai, chat streamed": ("ai_sdk", "openaiChatStreamed", (*CHAT_LOSSES, no_reasoning)),
    # Services
    "services": (
        "python",
        "services_whole",
        (join_text, trimmed, text_and_usage_only, zero_usage, error_only, uppercase_codes),
    ),
    "services, streamed": (
        "python",
        "services_streamed",
        (join_text, trimmed, zero_usage, error_replaces_result, uppercase_codes),
    ),
    # UI message stream
    "useChat 5": ("use_chat", "ai5", (only_message, results_in_call_order)),
    "useChat 6": ("use_chat", "ai6", (only_message, results_in_call_order)),
    "useChat 7": ("use_chat", "ai7", (only_message, results_in_call_order)),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_client_builds_the_expected_answer(
    client: str, scenario: Scenario, server: ServerProcess, drivers: Drivers
) -> None:
    kind, way, losses = CLIENTS[client]
    expected = reduce(lambda built, loss: loss(built), losses, scenario.built)

    record = run_client(kind, way, scenario, server.url, drivers)

    assert asdict(client_result(record, expected)) == asdict(expected)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_listed_loss_changes_a_scenario(client: str) -> None:
    losses = CLIENTS[client][2]

    def lost(selected: Iterable[Loss]) -> list[ClientResult]:
        return [reduce(lambda built, loss: loss(built), selected, scenario.built) for scenario in SCENARIOS.values()]

    assert [loss for loss in losses if lost(losses) == lost(other for other in losses if other is not loss)] == []


def run_client(kind: str, way: str, scenario: Scenario, url: str, drivers: Drivers, *, cancel: bool = False) -> Record:
    """Run the scenario with the client and return the record of its result."""
    if kind != "python":
        return drivers(kind).ask(way=way, url=url, workflow=scenario.workflow, prompt=scenario.prompt, cancel=cancel)
    record = python_clients.empty_record()
    try:
        getattr(python_clients, way)(record, url=url, workflow=scenario.workflow, prompt=scenario.prompt, cancel=cancel)
    except python_clients.ClientDisconnected:
        record["finish"] = "hung up"
    except Exception as error:
        record["error"] = {"code": getattr(error, "code", None), "message": str(error)}
    return record


FINISHES = {
    "completed": "stop",
    "failed": "error",
    "max_output_tokens": "length",
    "tool_calls": "tool-calls",
}


def client_result(record: Record, expected: ClientResult) -> ClientResult:
    """Convert a record to a `ClientResult`. Clients wrap error messages, so ours only has to be contained."""
    error = record["error"] and (record["error"].get("code"), record["error"]["message"])
    if error and expected.error and expected.error[1] in error[1]:
        error = (error[0], expected.error[1])
    usage = record["usage"]
    return ClientResult(
        text=[text for text in record["text"] if text],
        calls=[
            {**call, "id": short_id(call["id"]), "arguments": parse_json(call["arguments"])} for call in record["calls"]
        ],
        results=[
            {"id": short_id(result["id"]), "output": parse_json(result["output"])} for result in record["results"]
        ],
        reasoning=record["reasoning"],
        usage=usage and (usage["input"], usage["output"]),
        finish="error" if error else FINISHES.get(record["finish"], record["finish"]),
        error=error,
    )


def short_id(name: str) -> str:
    """Return the workflow's id of a call; /v1/responses puts the id of the run before it."""
    return re.sub(r"^mcp_[0-9a-z]{26}_", "", name)


def parse_json(value: Any) -> Any:
    """Decode a value that a protocol carries as JSON text."""
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    return json.loads(value)
