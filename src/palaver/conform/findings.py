"""Violations of rules, the report, and typed access to JSON values."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from palaver.conform.frames import Frame
from palaver.conform.rules import RULES, Protocol, Severity, severity
from palaver.core import json

_MAX_PER_RULE = 20
"""Further violations of the same rule are dropped."""
_MAX_FRAME_CHARACTERS = 2000


class Violation(Struct, frozen=True):
    rule: str
    severity: Severity
    frame_index: int | None
    """From 0; the number of frames if something is missing at the end; None if it is not about the stream."""
    line: int | None
    """Line of the recorded stream, from 1."""
    frame: str
    """The frame's data, shortened. Untrusted text: make it printable before showing it."""
    why: str
    """Contains pieces of untrusted text."""

    def __str__(self) -> str:
        location = "" if self.frame_index is None else f" at frame {self.frame_index}"
        frame = f"\n    {self.frame}" if self.frame else ""
        return f"{self.rule} ({self.severity}){location}: {self.why}\n    rule: {RULES[self.rule].text}{frame}"


class Report(Struct, frozen=True, kw_only=True):
    protocol: Protocol
    frames: int = 0
    violations: tuple[Violation, ...] = ()
    """In the order of the frames."""
    strict: bool = True
    """Whether violations of *should* rules are faults, too."""

    @property
    def faults(self) -> tuple[Violation, ...]:
        """The violations that fail the grade."""
        return tuple(violation for violation in self.violations if self.strict or violation.severity == "must")

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def first(self) -> Violation | None:
        return next(iter(self.faults), None)

    def __str__(self) -> str:
        lines = "\n".join(str(violation) for violation in self.violations)
        return f"{self.protocol}, {self.frames} frames: " + (lines or "no violations")


class Findings:
    """Collects violations while a stream is read."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol: Protocol = protocol
        self._violations: list[Violation] = []
        self._counts: Counter[str] = Counter()

    def add(self, rule: str, frame: Frame | None, why: str) -> None:
        self._counts[rule] += 1
        if self._counts[rule] > _MAX_PER_RULE:
            return
        index, line, text = (
            (frame.index, frame.line, shorten(frame.text, _MAX_FRAME_CHARACTERS)) if frame else (None, None, "")
        )
        self._violations.append(Violation(rule, severity(rule, self.protocol), index, line, text, why))

    def report(self, *, frames: int = 0, strict: bool = True) -> Report:
        """Return the violations ordered by frame; violations outside the stream come last."""
        ordered = sorted(self._violations, key=lambda one: frames + 1 if one.frame_index is None else one.frame_index)
        return Report(protocol=self.protocol, frames=frames, violations=tuple(ordered), strict=strict)


def quote(value: object) -> str:
    return shorten(json.encode(value).decode(), 80)


def shorten(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


# Typed access to untyped values


def text_in(value: Mapping[str, Any], key: str) -> str | None:
    item = value.get(key)
    return item if isinstance(item, str) else None


def number_in(value: Mapping[str, Any], key: str) -> int | None:
    item = value.get(key)
    return item if isinstance(item, int) and not isinstance(item, bool) else None


def object_in(value: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    return as_object(value.get(key))


def list_in(value: Mapping[str, Any], key: str) -> list[Any] | None:
    item: Any = value.get(key)
    return item if isinstance(item, list) else None  # pyright: ignore[reportUnknownVariableType]


def as_object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
