"""The scores of a run as numpy columns, which is how everything that reads results has them.

A run is a grid of rows × variants × repeats, and a cell's number is its place in it, counted row by row:
`cell = (row * variants + variant) * repeats + repeat`. So every column is an array of the shape (rows, variants,
repeats), and what storage gives as plain tuples, in any order, is put in its place by the number alone:

- `score_columns` takes `(evaluator, name, cell, status, passed, score)`, and gives one `ScoreColumns` for each
  evaluator and name;
- `cell_columns` takes `(cell, status, latency, cost)`, and gives the one `CellColumns` of the run.

A cell without a tuple is one that has not come to an end. `counted` then says what of it goes into figures. Nothing
else of the server needs numpy: import this only where a result is read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from palaver.evaluation.plan.request import FailedAs

T = TypeVar("T")
CodeArray = NDArray[np.int8]
FloatArray = NDArray[np.float64]

ABSENT, SCORED, SKIPPED, ERROR = range(4)
"""What became of a score."""
PENDING, DONE, FAILED, CANCELLED = range(4)
"""What became of a cell."""
_SCORE_CODES = {"scored": SCORED, "skipped": SKIPPED, "error": ERROR}
_CELL_CODES = {"pending": PENDING, "running": PENDING, "done": DONE, "failed": FAILED, "cancelled": CANCELLED}
_PASSED_CODES = {True: 1, False: 0, None: -1}
_BATCH_ROWS = 2_000
"""Tuples that are in memory."""


class GridShape(NamedTuple):
    """How many of each a run has."""

    rows: int
    variants: int
    repeats: int

    @property
    def cells(self) -> int:
        """Of all of them."""
        return self.rows * self.variants * self.repeats


class ScoreArrays(NamedTuple):
    """What one evaluator said, under one name, of every cell."""

    evaluator: int
    """Its place in the plan; one evaluator may score under several names."""
    name: str
    status: CodeArray
    """ABSENT, SCORED, SKIPPED or ERROR."""
    passed: CodeArray
    """1, 0, or -1 where it did not say."""
    score: FloatArray
    """NaN where it did not say."""


class CellArrays(NamedTuple):
    """What became of every cell."""

    status: CodeArray
    """PENDING, DONE, FAILED or CANCELLED."""
    latency: FloatArray
    """Seconds; NaN where unknown."""
    cost: FloatArray
    """NaN where unknown."""


class ResultArrays(NamedTuple):
    """All of a run that figures are made of."""

    id: str
    shape: GridShape
    rows: bytes
    """Of each row 16 bytes of its id, then 16 of its hash."""
    variants: Sequence[str]
    """Their names."""
    cells: CellArrays
    scores: Sequence[ScoreArrays]
    failed_as: FailedAs = "not_passed"

    @property
    def size(self) -> int:
        """In bytes, about."""
        columns = [*self.cells, *(column for one in self.scores for column in (one.status, one.passed, one.score))]
        return len(self.rows) + sum(column.nbytes for column in columns)


class CountedScores(NamedTuple):
    """What of an evaluator's scores goes into figures; NaN where there is nothing to count."""

    passed: FloatArray
    """1 or 0."""
    score: FloatArray
    is_counted: NDArray[np.bool_]
    """Cells that were scored, or that failed and count as not passed."""


def load_score_arrays(
    given: Iterable[tuple[int, str, int, str, bool | None, float | None]], shape: GridShape
) -> list[ScoreArrays]:
    """The columns of each evaluator and name, in the order of evaluators, names as they first come."""
    found: dict[tuple[int, str], ScoreArrays] = {}
    numbers = defaultdict[tuple[int, str, str, bool | None], int](count().__next__)
    for some in _batches(given):
        evaluators, names, cells, statuses, passed, scores = zip(*some, strict=True)
        # One number stands for all that is not a number: there are few kinds, and one look tells them apart.
        kinds = np.fromiter(map(numbers.__getitem__, zip(evaluators, names, statuses, passed, strict=True)), np.int64)
        places, number = np.array(cells, np.int64), np.array(scores, np.float64)  # None is NaN.
        present = set(kinds.tolist())
        for (evaluator, name, status, said), kind in numbers.items():
            if kind not in present:
                continue
            own = found.get((evaluator, name)) or found.setdefault(
                (evaluator, name), empty_score_arrays(evaluator, name, shape)
            )
            mine = kinds == kind
            here = places[mine]
            own.status.reshape(-1)[here] = _SCORE_CODES[status]
            own.passed.reshape(-1)[here] = _PASSED_CODES[said]
            own.score.reshape(-1)[here] = number[mine]
    return sorted(found.values(), key=lambda columns: columns.evaluator)


def load_cell_arrays(given: Iterable[tuple[int, str, float | None, float | None]], shape: GridShape) -> CellArrays:
    """The columns of the cells themselves."""
    columns = CellArrays(np.full(shape, PENDING, np.int8), np.full(shape, np.nan), np.full(shape, np.nan))
    for some in _batches(given):
        cells, statuses, latencies, costs = zip(*some, strict=True)
        places = np.array(cells, np.int64)
        columns.status.reshape(-1)[places] = np.fromiter(map(_CELL_CODES.__getitem__, statuses), np.int8)
        columns.latency.reshape(-1)[places] = np.array(latencies, np.float64)
        columns.cost.reshape(-1)[places] = np.array(costs, np.float64)
    return columns


def count_scores(scores: ScoreArrays, cells: CellArrays, failed_as: FailedAs = "not_passed") -> CountedScores:
    """What counts: scores as they are, and each failed cell as not passed with a score of 0.

    An evaluator that never says whether something passed does not do so of a failed cell either; the same of scores.
    What was skipped, and an evaluator's own error, count nowhere.
    """
    is_scored = scores.status == SCORED
    passed = np.where(is_scored & (scores.passed >= 0), scores.passed, np.nan)
    score = np.where(is_scored, scores.score, np.nan)
    if failed_as == "exclude":
        return CountedScores(passed, score, is_scored)
    is_failed = cells.status == FAILED
    says_nothing = not is_scored.any()
    if says_nothing or not np.isnan(passed).all():
        passed[is_failed] = 0.0
    if says_nothing or not np.isnan(score).all():
        score[is_failed] = 0.0
    return CountedScores(passed, score, is_scored | is_failed)


def row_means(values: FloatArray) -> FloatArray:
    """Each row's mean over its repeats, of those that count; NaN where none does. The row is the unit of figures."""
    if values.shape[-1] == 1:
        return values[..., 0]
    counts = np.count_nonzero(~np.isnan(values), axis=-1)
    sums: FloatArray = np.nansum(values, axis=-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def empty_score_arrays(evaluator: int, name: str, shape: GridShape) -> ScoreArrays:
    """The columns of an evaluator that has not said anything yet."""
    status, passed = np.full(shape, ABSENT, np.int8), np.full(shape, -1, np.int8)
    return ScoreArrays(evaluator, name, status, passed, np.full(shape, np.nan))


def _batches(given: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(given)
    while some := list(islice(rest, _BATCH_ROWS)):
        yield some
