"""Export as JUnit XML: a suite for each variant and evaluator, a test for each row.

A row passes by the majority of its repeats and is marked flaky if they differ. Evaluator errors are errors, skips are
skipped, and a row with only a score passes.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from tempfile import SpooledTemporaryFile

from palaver.evaluation.results.export.report import (
    Report,
    RowOutcome,
    evaluator_names,
    evaluators_with_passes,
    iterate_rows,
    row_outcome,
)
from palaver.storage.evaluations.results import StoredResult

MEDIA_TYPE = "application/xml"
_MAX_MEMORY_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_INVALID_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)


class _TestSuite:
    """The tests of one variant and evaluator, spooled to a file until their number is known."""

    def __init__(self, variant: str, evaluator: str) -> None:
        self.variant = variant
        self.evaluator = evaluator
        self._kinds = Counter[str]()
        self._seconds = 0.0
        self._tests = SpooledTemporaryFile[bytes](_MAX_MEMORY_BYTES)

    def add(self, row: str, result: RowOutcome, seconds: float) -> None:
        self._kinds[result.kind] += 1
        self._seconds += seconds
        self._tests.write(_test_case(f"{self.variant}.{self.evaluator}", row, result, seconds).encode())

    def encode(self) -> Iterator[bytes]:
        name = _escape_attribute(f"{self.variant} · {self.evaluator}")
        kinds = self._kinds
        counts = f'tests="{kinds.total()}" failures="{kinds["failed"]}" errors="{kinds["error"]}"'
        skipped = f'skipped="{kinds["skipped"]}" time="{self._seconds:.3f}"'
        yield f'  <testsuite name="{name}" {counts} {skipped}>\n'.encode()
        self._tests.seek(0)
        while piece := self._tests.read(_CHUNK_BYTES):
            yield piece
        yield b"  </testsuite>\n"

    def close(self) -> None:
        self._tests.close()


def write(report: Report) -> Iterator[bytes]:
    names = evaluator_names(report)
    with ExitStack() as stack:
        suites = [
            [stack.enter_context(closing(_TestSuite(variant, name))) for name in names] for variant in report.variants
        ]
        _fill_suites(suites, report)
        yield b'<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f'<testsuites name="{_escape_attribute(report.name or report.id)}">\n'.encode()
        for of_variant in suites:
            for suite in of_variant:
                yield from suite.encode()
        yield b"</testsuites>\n"


def _fill_suites(suites: Sequence[Sequence[_TestSuite]], report: Report) -> None:
    """Distribute all rows in one pass."""
    says = evaluators_with_passes(report)
    for row in iterate_rows(report):
        for variant, cells in groupby(row, key=lambda cell: cell.variant):
            repeats = list(cells)
            for suite in suites[variant]:
                passes = suite.evaluator in says
                result = row_outcome(repeats, suite.evaluator, passes=passes, failed_as=report.failed_as)
                suite.add(repeats[0].row, result, _total_latency(repeats))


def _test_case(class_name: str, row: str, result: RowOutcome, seconds: float) -> str:
    inside = [*_properties(result)]
    reason = _escape_attribute(result.reason)
    match result.kind:
        case "failed":
            inside.append(f'<failure type="not passed" message="{reason}"/>')
        case "error":
            inside.append(f'<error type="not scored" message="{reason}"/>')
        case "skipped":
            inside.append(f'<skipped message="{reason}"/>')
        case "passed" | "scored":
            pass
    names = f'classname="{_escape_attribute(class_name)}" name="{_escape_attribute(row)}"'
    head = f'    <testcase {names} time="{seconds:.3f}"'
    return f"{head}>{''.join(inside)}</testcase>\n" if inside else f"{head}/>\n"


def _properties(result: RowOutcome) -> Iterator[str]:
    values = {} if result.score is None else {"score": f"{result.score:.6g}"}
    if result.is_flaky:
        values["flaky"] = "true"
    if result.passes is not None and result.passes[1] > 1:
        values["passed"] = f"{result.passes[0]} of {result.passes[1]}"
    if values:
        listed = "".join(f'<property name="{name}" value="{value}"/>' for name, value in values.items())
        yield f"<properties>{listed}</properties>"


def _total_latency(cells: Sequence[StoredResult]) -> float:
    return sum(cell.latency or 0.0 for cell in cells)


def _escape_attribute(text: str) -> str:
    """Escape an attribute, without characters that XML forbids."""
    return _INVALID_XML.sub("", text).translate(_ESCAPES)
