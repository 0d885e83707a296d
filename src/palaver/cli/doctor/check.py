"""The result of a check, and the printed list of results."""

from collections.abc import Sequence
from typing import Literal

import click
import msgspec

from palaver.outbound import printable

CheckLevel = Literal["ok", "warning", "problem"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One result. The field names are JSON keys of `palaver doctor --json`."""

    subject: str
    """settings, database, extras …"""
    sign: CheckLevel
    says: str
    do: str = ""
    """What to do; empty if nothing is needed."""

    @property
    def line(self) -> str:
        return f"{self.says} {self.do}".rstrip()


def ok(subject: str, says: str, do: str = "") -> Check:
    """A passed check; `do` is optional advice."""
    return Check(subject=subject, sign="ok", says=says, do=do)


def warning(subject: str, says: str, do: str) -> Check:
    """Something works, but perhaps not as intended."""
    return Check(subject=subject, sign="warning", says=says, do=do)


def problem(subject: str, says: str, do: str) -> Check:
    """Something does not work, or is not safe."""
    return Check(subject=subject, sign="problem", says=says, do=do)


_SIGNS: dict[CheckLevel, tuple[str, str]] = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def print_checks(checks: Sequence[Check]) -> None:
    """Print all checks and a summary."""
    width = max(len(check.subject) for check in checks)
    for check in checks:
        mark, colour = _SIGNS[check.sign]
        word = "" if check.sign == "ok" else f"{check.sign}: "
        sign = click.style(f"{mark} {check.subject:<{width}}", fg=colour)
        click.echo(f"{sign}  {word}{printable(check.line, 600)}")
    click.echo(f"\n{summarize_checks(checks)}")


def summarize_checks(checks: Sequence[Check]) -> str:
    """Return the numbers of problems and warnings as a sentence."""
    problems, warnings = (sum(check.sign == sign for check in checks) for sign in ("problem", "warning"))
    if not problems and not warnings:
        return "No problems found."
    warning_part = f", {_format_plural(warnings, 'warning')}" if warnings else ""
    return f"{_format_plural(problems, 'problem') if problems else 'No problems'}{warning_part}."


def _format_plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
