"""A run as JUnit XML, which every build server reads: a suite for each variant and evaluator, a test for each row.

A row passes by the majority of its repeats; one whose repeats differ is marked as flaky. What an evaluator could not
say is an error, what it had nothing to say of is skipped, and a row that has only a score passes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from tempfile import SpooledTemporaryFile

from palaver.evaluation.reading.exports.report import Outcome, Report, evaluators_of, of_rows, outcome, passing
from palaver.storage.evaluations.results import StoredResult

MEDIA_TYPE = "application/xml"
_IN_MEMORY = 1024 * 1024
_PIECE = 64 * 1024
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)


class _Suite:
    """The tests of one variant and evaluator, until it is known how many there are: many of them wait in a file."""

    def __init__(self, variant: str, evaluator: str) -> None:
        self.variant = variant
        self.evaluator = evaluator
        self._kinds = Counter[str]()
        self._seconds = 0.0
        self._tests = SpooledTemporaryFile[bytes](_IN_MEMORY)

    def add(self, row: str, found: Outcome, seconds: float) -> None:
        """One more test."""
        self._kinds[found.kind] += 1
        self._seconds += seconds
        self._tests.write(_test(f"{self.variant}.{self.evaluator}", row, found, seconds).encode())

    def told(self) -> Iterator[bytes]:
        """The whole suite."""
        name = _attribute(f"{self.variant} · {self.evaluator}")
        kinds = self._kinds
        counts = f'tests="{kinds.total()}" failures="{kinds["failed"]}" errors="{kinds["error"]}"'
        skipped = f'skipped="{kinds["skipped"]}" time="{self._seconds:.3f}"'
        yield f'  <testsuite name="{name}" {counts} {skipped}>\n'.encode()
        self._tests.seek(0)
        while piece := self._tests.read(_PIECE):
            yield piece
        yield b"  </testsuite>\n"

    def close(self) -> None:
        """Let go of its file."""
        self._tests.close()


def write(report: Report) -> Iterator[bytes]:
    """The file."""
    names = evaluators_of(report)
    with ExitStack() as stack:
        suites = [
            [stack.enter_context(closing(_Suite(variant, name))) for name in names] for variant in report.variants
        ]
        _fill(suites, report)
        yield b'<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<testsuites name="{_attribute(report.name or report.id)}">\n'.encode()
        for of_variant in suites:
            for suite in of_variant:
                yield from suite.told()
        yield b"</testsuites>\n"


def _fill(suites: Sequence[Sequence[_Suite]], report: Report) -> None:
    """Put all rows into their suites, in one go."""
    says = passing(report)
    for row in of_rows(report):
        for variant, cells in groupby(row, key=lambda cell: cell.variant):
            repeats = list(cells)
            for suite in suites[variant]:
                passes = suite.evaluator in says
                found = outcome(repeats, suite.evaluator, passes=passes, failed_as=report.failed_as)
                suite.add(repeats[0].row, found, _seconds(repeats))


def _test(class_name: str, row: str, found: Outcome, seconds: float) -> str:
    inside = [*_properties(found)]
    reason = _attribute(found.reason)
    match found.kind:
        case "failed":
            inside.append(f'<failure type="not passed" message="{reason}"/>')
        case "error":
            inside.append(f'<error type="not scored" message="{reason}"/>')
        case "skipped":
            inside.append(f'<skipped message="{reason}"/>')
        case "passed" | "scored":
            pass
    head = f'    <testcase classname="{_attribute(class_name)}" name="{_attribute(row)}" time="{seconds:.3f}"'
    return f"{head}>{''.join(inside)}</testcase>\n" if inside else f"{head}/>\n"


def _properties(found: Outcome) -> Iterator[str]:
    told = {} if found.score is None else {"score": f"{found.score:.6g}"}
    if found.is_flaky:
        told["flaky"] = "true"
    if found.passes is not None and found.passes[1] > 1:
        told["passed"] = f"{found.passes[0]} of {found.passes[1]}"
    if told:
        listed = "".join(f'<property name="{name}" value="{value}"/>' for name, value in told.items())
        yield f"<properties>{listed}</properties>"


def _seconds(cells: Sequence[StoredResult]) -> float:
    return sum(cell.latency or 0.0 for cell in cells)


def _attribute(text: str) -> str:
    """A text in an attribute; what no XML may hold is left out."""
    return _FORBIDDEN.sub("", text).translate(_ESCAPES)
