"""The conversation of every emitter and the expected view of it: two turns of one session, each of them a trace.

The user asks for the weather, the model calls a tool, the tool answers, and the model repeats the answer.
"""

from collections.abc import Callable
from typing import Any

from tests.conformance.telemetry.trace_server import ProjectView

ROW_FIELDS = "kind status session user workflow model provider input_tokens output_tokens errors".split()


def actual_view(view: ProjectView, session: str) -> dict[str, Any]:
    """The server's view of a session: rows, trees, tools, the conversation of each turn, and the thread."""
    rows = view.rows(session)
    traces = [row["trace_id"] for row in rows]
    return {
        "rows": [
            {name: row[name] for name in ROW_FIELDS}
            | {side: (row[side]["renderer"], row[side]["text"]) for side in ("in", "out")}
            for row in rows
        ],
        "trees": [view.tree(trace) for trace in traces],
        "tools": [[_tool(span) for span in view.spans(trace) if span["kind"] == "tool"] for trace in traces],
        "conversations": [view.conversation(trace) for trace in traces],
        "thread": view.thread(session),
    }


def expected_view(session: str, tree: Any, **differences: Any) -> dict[str, Any]:
    """The expected view; `differences` holds differences of an emitter."""
    row: dict[str, Any] = {
        "kind": tree[0],
        "status": "ok",
        "session": session,
        "user": differences.get("user", "u-1"),
        "workflow": differences.get("workflow"),
        "model": "gpt-4o-mini",
        "provider": "openai",
        "input_tokens": 50,
        "output_tokens": 16,
        "errors": 0,
    }
    row |= {name: differences[name] for name in ROW_FIELDS if name in differences}
    result = differences.get("result", lambda output: output)
    first = [
        *differences.get("leading", [("system", "Be brief.")]),
        *_turn("What is the weather in Oslo?", "Oslo", "4 °C", result),
    ]
    both = [*first, *_turn("And in Bergen?", "Bergen", "9 °C", result)]
    in_, out = differences.get("in", "chat"), differences.get("out", "chat")
    return {
        "rows": [
            {**row, "in": (in_, "What is the weather in Oslo?"), "out": (out, "It is 4 °C in Oslo.")},
            {**row, "in": (in_, "And in Bergen?"), "out": (out, "It is 9 °C in Bergen.")},
        ],
        "trees": [[tree], [tree]],
        "tools": differences.get("tools", [[tool_span("Oslo", "4 °C")], [tool_span("Bergen", "9 °C")]]),
        "conversations": [first, both],
        "thread": [both],
    }


def tool_span(city: str, output: Any, **differences: Any) -> dict[str, Any]:
    """The span of a tool."""
    identity = {"name": "weather", "call_id": f"call_{city.lower()}"}
    return {"tool": identity, "inputs": {"city": city}, "outputs": output, **differences}


def _tool(span: dict[str, Any]) -> dict[str, Any]:
    return {name: span[name] for name in ("tool", "inputs", "outputs")}


def _turn(question: str, city: str, output: str, result: Callable[[str], Any]) -> list[Any]:
    call_id = f"call_{city.lower()}"
    return [
        ("user", question),
        ("assistant", {"calls": "weather", "as": call_id, "with": {"city": city}}),
        ("tool", {"answers": call_id, "with": result(output)}),
        ("assistant", f"It is {output} in {city}."),
    ]
