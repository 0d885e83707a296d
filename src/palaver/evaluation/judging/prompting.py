"""Prompting: a judge's question with slots, `{{text}}` or `{{inputs.city}}`, filled with what a case holds.

A slot is a path and nothing else: no condition, no loop, no function. What is filled in stands between marks, and is
not looked at for slots again.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET

from palaver.errors import InvalidValue
from palaver.evaluation.judging import telling
from palaver.evaluation.matching.marks import Marks
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.scores import Skip
from palaver.evaluation.values import paths

SLOTS: Final = ("inputs", "text", "expected", "conversation", "tool_calls")
_SLOT: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_WHOLE: Final = frozenset({"text", "conversation", "goal"})
"""Slots that are text, which has no paths below it."""


class Slotted(msgspec.Struct, frozen=True):
    """A question with its slots: texts and paths, in turn."""

    pieces: tuple[str | paths.Steps, ...]

    def filled(self, case: Case, aim: Aim, marks: Marks, more: Mapping[str, str] | None = None) -> str:
        """The question about one case. Skip where a slot has nothing to be filled with."""

        def said(steps: paths.Steps) -> str:
            return marks.around(paths.written(steps), _content(steps, case, aim, marks, more or {}))

        return "".join(piece if isinstance(piece, str) else said(piece) for piece in self.pieces)


@lru_cache(maxsize=64)
def template(prompt: str, pointer: str, slots: tuple[str, ...] = SLOTS) -> Slotted:
    """The template that a text is; InvalidValue for a slot that a case cannot fill."""
    pieces: list[str | paths.Steps] = []
    at = 0
    for slot in _SLOT.finditer(prompt):
        pieces += [prompt[at : slot.start()], _steps(slot[1], pointer, slots)]
        at = slot.end()
    return Slotted((*pieces, prompt[at:]))


def _steps(path: str, pointer: str, slots: tuple[str, ...]) -> paths.Steps:
    try:
        steps = paths.steps(path)
    except ValueError:
        steps = ()
    if not steps or steps[0] not in slots or (steps[0] in _WHOLE and len(steps) > 1):
        known = ", ".join(f"{{{{{slot}}}}}" for slot in slots)
        raise InvalidValue(
            f"There is no slot {path[:80]!r}. A slot is a path that begins with one of {known}.", pointer=pointer
        )
    return steps


def _content(steps: paths.Steps, case: Case, aim: Aim, marks: Marks, more: Mapping[str, str]) -> str:
    name = str(steps[0])
    if name in more:
        return more[name]
    if name == "inputs" and len(steps) > 1:  # A column that is no input of the workflow can be told of, too.
        value = paths.at({**case.row, **case.inputs}, steps[1:])
    else:
        value = paths.at(_ROOTS[name](case, aim, marks), steps[1:])
    if value is UNSET:
        raise Skip("no_value", f"the case has nothing for {{{{{paths.written(steps)}}}}}")
    return telling.written(value)


_ROOTS: Final[Mapping[str, Callable[[Case, Aim, Marks], Any]]] = {
    "inputs": lambda case, _aim, _marks: case.inputs,
    "text": lambda case, aim, _marks: aim.text(case),
    "expected": lambda case, aim, _marks: aim.expected(case),
    "conversation": lambda case, _aim, marks: telling.conversation(case, marks),
    "tool_calls": lambda case, _aim, _marks: telling.tool_calls(case.tool_calls),
}
