"""Sample data of `palaver demo`: created through the HTTP API, so everything in it was really run and scored."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

HASTY = {"name": "hasty", "parameters": {"order": "as written"}, "message": "Quicker, but is it right?"}
"""A variant of the calculator, to be compared with its default."""

TALKS: list[tuple[str, str | None, list[str]]] = [
    ("eliza", None, ["Hello!", "I am worried about my release on Friday.", "Because nobody has tested it."]),
    ("eliza", None, ["My boss wants an answer today.", "I don't have one."]),
    ("calculator", None, ["What is (2 + 3) * 4?", "And 100 / 8 - 2?"]),
    ("calculator", None, ["Four people share 7 pizzas of 12.50: 7 * 12.5 / 4", "And what is 10 / 0?"]),
    ("calculator", "hasty", ["What is 2 + 3 * 4?"]),
]
"""Conversations: the workflow, its variant, and what somebody says, turn by turn."""

BOARD: dict[str, Any] = {
    "name": "Two orders of working it out",
    "mode": "chat",
    "columns": [
        {"id": "default", "workflow": "calculator"},
        {"id": "hasty", "workflow": "calculator", "variant": "hasty"},
    ],
    "rows": [{"id": "r1"}, {"id": "r2"}, {"id": "r3"}],
}
"""Two variants side by side in three threads,"""
BOARD_SAYS = {"r1": "2 + 3 * 4", "r2": "(2 + 3) * 4", "r3": "20 - 12 / 4"}
"""and what each thread is asked."""

HEADLINES: dict[str, Any] = {
    "name": "Headlines, in two styles",
    "mode": "single",
    "columns": [
        {"id": "title", "workflow": "headline"},
        {"id": "plain", "workflow": "headline", "parameters": {"style": "plain"}},
    ],
    "rows": [
        {"id": "r1", "inputs": {"text": "The harbour froze over last night. Nobody in the harbour had seen that."}},
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

SUMS_ARE = "What a pocket calculator should know."
EVALUATORS: list[dict[str, Any]] = [
    {"key": "contains"},
    {"key": "tool_sequence", "parameters": {"expected_from": "tools"}},
    {"key": "latency_budget", "parameters": {"max_seconds": 2}},
]
QUESTIONS: list[dict[str, Any]] = [
    {"key": "clear", "type": "boolean", "title": "Would a child understand it?"},
    {"key": "note", "type": "text", "title": "What would you say instead?", "required": False},
]
"""What people are asked about answers,"""
RULE: dict[str, Any] = {
    "name": "Tools are not called twice",
    "filter": {"field": "workflow", "op": "eq", "value": "calculator"},
    "sample": 1.0,
    "evaluators": [{"key": "no_repeated_tool_call"}],
}
"""and what is asked of those that are given live."""


def testset_rows() -> list[dict[str, Any]]:
    """Cases for the calculator: a question, its answer, the tools that are called for it, and of what kind it is.

    The question stands as messages, as a turn does that somebody adds from the playground.
    """
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


_SECOND = 1_000_000_000
_ASKED = "Is there a train to Bergen tonight?"
_FOUND = {"departs": "23:25", "arrives": "06:52", "berths": 3}
_SAID = "Yes: the night train leaves at 23:25 and arrives at 06:52. Three berths are left."
_CALL = {"type": "tool_call", "id": "call_1", "name": "timetable", "arguments": {"to": "Bergen", "after": "20:00"}}
_BACK = {"type": "tool_call_response", "id": "call_1", "response": _FOUND}


def sample_trace(now: int) -> dict[str, Any]:
    """An OTLP request, as if that program had answered just before `now` (nanoseconds)."""
    begun = now - 3 * _SECOND
    trace = f"{now:016x}" * 2
    model = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.operation.name": "chat"}
    asked = [_message("user", {"type": "text", "content": _ASKED})]
    called = _message("assistant", _CALL)
    answer = _message("assistant", {"type": "text", "content": _SAID})
    spans = [
        _span(trace, 1, None, "invoke_agent travel desk", begun, 2.9, {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "travel desk",
            "gen_ai.conversation.id": "desk-7",
            "gen_ai.input.messages": asked,
            "gen_ai.output.messages": [answer],
        }),
        _span(trace, 2, 1, "chat gpt-4o-mini", begun + _SECOND // 10, 1.1, model | {
            "gen_ai.input.messages": asked,
            "gen_ai.output.messages": [called],
            "gen_ai.usage.input_tokens": 212,
            "gen_ai.usage.output_tokens": 24,
        }),
        _span(trace, 3, 1, "execute_tool timetable", begun + 12 * _SECOND // 10, 0.4, {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "timetable",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.tool.call.arguments": _CALL["arguments"],
            "gen_ai.tool.call.result": _FOUND,
        }),
        _span(trace, 4, 1, "chat gpt-4o-mini", begun + 17 * _SECOND // 10, 1.2, model | {
            "gen_ai.input.messages": [*asked, called, _message("tool", _BACK)],
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
    trace: str, number: int, parent: int | None, name: str, begun: int, seconds: float, attributes: dict[str, Any]
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(begun),
        "endTimeUnixNano": str(begun + int(seconds * _SECOND)),
        "attributes": _attributes(attributes),
        "status": {},
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value if isinstance(value, str) else msgspec.json.encode(value).decode()}


_WHERE_IT_IS = ("threads", "boards", "testsets", "evaluations")


async def create_sample_data(http: httpx.AsyncClient, tell: Callable[[str], None]) -> None:
    """Give a new demo something to look at; one in which there is something already is left as it is."""
    if any([(await _get(http, f"/api/{name}?limit=1"))["data"] for name in _WHERE_IT_IS]):
        return
    await _post(http, "/api/workflows/calculator/variants", HASTY)
    tell("a test set, and two evaluations over it")
    await _evaluations(http)
    tell("boards: variants side by side")
    await _headlines(http)
    await _side_by_side(http)  # The page opens with the board that was saved last.
    tell("conversations, and a trace of another program")  # Last, so that lists of traces begin with them.
    await _post(http, "/api/online", RULE)
    await asyncio.gather(*(_talk(http, workflow, variant, said) for workflow, variant, said in TALKS))
    await _post(http, "/v1/traces", sample_trace(time.time_ns()))


async def _talk(http: httpx.AsyncClient, workflow: str, variant: str | None, said: list[str]) -> None:
    thread = await _post(http, "/api/threads", {"workflow": workflow, "variant": variant})
    run = ""
    for line in said:
        run = await _say(http, thread["id"], line)
    rated = await http.put(f"/api/runs/{run}/feedback", json={"rating": "down" if variant else "up"})
    rated.raise_for_status()


async def _say(http: httpx.AsyncClient, thread: str, line: str) -> str:
    """Say it in a thread and hear the answer to its end; the run that answered."""
    body = {"messages": [{"role": "user", "content": line}]}
    answer = await http.post(f"/api/threads/{thread}/turns", json=body, headers={"accept": "text/event-stream"})
    return answer.raise_for_status().headers["x-palaver-run-id"]


async def _side_by_side(http: httpx.AsyncClient) -> None:
    board = await _post(http, "/api/boards", BOARD)

    async def fill_cell(row: str, column: dict[str, Any]) -> None:
        cell = {"board": board["id"], "row": row, "column": column["id"]}
        body = {"workflow": column["workflow"], "variant": column.get("variant"), "cell": cell}
        thread = await _post(http, "/api/threads", body)
        await _say(http, thread["id"], BOARD_SAYS[row])

    cells = [(row["id"], column) for row in BOARD["rows"] for column in BOARD["columns"]]
    await asyncio.gather(*(fill_cell(row, column) for row, column in cells))


async def _headlines(http: httpx.AsyncClient) -> None:
    board = await _post(http, "/api/boards", HEADLINES)
    await _post(http, f"/api/boards/{board['id']}/run", {"cells": "all"})


async def _evaluations(http: httpx.AsyncClient) -> None:
    rows = [{"data": row} for row in testset_rows()]
    testset = await _post(http, "/api/testsets", {"name": "Sums", "description": SUMS_ARE, "rows": rows})
    await _evaluated(http, testset["id"], "Products first", {})
    hasty = await _evaluated(http, testset["id"], "As written", {"variant": "hasty"})
    asked = {"name": "Was that clear?", "items": {"run": hasty}, "questions": QUESTIONS}
    await _post(http, "/api/reviews", asked)


async def _evaluated(http: httpx.AsyncClient, testset: str, name: str, variant: dict[str, str]) -> str:
    """Run it to its end; its id."""
    asked = {
        "name": name,
        "testset": {"id": testset},
        "variants": [{"name": "calculator", "workflow": "calculator", **variant}],
        "evaluators": EVALUATORS,
    }
    begun = await _post(http, "/api/evaluations", asked)
    await http.get(f"/api/evaluations/{begun['id']}/events")  # It ends when the evaluation does.
    return begun["id"]


async def _get(http: httpx.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    return answer.raise_for_status().json()


async def _post(http: httpx.AsyncClient, path: str, body: Any) -> Any:
    answer = await http.post(path, json=body)
    return answer.raise_for_status().json()
