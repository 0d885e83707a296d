"""The rows of a run in its HTML file: what was asked, what was answered, and what each evaluator says."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

from palaver.core import jsons
from palaver.evaluation.reading.exports.report import (
    Outcome,
    Report,
    error_of,
    evaluators_of,
    line,
    number,
    outcome,
    passing,
)
from palaver.storage.evaluations.results import StoredResult

LONG = 2_000
"""Characters of one text."""


class Rows:
    """Shows them: each folded to a line that can be opened."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._names = evaluators_of(report)
        self._says = passing(report)

    def __call__(self, cells: Sequence[StoredResult]) -> Iterator[str]:
        """One row, with all its cells."""
        by_variant = [(variant, list(some)) for variant, some in groupby(cells, key=lambda cell: cell.variant)]
        found = [self._outcomes(some) for _, some in by_variant]
        first = cells[0]
        marks = "".join(f'<span class="marks">{"".join(_mark(one) for one in those)}</span>' for those in found)
        asked = f'<span dir="auto">{escape(line(first.preview_in)[:200])}</span>'
        yield f'<details class="row" id="{escape(first.row)}"><summary>{marks}{asked}</summary><div>'
        yield f'<p class="note">{escape(first.row)}</p>{_shown(first.preview_in)}'
        for (variant, some), outcomes in zip(by_variant, found, strict=True):
            yield f'<h3 dir="auto">{escape(self._report.variants[variant])}</h3>'
            for cell in some:
                yield _answer(cell, is_repeated=self._report.repeats > 1)
            yield "<table>"
            for name, one in zip(self._names, outcomes, strict=True):
                reason = f'<td dir="auto">{_text(one.reason)}'
                yield f"<tr><td>{_mark(one)} {escape(name)}<td class=n>{number(one.score)}{reason}</tr>"
            yield "</table>"
        yield "</div></details>"

    def _outcomes(self, cells: Sequence[StoredResult]) -> list[Outcome]:
        failed_as = self._report.failed_as
        return [outcome(cells, name, passes=name in self._says, failed_as=failed_as) for name in self._names]


def _mark(one: Outcome) -> str:
    signs = {"passed": "✓", "failed": "✗", "scored": "•", "error": "!", "skipped": "○"}
    flaky = " flaky" if one.is_flaky else ""
    told = (
        f"{one.kind}{flaky}"
        if one.passes is None or one.passes[1] == 1
        else f"{one.passes[0]} of {one.passes[1]} passed"
    )
    return f'<span class="mark {one.kind}{flaky}" title="{told}">{signs[one.kind]}</span>'


def _answer(cell: StoredResult, *, is_repeated: bool) -> str:
    took = "" if cell.latency is None else f" · {cell.latency:.2f} s"
    note = f'<p class="note">repeat {cell.repeat + 1}{took}</p>' if is_repeated else ""
    if cell.status == "failed":
        return f'{note}<p class="bad" dir="auto">{_text(error_of(cell))}</p>'
    return note + _shown(cell.preview_out)


def _shown(preview: Any) -> str:
    """A preview, as much of it as there is."""
    match preview:
        case {"renderer": "chat", "messages": [*messages]}:
            told = "".join(_message(message) for message in messages)
            more = preview.get("more") or 0
            return told + (f'<p class="note">and {more} more messages</p>' if more else "")
        case {"body": str(body)}:
            return f'<pre dir="auto">{_text(body)}</pre>'
        case {"text": str(text)}:
            return f'<pre dir="auto">{_text(text)}</pre>'
        case None:
            return ""
        case _:
            return f"<pre>{_text(jsons.encode(preview).decode())}</pre>"


def _message(message: Any) -> str:
    match message:
        case {"role": str(role), "text": str(text)}:
            calls = "".join(f"<pre>{_text(str(call))}</pre>" for call in message.get("calls") or ())
            return f'<div class="message"><b>{escape(role)}</b><pre dir="auto">{_text(text)}</pre>{calls}</div>'
        case _:
            return ""


def _text(text: str) -> str:
    return escape(text) if len(text) <= LONG else f"{escape(text[:LONG])}…"
