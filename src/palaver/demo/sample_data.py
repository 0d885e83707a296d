"""Sample data of `palaver demo`: created through the HTTP API, so everything in it was really run and scored."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

HASTY_VARIANT = {"name": "hasty", "parameters": {"order": "as written"}, "message": "Faster, but is it correct?"}

CONVERSATIONS: list[tuple[str, str | None, list[str]]] = [
    ("eliza", None, ["Hello!", "I am worried about my release on Friday.", "Because nobody has tested it."]),
    ("eliza", None, ["My boss wants an answer today.", "I don't have one."]),
    ("calculator", None, ["What is (2 + 3) * 4?", "And 100 / 8 - 2?"]),
    ("calculator", None, ["Four friends share seven pizzas: 7 * 12.5 / 4", "And what is 10 / 0?"]),
    ("calculator", "hasty", ["What is 2 + 3 * 4?"]),
]
"""Conversations: the workflow, its variant, and the user's messages."""

BOARD: dict[str, Any] = {
    "name": "Two orders of operations",
    "mode": "chat",
    "columns": [
        {"id": "default", "workflow": "calculator"},
        {"id": "hasty", "workflow": "calculator", "variant": "hasty"},
    ],
    "rows": [{"id": "r1"}, {"id": "r2"}, {"id": "r3"}],
}
BOARD_MESSAGES = {"r1": "2 + 3 * 4", "r2": "(2 + 3) * 4", "r3": "20 - 12 / 4"}
"""The message of each row of the board."""

HEADLINE_BOARD: dict[str, Any] = {
    "name": "Headlines in two styles",
    "mode": "single",
    "columns": [
        {"id": "title", "workflow": "headline"},
        {"id": "plain", "workflow": "headline", "parameters": {"style": "plain"}},
    ],
    "rows": [
        {
            "id": "r1",
            "inputs": {"text": "The harbour froze over last night. Children skated across the harbour before school."},
        },
        {"id": "r2", "inputs": {"text": "A library lends out umbrellas. Most umbrellas come back dry.", "words": 5}},
    ],
}

_SUMS = """
sum     | 7 + 5              | 12   | add
sum     | 20 - 8             | 12   | subtract
sum     | 1 + 2 + 3          | 6    | add add
sum     | 100 - 1 - 2        | 97   | subtract subtract
sum     | 0.1 + 0.2          | 0.3  | add
product | 6 * 7              | 42   | multiply
product | 81 / 9             | 9    | divide
product | 2 * 3 * 4          | 24   | multiply multiply
product | 9 / 3 * 5          | 15   | divide multiply
product | 1 / 8              | 0.125| divide
bracket | (2 + 3) * 4        | 20   | add multiply
bracket | 4 * (2 + 3)        | 20   | add multiply
bracket | (8 - 6) / 2        | 1    | subtract divide
bracket | (1 + 1) * (2 + 2)  | 8    | add add multiply
bracket | 100 / (4 + 6)      | 10   | add divide
mixed   | 2 + 3 * 4          | 14   | multiply add
mixed   | 20 - 12 / 4        | 17   | divide subtract
mixed   | 1 + 2 * 3 + 4      | 11   | multiply add add
mixed   | 10 - 2 * 3         | 4    | multiply subtract
mixed   | 5 + 10 / 2         | 10   | divide add
mixed   | 3 + 3 * 3          | 12   | multiply add
mixed   | 50 - 5 * 5         | 25   | multiply subtract
mixed   | 1 + 6 / 3          | 3    | divide add
mixed   | 2 * 3 + 4          | 10   | multiply add
"""

