"""Telling: a case as text for a judge. Who speaks in a conversation is told by marks, so that no answer can fake it."""

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from msgspec import UNSET

from palaver.core import jsons
from palaver.core.messages import Message
from palaver.core.parts import Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.evaluation.matching.marks import Marks
from palaver.evaluation.scoring.cases import Case, CaseCall
from palaver.evaluation.scoring.casing import last_user


def written(value: Any) -> str:
    """A value of a case as text: a text as it is, anything else as JSON."""
    return jsons.whole_text(value) if isinstance(value, str) else jsons.encode(jsons.plain(value)).decode()


def conversation(case: Case, marks: Marks) -> str:
    """All that was said and called, turn by turn."""
    lines = list(_said(case.history, marks))
    is_plain = case.script is None and len(case.turns) == 1 and case.turns[0].user == last_user(case.history)
    for place, turn in enumerate(case.turns):
        lines.append(marks.line(f"turn {place}"))
        if not turn.reached:
            lines.append("(This turn was not reached.)")
        if turn.user is not None and not is_plain:  # Of a plain case the history ends with it.
            lines += _said([turn.user], marks)
        lines += _said(turn.messages, marks)
        if turn.value is not UNSET:
            lines += [marks.line("value"), written(turn.value)]
    return "\n".join(lines)


def tool_calls(calls: Sequence[CaseCall]) -> list[dict[str, Any]]:
    """The calls, each with its arguments and its result, as plain JSON."""
    return [_call(call) for call in calls]


def _call(call: CaseCall) -> dict[str, Any]:
    told: dict[str, Any] = {"turn": call.turn, "name": call.name}
    told["arguments"] = call.arguments if call.parsed is UNSET else call.parsed
    if call.result is not UNSET:
        told["result"] = call.result
    return told | ({"is_error": True} if call.is_error else {})


def _said(messages: Sequence[Message], marks: Marks) -> Iterator[str]:
    for message in messages:
        yield marks.line(message.role)
        for part in message.parts:
            if (line := _part(part)) is not None:
                yield line


def _part(part: Part) -> str | None:
    match part:
        case Text(text=text):
            return text
        case Refusal(text=text):
            return f"(refuses) {text}"
        case ToolCall(name=name, arguments=arguments):
            return f"(calls the tool {name}) {arguments}"
        case ToolResult(output=output, is_error=is_error):
            return f"({'the tool failed' if is_error else 'the tool answered'}) {written(output)}"
        case Data(name=name, value=value):
            return f"(gives the data {name}) {written(value)}"
        case File(filename=name, media_type=kind):
            return f"(gives a file) {name or ''} {kind}"
        case Reasoning():
            return None  # It is not what was said.
        case _:
            assert_never(part)
