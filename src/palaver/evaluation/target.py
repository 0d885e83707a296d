"""Aim: what of a case an evaluator looks at, and with what it compares it. The parameters that built-ins share.

A function that has a parameter of this type gets them into its schema: `target`, `stringify`, `expected_from`,
`case_sensitive` and `threshold`.
"""

from typing import Any, cast

import msgspec
from msgspec import UNSET

from palaver.core.messages import Data, Message
from palaver.errors import InvalidValue
from palaver.evaluation import json_equality, json_path, json_search
from palaver.evaluation.case import Case, read_messages
from palaver.evaluation.score import ScoringError, Skip

_TEXT_TARGETS = ("text", "all_text")
_TARGET_ROOTS = ("value", "json", "tool_calls", "data", "inputs", "row", "messages", "turns", *_TEXT_TARGETS)
_SORTED = msgspec.json.Encoder(order="sorted")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at in each case."""

    target: str = "text"
    stringify: bool = False
    expected_from: str | None = None
    case_sensitive: bool = True

    def check(self) -> None:
        """Refuse a target or a path that can mean nothing."""
        for name, path in (("target", self.target), ("expected_from", self.expected_from or "$")):
            try:
                steps = json_path.parse_path(path)
            except ValueError as error:
                if name == "target":
                    raise InvalidValue(f"{error}.", pointer=f"/parameters/{name}") from None
                continue  # A column may be called anything.
            if name == "target" and (not steps or steps[0] not in _TARGET_ROOTS):
                raise InvalidValue(
                    f"The target {path!r} is nothing of a case. It is text, all_text, or a path that begins with "
                    f"{', '.join(_TARGET_ROOTS[:-2])}.",
                    pointer="/parameters/target",
                )

    def text(self, case: Case) -> str:
        """The text that is looked at; Unscored needs_text where a workflow gave no text."""
        if self.target in _TEXT_TARGETS:
            if _has_text(case):
                return case.text if self.target == "text" or not case.flags.is_chat else all_text(case)
            return self._written(case.value, "The workflow's value")
        found = self._looked_up(case)
        if found is UNSET and json_path.parse_path(self.target)[0] != "value":
            return ""  # What a chat did not say or call is said to be missing by not passing.
        return self._written(found, self.target)

    def value(self, case: Case) -> Any:
        """The JSON that is looked at, found in text where it is text; UNSET where there is none."""
        raw = self.raw(case)
        is_data = "data_only" in case.notes and self.target in _TEXT_TARGETS
        return json_search.find_json(raw) if isinstance(raw, str) and not is_data else raw

    def raw(self, case: Case) -> Any:
        """What is looked at, as it is: text, a workflow's value, the value of a chat's data; UNSET for nothing."""
        if self.target not in _TEXT_TARGETS:
            return self._looked_up(case)
        if "data_only" in case.notes:
            return _data_parts(case.messages)[-1].value
        if not _has_text(case):
            return case.value
        return case.text if self.target == "text" or not case.flags.is_chat else all_text(case)

    def expected(self, case: Case) -> Any:
        """What is expected; Skip no_expected where nothing is."""
        if self.expected_from is None:
            found = case.expected
        elif self.expected_from in case.row:
            found = case.row[self.expected_from]
        else:
            found = _value_at(case.row, self.expected_from)
        if found is UNSET:
            missing = f" in {self.expected_from!r}" if self.expected_from is not None else ""
            raise Skip("no_expected", f"the row has no expected answer{missing}")
        return found

    def expected_text(self, case: Case) -> str:
        """The text that is expected: a string, or what an expected message says."""
        expected = self.expected(case)
        if not isinstance(expected, str) and (messages := read_messages(expected)):
            return last_assistant_text(messages)
        return self._written(expected, "What is expected")

    def folded(self, text: str) -> str:
        """The text as it is compared."""
        return text if self.case_sensitive else text.casefold()

    def folded_value(self, value: Any) -> Any:
        """A JSON value as it is compared: every string in it folded."""
        return value if self.case_sensitive else json_equality.map_strings(value, str.casefold)

    def at(self, path: str, value: Any) -> Any:
        """What stands at a path in a value; UNSET where there is nothing."""
        return _value_at(value, path)

    def _looked_up(self, case: Case) -> Any:
        first, *rest = json_path.parse_path(self.target)
        return json_path.value_at(_target_root(case, cast("str", first)), tuple(rest))

    def _written(self, value: Any, what: str) -> str:
        if isinstance(value, str):
            return value
        if self.stringify and value is not UNSET:
            return _SORTED.encode(value).decode()
        kind = "missing" if value is UNSET else f"of kind {json_equality.json_kind(value)}"
        raise ScoringError("needs_text", f"{what} is {kind}. Set stringify, or a target that is a string")


def answer_json(case: Case) -> Any:
    """The JSON of an answer: in its text, the value of its data, or a workflow's value. UNSET where there is none."""
    return Target().value(case)


def all_text(case: Case) -> str:
    """What all assistant messages say, joined by newlines."""
    return "\n".join(text for message in case.messages if message.role == "assistant" and (text := message.text))


def last_assistant_text(messages: list[Message]) -> str:
    """What the last assistant message says, or the last one of all."""
    return next((one.text for one in reversed(messages) if one.role == "assistant"), messages[-1].text)


def _has_text(case: Case) -> bool:
    return case.flags.is_chat or isinstance(case.value, str)


def _target_root(case: Case, name: str) -> Any:
    match name:
        case "value" | "inputs" | "row":
            return {"value": case.value, "inputs": case.inputs, "row": case.row}[name]
        case "text":
            return case.text
        case "all_text":
            return all_text(case)
        case "json":
            return answer_json(case)
        case "data":
            return {part.name: part.value for part in _data_parts(case.messages)}  # Of one name the last.
        case _:
            roots = {"tool_calls": case.tool_calls, "messages": case.messages, "turns": case.turns}
            return msgspec.to_builtins(roots[name])


def _data_parts(messages: tuple[Message, ...]) -> list[Data]:
    return [part for message in messages for part in message.parts if isinstance(part, Data)]


def _value_at(value: Any, path: str) -> Any:
    try:
        return json_path.value_at(value, path)
    except ValueError:
        return UNSET