TESTSET_DESCRIPTION = "Arithmetic that a pocket calculator gets right."
EVALUATORS: list[dict[str, Any]] = [
    {"key": "contains"},
    {"key": "tool_sequence", "parameters": {"expected_from": "tools"}},
    {"key": "latency_budget", "parameters": {"max_seconds": 2}},
]
QUESTIONS: list[dict[str, Any]] = [
    {"key": "clear", "type": "boolean", "title": "Would a child understand the answer?"},
    {"key": "note", "type": "text", "title": "What would you say instead?", "required": False},
]
LIVE_EVALUATOR: dict[str, Any] = {
    "name": "No repeated tool calls",
    "filter": {"field": "workflow", "op": "eq", "value": "calculator"},
    "sample": 1.0,
    "evaluators": [{"key": "no_repeated_tool_call"}],
}


def testset_rows() -> list[dict[str, Any]]:
    """Return test set rows for the calculator: messages as the playground adds them, answer, tools and kind."""
    table = [[cell.strip() for cell in line.split("|")] for line in _SUMS.strip().splitlines()]
    return [
        {
            "messages": [{"role": "user", "content": f"What is {question}?"}],
            "expected": f"The answer is {answer}.",
            "tools": tools.split(),
            "kind": kind,
        }
        for kind, question, answer, tools in table
    ]


_SECOND_NS = 1_000_000_000
_QUESTION = "Is there a train to Bergen tonight?"
_TIMETABLE = {"departs": "23:25", "arrives": "06:52", "berths": 3}
_ANSWER = "Yes: the night train leaves at 23:25 and arrives at 06:52. Three berths are left."
_CALL = {"type": "tool_call", "id": "call_1", "name": "timetable", "arguments": {"to": "Bergen", "after": "20:00"}}
_TOOL_RESULT = {"type": "tool_call_response", "id": "call_1", "response": _TIMETABLE}


def sample_trace(now: int) -> dict[str, Any]:
    """Return an OTLP request: the trace of another program's agent that ended just before `now` (nanoseconds)."""
    start = now - 3 * _SECOND_NS
    trace = f"{now:016x}" * 2
    model = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.operation.name": "chat"}
    messages_in = [_message("user", {"type": "text", "content": _QUESTION})]
    call_message = _message("assistant", _CALL)
    answer = _message("assistant", {"type": "text", "content": _ANSWER})
    spans = [
        _span(trace, 1, None, "invoke_agent travel desk", start, 2.9, {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "travel desk",
            "gen_ai.conversation.id": "desk-7",
            "gen_ai.input.messages": messages_in,
            "gen_ai.output.messages": [answer],
        }),
        _span(trace, 2, 1, "chat gpt-4o-mini", start + _SECOND_NS // 10, 1.1, model | {
            "gen_ai.input.messages": messages_in,
            "gen_ai.output.messages": [call_message],
            "gen_ai.usage.input_tokens": 212,
            "gen_ai.usage.output_tokens": 24,
        }),
        _span(trace, 3, 1, "execute_tool timetable", start + 12 * _SECOND_NS // 10, 0.4, {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "timetable",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.tool.call.arguments": _CALL["arguments"],
            "gen_ai.tool.call.result": _TIMETABLE,
        }),
        _span(trace, 4, 1, "chat gpt-4o-mini", start + 17 * _SECOND_NS // 10, 1.2, model | {
            "gen_ai.input.messages": [*messages_in, call_message, _message("tool", _TOOL_RESULT)],
            "gen_ai.output.messages": [answer],
            "gen_ai.usage.input_tokens": 261,
            "gen_ai.usage.output_tokens": 31,
        }),
    ]  # fmt: skip
    resource = {"attributes": _attributes({"service.name": "travel-desk"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "demo"}, "spans": spans}]}]}


def _message(role: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": [part]}


def _span(
    trace: str, number: int, parent: int | None, name: str, start: int, seconds: float, attributes: dict[str, Any]
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + int(seconds * _SECOND_NS)),
        "attributes": _attributes(attributes),
        "status": {},
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in values.items()]


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value if isinstance(value, str) else msgspec.json.encode(value).decode()}


_COLLECTIONS = ("threads", "boards", "testsets", "evaluations")


