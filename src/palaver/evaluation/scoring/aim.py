"""Aim: what of a case an evaluator looks at, and with what it compares it. The parameters that built-ins share.

A function that has a parameter of this type gets them into its schema: `target`, `stringify`, `expected_from`,
`case_sensitive` and `threshold`.
"""

from typing import Any, cast

import msgspec
from msgspec import UNSET

from palaver.core import dialects
from palaver.core.messages import Message
from palaver.core.parts import Data
from palaver.core.recognition import dialect_of
from palaver.errors import InvalidMessages, InvalidValue
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.scores import Skip, Unscored
from palaver.evaluation.values import equality, found_json, paths

_TEXTS = ("text", "all_text")
_ROOTS = ("value", "json", "tool_calls", "data", "inputs", "row", "messages", "turns", *_TEXTS)
_SORTED = msgspec.json.Encoder(order="sorted")


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at in each case."""

    target: str = "text"
    stringify: bool = False
    expected_from: str | None = None
    case_sensitive: bool = True

    def check(self) -> None:
        """Refuse a target or a path that can mean nothing."""
        for name, path in (("target", self.target), ("expected_from", self.expected_from or "$")):
            try:
                steps = paths.steps(path)
            except ValueError as error:
                if name == "target":
                    raise InvalidValue(f"{error}.", pointer=f"/parameters/{name}") from None
                continue  # A column may be called anything.
            if name == "target" and (not steps or steps[0] not in _ROOTS):
                raise InvalidValue(
                    f"The target {path!r} is nothing of a case. It is text, all_text, or a path that begins with "
                    f"{', '.join(_ROOTS[:-2])}.",
                    pointer="/parameters/target",
                )

    def text(self, case: Case) -> str:
        """The text that is looked at; Unscored needs_text where a workflow gave no text."""
        if self.target in _TEXTS:
            if _has_text(case):
                return case.text if self.target == "text" or not case.flags.is_chat else all_text(case)
            return self._written(case.value, "The workflow's value")
        found = self._looked_up(case)
        if found is UNSET and paths.steps(self.target)[0] != "value":
            return ""  # What a chat did not say or call is said to be missing by not passing.
        return self._written(found, self.target)

    def value(self, case: Case) -> Any:
        """The JSON that is looked at, found in text where it is text; UNSET where there is none."""
        raw = self.raw(case)
        is_data = "data_only" in case.notes and self.target in _TEXTS
        return found_json.found(raw) if isinstance(raw, str) and not is_data else raw

    def raw(self, case: Case) -> Any:
        """What is looked at, as it is: text, a workflow's value, the value of a chat's data; UNSET for nothing."""
        if self.target not in _TEXTS:
            return self._looked_up(case)
        if "data_only" in case.notes:
            return _data(case.messages)[-1].value
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
            found = _at(case.row, self.expected_from)
        if found is UNSET:
            missing = f" in {self.expected_from!r}" if self.expected_from is not None else ""
            raise Skip("no_expected", f"the row has no expected answer{missing}")
        return found

    def expected_text(self, case: Case) -> str:
        """The text that is expected: a string, or what an expected message says."""
        expected = self.expected(case)
        if not isinstance(expected, str) and (messages := messages_in(expected)):
            return last_said(messages)
        return self._written(expected, "What is expected")

    def folded(self, text: str) -> str:
        """The text as it is compared."""
        return text if self.case_sensitive else text.casefold()

    def folded_value(self, value: Any) -> Any:
        """A JSON value as it is compared: every string in it folded."""
        return value if self.case_sensitive else equality.with_texts(value, str.casefold)

    def at(self, path: str, value: Any) -> Any:
        """What stands at a path in a value; UNSET where there is nothing."""
        return _at(value, path)

    def _looked_up(self, case: Case) -> Any:
        first, *rest = paths.steps(self.target)
        return paths.at(_root(case, cast("str", first)), tuple(rest))

    def _written(self, value: Any, what: str) -> str:
        if isinstance(value, str):
            return value
        if self.stringify and value is not UNSET:
            return _SORTED.encode(value).decode()
        kind = "missing" if value is UNSET else f"of kind {equality.kind_of(value)}"
        raise Unscored("needs_text", f"{what} is {kind}. Set stringify, or a target that is a string")


def json_of(case: Case) -> Any:
    """The JSON of an answer: in its text, the value of its data, or a workflow's value. UNSET where there is none."""
    return Aim().value(case)


def all_text(case: Case) -> str:
    """What all assistant messages say, joined by newlines."""
    return "\n".join(text for message in case.messages if message.role == "assistant" and (text := message.text))


def messages_in(value: Any) -> list[Message] | None:
    """The messages that a value is, one or a list, in any dialect; None where it is none."""
    if isinstance(value, str) or dialect_of(value) is None:
        return None
    try:
        return list(dialects.read(value))
    except InvalidMessages:
        return None


def last_said(messages: list[Message]) -> str:
    """What the last assistant message says, or the last one of all."""
    return next((one.text for one in reversed(messages) if one.role == "assistant"), messages[-1].text)


def _has_text(case: Case) -> bool:
    return case.flags.is_chat or isinstance(case.value, str)


def _root(case: Case, name: str) -> Any:
    match name:
        case "value" | "inputs" | "row":
            return {"value": case.value, "inputs": case.inputs, "row": case.row}[name]
        case "text":
            return case.text
        case "all_text":
            return all_text(case)
        case "json":
            return json_of(case)
        case "data":
            return {part.name: part.value for part in _data(case.messages)}  # Of one name the last.
        case _:
            roots = {"tool_calls": case.tool_calls, "messages": case.messages, "turns": case.turns}
            return msgspec.to_builtins(roots[name])


def _data(messages: tuple[Message, ...]) -> list[Data]:
    return [part for message in messages for part in message.parts if isinstance(part, Data)]


def _at(value: Any, path: str) -> Any:
    try:
        return paths.at(value, path)
    except ValueError:
        return UNSET
