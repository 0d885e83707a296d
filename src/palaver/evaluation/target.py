"""The part of a case that an evaluator scores, and the expected answer that it is compared with.

A function with a parameter of type Target gets these parameters in its schema: `target`, `stringify`, `expected_from`,
`case_sensitive` and `threshold`.
"""

from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.core.json import json_kind
from palaver.core.messages import Data, Message
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.case import Case, read_messages
from palaver.evaluation.score import ScoringError, Skip

_TEXT_TARGETS = ("text", "all_text")
_TARGET_ROOTS = ("value", "json", "tool_calls", "data", "inputs", "row", "messages", "turns", *_TEXT_TARGETS)
_SORTED_ENCODER = msgspec.json.Encoder(order="sorted")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    target: Annotated[str, Meta(description="What to score: text, all_text, or a path such as value.a.b.")] = "text"
    stringify: Annotated[bool, Meta(description="Convert objects and lists to JSON.")] = False
    expected_from: Annotated[
        str | None, Meta(description="Column, or path within the row, that holds the expected answer.")
    ] = None
    case_sensitive: Annotated[bool, Meta(description="Match case.")] = True

    def check(self) -> None:
        """Raise InvalidValue for a target or path that cannot exist."""
        for name, path in (("target", self.target), ("expected_from", self.expected_from or "$")):
            try:
                steps = json_values.parse_path(path)
            except ValueError as error:
                if name == "target":
                    raise InvalidValue(f"{error}.", pointer=f"/parameters/{name}") from None
                continue  # A column may have any name.
            if name == "target" and (not steps or steps[0] not in _TARGET_ROOTS):
                raise InvalidValue(
                    f"invalid target {path!r}: use text, all_text, or a path that starts with one of "
                    f"{', '.join(_TARGET_ROOTS[:-2])}.",
                    pointer="/parameters/target",
                )

    def text(self, case: Case) -> str:
        """Return the text to score. Raises ScoringError needs_text if the value is not text."""
        if self.target in _TEXT_TARGETS:
            if _has_text(case):
                return case.text if self.target == "text" or not case.flags.is_chat else all_text(case)
            return self._to_text(case.value, "the workflow's value")
        value = self._lookup(case)
        if value is UNSET and json_values.parse_path(self.target)[0] != "value":
            return ""  # Anything that a chat did not say or call is an empty text, which does not pass.
        return self._to_text(value, self.target)

    def value(self, case: Case) -> Any:
        """Return the JSON to score, searched in text; or UNSET."""
        raw = self.raw(case)
        is_data = "data_only" in case.notes and self.target in _TEXT_TARGETS
        return json_values.find_json(raw) if isinstance(raw, str) and not is_data else raw

    def raw(self, case: Case) -> Any:
        """Return the unconverted target: text, a workflow's value, or the value of a chat's data; UNSET if absent."""
        if self.target not in _TEXT_TARGETS:
            return self._lookup(case)
        if "data_only" in case.notes:
            return _data_parts(case.messages)[-1].value
        if not _has_text(case):
            return case.value
        return case.text if self.target == "text" or not case.flags.is_chat else all_text(case)

    def expected(self, case: Case) -> Any:
        """Return the expected answer. Raises Skip no_expected."""
        if self.expected_from is None:
            value = case.expected
        elif self.expected_from in case.row:
            value = case.row[self.expected_from]
        else:
            value = _value_at(case.row, self.expected_from)
        if value is UNSET:
            missing = f" in {self.expected_from!r}" if self.expected_from is not None else ""
            raise Skip("no_expected", f"the row has no expected answer{missing}")
        return value

    def expected_text(self, case: Case) -> str:
        """Return the expected text: a string, or the text of an expected message."""
        expected = self.expected(case)
        if not isinstance(expected, str) and (messages := read_messages(expected)):
            return last_assistant_text(messages)
        return self._to_text(expected, "the expected answer")

    def fold_case(self, text: str) -> str:
        """Fold case unless `case_sensitive`."""
        return text if self.case_sensitive else text.casefold()

    def fold_value(self, value: Any) -> Any:
        """Fold the case of all strings in a JSON value unless `case_sensitive`."""
        return value if self.case_sensitive else json_values.map_strings(value, str.casefold)

    def value_at(self, path: str, value: Any) -> Any:
        """Return the value at a path; UNSET if it is missing or the path is invalid."""
        return _value_at(value, path)

    def _lookup(self, case: Case) -> Any:
        root, *path = json_values.parse_path(self.target)
        return json_values.value_at(_target_root(case, cast("str", root)), tuple(path))

    def _to_text(self, value: Any, subject: str) -> str:
        if (text := json_values.scalar_text(value)) is not None:
            return text
        if self.stringify and value is not UNSET:
            return _SORTED_ENCODER.encode(value).decode()
        if value is UNSET:
            raise ScoringError("needs_text", f"{subject} is missing")
        message = f"{subject} is not text (type: {json_kind(value)}); set stringify, or choose a text target"
        raise ScoringError("needs_text", message)


def answer_json(case: Case) -> Any:
    """Return the JSON of an answer: in its text, its data, or a workflow's value; or UNSET."""
    return Target().value(case)


def all_text(case: Case) -> str:
    return "\n".join(text for message in case.messages if message.role == "assistant" and (text := message.text))


def last_assistant_text(messages: list[Message]) -> str:
    """Return the text of the last assistant message, else of the last message."""
    return next((message.text for message in reversed(messages) if message.role == "assistant"), messages[-1].text)


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
            return {part.name: part.value for part in _data_parts(case.messages)}  # The last part of each name.
        case _:
            roots = {"tool_calls": case.tool_calls, "messages": case.messages, "turns": case.turns}
            return msgspec.to_builtins(roots[name])


def _data_parts(messages: tuple[Message, ...]) -> list[Data]:
    return [part for message in messages for part in message.parts if isinstance(part, Data)]


def _value_at(value: Any, path: str) -> Any:
    try:
        return json_values.value_at(value, path)
    except ValueError:
        return UNSET