async def create_sample_data(http: httpx.AsyncClient, report_start: Callable[[], None]) -> None:
    """Create the sample data, unless the server already has threads, boards, test sets or evaluations.

    Calls `report_start` before the first is created.
    """
    if any([(await _get(http, f"/api/{name}?limit=1"))["data"] for name in _COLLECTIONS]):
        return
    report_start()
    await _post(http, "/api/workflows/calculator/variants", HASTY_VARIANT)
    await _create_evaluations(http)
    await _create_headline_board(http)
    await _create_chat_board(http)  # The page opens with the board that was saved last.
    await _post(http, "/api/online", LIVE_EVALUATOR)
    # Conversations and a trace of another program: last, so that lists of traces begin with them.
    await asyncio.gather(
        *(_create_thread(http, workflow, variant, messages) for workflow, variant, messages in CONVERSATIONS)
    )
    await _post(http, "/v1/traces", sample_trace(time.time_ns()))


async def _create_thread(http: httpx.AsyncClient, workflow: str, variant: str | None, messages: list[str]) -> None:
    thread = await _post(http, "/api/threads", {"workflow": workflow, "variant": variant})
    run = ""
    for line in messages:
        run = await _send_message(http, thread["id"], line)
    response = await http.put(f"/api/runs/{run}/feedback", json={"rating": "down" if variant else "up"})
    response.raise_for_status()


async def _send_message(http: httpx.AsyncClient, thread: str, line: str) -> str:
    """Send a message, wait for the end of the answer, and return the run's id."""
    body = {"messages": [{"role": "user", "content": line}]}
    response = await http.post(f"/api/threads/{thread}/turns", json=body, headers={"accept": "text/event-stream"})
    return response.raise_for_status().headers["x-palaver-run-id"]


async def _create_chat_board(http: httpx.AsyncClient) -> None:
    board = await _post(http, "/api/boards", BOARD)

    async def fill_cell(row: str, column: dict[str, Any]) -> None:
        cell = {"board": board["id"], "row": row, "column": column["id"]}
        body = {"workflow": column["workflow"], "variant": column.get("variant"), "cell": cell}
        thread = await _post(http, "/api/threads", body)
        await _send_message(http, thread["id"], BOARD_MESSAGES[row])

    cells = [(row["id"], column) for row in BOARD["rows"] for column in BOARD["columns"]]
    await asyncio.gather(*(fill_cell(row, column) for row, column in cells))


async def _create_headline_board(http: httpx.AsyncClient) -> None:
    board = await _post(http, "/api/boards", HEADLINE_BOARD)
    await _post(http, f"/api/boards/{board['id']}/run", {"cells": "all"})


async def _create_evaluations(http: httpx.AsyncClient) -> None:
    rows = [{"data": row} for row in testset_rows()]
    testset = await _post(http, "/api/testsets", {"name": "Sums", "description": TESTSET_DESCRIPTION, "rows": rows})
    await _run_evaluation(http, testset["id"], "Products first", {})
    hasty = await _run_evaluation(http, testset["id"], "As written", {"variant": "hasty"})
    body = {"name": "Was that clear?", "items": {"run": hasty}, "questions": QUESTIONS}
    await _post(http, "/api/reviews", body)


async def _run_evaluation(http: httpx.AsyncClient, testset: str, name: str, variant: dict[str, str]) -> str:
    body = {
        "name": name,
        "testset": {"id": testset},
        "variants": [{"name": "calculator", "workflow": "calculator", **variant}],
        "evaluators": EVALUATORS,
    }
    evaluation = await _post(http, "/api/evaluations", body)
    await http.get(f"/api/evaluations/{evaluation['id']}/events")  # The stream ends with the evaluation.
    return evaluation["id"]


async def _get(http: httpx.AsyncClient, path: str) -> Any:
    response = await http.get(path)
    return response.raise_for_status().json()


async def _post(http: httpx.AsyncClient, path: str, body: Any) -> Any:
    response = await http.post(path, json=body)
    return response.raise_for_status().json()
