"""The doctor's list, for people: a sign and a line for each check, and what to do beneath where there is anything."""

from collections.abc import Sequence

import click

from palaver.cli.doctoring.checks import Check, Sign
from palaver.outbound import printable

_SIGNS: dict[Sign, tuple[str, str]] = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "problem": ("✗", "red")}


def show(checks: Sequence[Check]) -> None:
    """Print them in their order, and how many are not well."""
    width = max(len(check.subject) for check in checks)
    for check in checks:
        mark, colour = _SIGNS[check.sign]
        word = "" if check.sign == "ok" else f"{check.sign}: "
        sign = click.style(f"{mark} {check.subject:<{width}}", fg=colour)
        click.echo(f"{sign}  {word}{printable(check.line, 600)}")
    click.echo(f"\n{told(checks)}")


def told(checks: Sequence[Check]) -> str:
    """How it stands, in a sentence."""
    problems, warnings = (sum(check.sign == sign for check in checks) for sign in ("problem", "warning"))
    if not problems and not warnings:
        return "No problems found."
    beside = f", {_many(warnings, 'warning')}" if warnings else ""
    return f"{_many(problems, 'problem') if problems else 'No problems'}{beside}."


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
