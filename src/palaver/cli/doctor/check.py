"""What a check of the doctor's says."""

from collections.abc import Sequence
from typing import Literal

import click
import msgspec

from palaver.outbound import printable

CheckLevel = Literal["ok", "warning", "problem"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    subject: str
    """What it is about: settings, database, extras …"""
    sign: CheckLevel
    says: str
    do: str = ""
    """What to do about it; empty where nothing needs doing."""

    @property
    def line(self) -> str:
        """All of it as a sentence or two."""
        return f"{self.says} {self.do}".rstrip()


def ok(subject: str, says: str, do: str = "") -> Check:
    """All is well; `do` is what one may do, not what one must."""
    return Check(subject=subject, sign="ok", says=says, do=do)


def warning(subject: str, says: str, do: str) -> Check:
    """It works, but perhaps not as somebody means it."""
    return Check(subject=subject, sign="warning", says=says, do=do)


def problem(subject: str, says: str, do: str) -> Check:
    """It does not work, or is not safe."""
    return Check(subject=subject, sign="problem", says=says, do=do)


_SIGNS: dict[CheckLevel, tuple[str, str]] = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def print_checks(checks: Sequence[Check]) -> None:
    """Print them in their order, and how many are not well."""
    width = max(len(check.subject) for check in checks)
    for check in checks:
        mark, colour = _SIGNS[check.sign]
        word = "" if check.sign == "ok" else f"{check.sign}: "
        sign = click.style(f"{mark} {check.subject:<{width}}", fg=colour)
        click.echo(f"{sign}  {word}{printable(check.line, 600)}")
    click.echo(f"\n{summarize_checks(checks)}")


def summarize_checks(checks: Sequence[Check]) -> str:
    """How it stands, in a sentence."""
    problems, warnings = (sum(check.sign == sign for check in checks) for sign in ("problem", "warning"))
    if not problems and not warnings:
        return "No problems found."
    beside = f", {_format_plural(warnings, 'warning')}" if warnings else ""
    return f"{_format_plural(problems, 'problem') if problems else 'No problems'}{beside}."


def _format_plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
