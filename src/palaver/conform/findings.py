"""What a checker found: the rule that was broken, where, and why."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from palaver.conform.frames import Frame
from palaver.conform.rules import RULES, Protocol, Severity, severity
from palaver.core import json

_MAX_PER_RULE = 20
"""A stream of a million frames that all break one rule is told by its first twenty."""
_MAX_FRAME_TEXT = 2000


class Violation(Struct, frozen=True):
    """One rule, broken by one frame."""

    rule: str
    severity: Severity
    frame_index: int | None
    """From 0; the number of frames where something is missing at the end; None where it is not about the stream."""
    line: int | None
    """Of the recorded stream, from 1."""
    frame: str
    """Its data, cut short. A stranger's text: make it printable before you show it."""
    why: str
    """In words, with pieces of the stranger's text."""

    def __str__(self) -> str:
        at = "" if self.frame_index is None else f" at frame {self.frame_index}"
        shown = f"\n    {self.frame}" if self.frame else ""
        return f"{self.rule} ({self.severity}){at}: {self.why}\n    rule: {RULES[self.rule].says}{shown}"


class Report(Struct, frozen=True, kw_only=True):
    """The grade of one stream, body or refusal."""

    protocol: Protocol
    frames: int = 0
    broken: tuple[Violation, ...] = ()
    """Everything, in the order of the frames."""
    strict: bool = True
    """Is a broken should a fault too?"""

    @property
    def faults(self) -> tuple[Violation, ...]:
        """What fails the grade."""
        return tuple(one for one in self.broken if self.strict or one.severity == "must")

    @property
    def ok(self) -> bool:
        """Does the grade stand?"""
        return not self.faults

    @property
    def first(self) -> Violation | None:
        """The first fault."""
        return next(iter(self.faults), None)

    def __str__(self) -> str:
        told = "\n".join(str(one) for one in self.broken)
        return f"{self.protocol}, {self.frames} frames: " + (told or "every rule is kept")


class Findings:
    """Collects what is broken while a stream is read."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol: Protocol = protocol
        self._broken: list[Violation] = []
        self._told: Counter[str] = Counter()

    def broke(self, rule: str, frame: Frame | None, why: str) -> None:
        """Note that a frame broke a rule."""
        self._told[rule] += 1
        if self._told[rule] > _MAX_PER_RULE:
            return
        index, line, shown = (
            (frame.index, frame.line, shorten(frame.text, _MAX_FRAME_TEXT)) if frame else (None, None, "")
        )
        self._broken.append(Violation(rule, severity(rule, self.protocol), index, line, shown, why))

    def report(self, *, frames: int = 0, strict: bool = True) -> Report:
        """All of it, by frame; what is no matter of the stream comes last."""
        ordered = sorted(self._broken, key=lambda one: frames + 1 if one.frame_index is None else one.frame_index)
        return Report(protocol=self.protocol, frames=frames, broken=tuple(ordered), strict=strict)


def quote(value: object) -> str:
    """A stranger's value in a sentence."""
    return shorten(json.encode(value).decode(), 80)


def shorten(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


# Readers of values whose type nobody has checked.


def text_in(value: Mapping[str, Any], key: str) -> str | None:
    """The string under that key, if it is one."""
    found = value.get(key)
    return found if isinstance(found, str) else None


def number_in(value: Mapping[str, Any], key: str) -> int | None:
    """The integer under that key, if it is one."""
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def object_in(value: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """The object under that key, if it is one."""
    return as_object(value.get(key))


def list_in(value: Mapping[str, Any], key: str) -> list[Any] | None:
    """The list under that key, if it is one."""
    found: Any = value.get(key)
    return found if isinstance(found, list) else None  # pyright: ignore[reportUnknownVariableType]


def as_object(value: Any) -> dict[str, Any] | None:
    """The value, if it is an object."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
