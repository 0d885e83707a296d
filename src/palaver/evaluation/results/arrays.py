"""Scores and cells of an evaluation as numpy arrays of the shape (rows, variants, repeats).

The number of a cell is its index in that grid: `cell = (row * variants + variant) * repeats + repeat`. Storage yields
plain tuples in any order:

- `load_score_arrays` takes `(evaluator, name, cell, status, passed, score)`;
- `load_cell_arrays` takes `(cell, status, latency, cost)`.

A cell without a tuple has not ended. The rest of the server does not need numpy: import this module only where results
are read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.plan.request import FailedAs

T = TypeVar("T")
CodeArray = NDArray[np.int8]
FloatArray = NDArray[np.float64]

ABSENT, SCORED, SKIPPED, ERROR = range(4)
"""Status codes of a score."""
PENDING, DONE, FAILED, CANCELLED = range(4)
"""Status codes of a cell."""
_SCORE_CODES = {"scored": SCORED, "skipped": SKIPPED, "error": ERROR}
_CELL_CODES = {"pending": PENDING, "running": PENDING, "done": DONE, "failed": FAILED, "cancelled": CANCELLED}
_PASSED_CODES = {True: 1, False: 0, None: -1}
_BATCH_ROWS = 2_000
"""Tuples converted at a time."""


class GridShape(NamedTuple):
    rows: int
    variants: int
    repeats: int

    @property
    def cells(self) -> int:
        return self.rows * self.variants * self.repeats


class ScoreArrays(NamedTuple):
    """The scores of one evaluator, under one name, for every cell."""

    evaluator: int
    """Index in the plan; one evaluator may score under several names."""
    name: str
    status: CodeArray
    """ABSENT, SCORED, SKIPPED or ERROR."""
    passed: CodeArray
    """1, 0, or -1 if unknown."""
    score: FloatArray
    """NaN if unknown."""


class CellArrays(NamedTuple):
    status: CodeArray
    """PENDING, DONE, FAILED or CANCELLED."""
    latency: FloatArray
    """Seconds; NaN if unknown."""
    cost: FloatArray
    """NaN if unknown."""


class ResultArrays(NamedTuple):
    id: str
    shape: GridShape
    rows: bytes
    """Packed id and content hash of each row."""
    variants: Sequence[str]
    cells: CellArrays
    scores: Sequence[ScoreArrays]
    failed_as: FailedAs = "not_passed"
    reasons: Mapping[tuple[int, int], Counter[tuple[str, str]]] = {}
    """Why there is no score: counts by status and reason, for each evaluator and variant (their indexes)."""

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        score_columns = [column for scores in self.scores for column in (scores.status, scores.passed, scores.score)]
        reasons = sum(len(reason) for counts in self.reasons.values() for _, reason in counts)
        return len(self.rows) + reasons + sum(column.nbytes for column in (*self.cells, *score_columns))


class CountedScores(NamedTuple):
    """The scores that count in figures; NaN where nothing counts."""

    passed: FloatArray
    score: FloatArray
    is_counted: NDArray[np.bool_]
    """Cells that were scored, or that failed and count as not passed."""


def load_score_arrays(
    rows: Iterable[tuple[int, str, int, str, bool | None, float | None]], shape: GridShape
) -> list[ScoreArrays]:
    """The arrays of each evaluator and name, in the order of evaluators, names by first occurrence."""
    arrays: dict[tuple[int, str], ScoreArrays] = {}
    kind_numbers = defaultdict[tuple[int, str, str, bool | None], int](count().__next__)
    for batch in _batches(rows):
        evaluators, names, cells, statuses, passed, scores = zip(*batch, strict=True)
        # All non-numeric fields are mapped to one number: there are few combinations.
        keys = zip(evaluators, names, statuses, passed, strict=True)
        kinds = np.fromiter(map(kind_numbers.__getitem__, keys), np.int64)
        indexes, values = np.array(cells, np.int64), np.array(scores, np.float64)  # None becomes NaN.
        present = set(kinds.tolist())
        for (evaluator, name, status, passed_value), kind in kind_numbers.items():
            if kind not in present:
                continue
            columns = arrays.get((evaluator, name)) or arrays.setdefault(
                (evaluator, name), empty_score_arrays(evaluator, name, shape)
            )
            is_kind = kinds == kind
            cells_of_kind = indexes[is_kind]
            columns.status.reshape(-1)[cells_of_kind] = _SCORE_CODES[status]
            columns.passed.reshape(-1)[cells_of_kind] = _PASSED_CODES[passed_value]
            columns.score.reshape(-1)[cells_of_kind] = values[is_kind]
    return sorted(arrays.values(), key=lambda scores: scores.evaluator)


def load_cell_arrays(rows: Iterable[tuple[int, str, float | None, float | None]], shape: GridShape) -> CellArrays:
    columns = CellArrays(np.full(shape, PENDING, np.int8), np.full(shape, np.nan), np.full(shape, np.nan))
    for batch in _batches(rows):
        cells, statuses, latencies, costs = zip(*batch, strict=True)
        indexes = np.array(cells, np.int64)
        columns.status.reshape(-1)[indexes] = np.fromiter(map(_CELL_CODES.__getitem__, statuses), np.int8)
        columns.latency.reshape(-1)[indexes] = np.array(latencies, np.float64)
        columns.cost.reshape(-1)[indexes] = np.array(costs, np.float64)
    return columns


def count_scores(scores: ScoreArrays, cells: CellArrays, failed_as: FailedAs = "not_passed") -> CountedScores:
    """The scores that count: scored cells, and failed cells as not passed with score 0.

    If an evaluator never says whether a case passed, neither do failed cells; the same for scores. Skipped cells and
    evaluator errors don't count.
    """
    is_scored = scores.status == SCORED
    passed = np.where(is_scored & (scores.passed >= 0), scores.passed, np.nan)
    score = np.where(is_scored, scores.score, np.nan)
    if failed_as == "exclude":
        return CountedScores(passed, score, is_scored)
    is_failed = cells.status == FAILED
    has_no_scores = not is_scored.any()
    if has_no_scores or not np.isnan(passed).all():
        passed[is_failed] = 0.0
    if has_no_scores or not np.isnan(score).all():
        score[is_failed] = 0.0
    return CountedScores(passed, score, is_scored | is_failed)


def row_means(values: FloatArray) -> FloatArray:
    """The mean of each row over its repeats; NaN if none counts. The row is the unit of all figures."""
    if values.shape[-1] == 1:
        return values[..., 0]
    counts = np.count_nonzero(~np.isnan(values), axis=-1)
    sums: FloatArray = np.nansum(values, axis=-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def empty_score_arrays(evaluator: int, name: str, shape: GridShape) -> ScoreArrays:
    status, passed = np.full(shape, ABSENT, np.int8), np.full(shape, -1, np.int8)
    return ScoreArrays(evaluator, name, status, passed, np.full(shape, np.nan))


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH_ROWS)):
        yield batch
