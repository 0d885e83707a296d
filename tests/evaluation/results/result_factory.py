"""Result arrays, from outcomes row by row."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from palaver.evaluation.results.arrays import (
    DONE,
    CellArrays,
    GridShape,
    ResultArrays,
    ScoreArrays,
    load_cell_arrays,
    load_score_arrays,
)
from palaver.testsets.rows import format_row_id

CellOutcome = bool | float | tuple[bool, float] | Literal["failed", "error", "skipped", "pending"]
"""The outcome of a cell: passed, a score, both, or neither."""
REASONS = {
    "error": "needs_text: it is an object",
    "skipped": "no_expected: the row has no expected answer",
}


def pack_rows(*ids: int, content: int = 0) -> bytes:
    """Packed rows, as in a plan."""
    return b"".join(row_id.to_bytes(16) + content.to_bytes(16) for row_id in ids)


def row(number: int) -> str:
    return format_row_id(number.to_bytes(16))


def results(
    outcomes: Mapping[str, Sequence[Sequence[Sequence[CellOutcome]]]],
    *,
    id: str = "ev_1",
    variants: Sequence[str] = ("base",),
    rows: bytes | None = None,
    latency: float | None = 1.0,
    cost: float | None = None,
    failed_as: Literal["not_passed", "exclude"] = "not_passed",
) -> ResultArrays:
    """Results from outcomes by evaluator, row, variant and repeat."""
    first = next(iter(outcomes.values()))
    shape = GridShape(len(first), len(variants), len(first[0][0]) if first else 1)
    cells: dict[int, tuple[int, str, float | None, float | None]] = {}
    scores: list[tuple[int, str, int, str, bool | None, float | None]] = []
    reasons = defaultdict[tuple[int, int], Counter[tuple[str, str]]](Counter)
    for evaluator, (name, row_outcomes) in enumerate(outcomes.items()):
        flat = [
            outcome for row_outcome in row_outcomes for variant_outcome in row_outcome for outcome in variant_outcome
        ]
        for cell, outcome in enumerate(flat):
            if outcome == "pending":
                continue
            cells[cell] = (cell, "failed" if outcome == "failed" else "done", latency, cost)
            match outcome:
                case "failed":
                    pass
                case "error" | "skipped":
                    scores.append((evaluator, name, cell, outcome, None, None))
                    reasons[evaluator, cell // shape.repeats % shape.variants][outcome, REASONS[outcome]] += 1
                case bool():
                    scores.append((evaluator, name, cell, "scored", outcome, float(outcome)))
                case tuple():
                    scores.append((evaluator, name, cell, "scored", *outcome))
                case _:
                    scores.append((evaluator, name, cell, "scored", None, float(outcome)))
    columns: tuple[CellArrays, list[ScoreArrays]] = (
        load_cell_arrays(cells.values(), shape),
        load_score_arrays(scores, shape),
    )
    packed_rows = pack_rows(*range(1, shape.rows + 1)) if rows is None else rows
    return ResultArrays(id, shape, packed_rows, variants, *columns, failed_as, reasons)


def approximately(value: float, within: float | None = None) -> Any:
    """pytest.approx, typed as Any."""
    return pytest.approx(value, abs=within)


def single_repeat(*row_outcomes: CellOutcome) -> list[list[list[CellOutcome]]]:
    """One variant, one repeat."""
    return [[[outcome]] for outcome in row_outcomes]


def large_results(rows: int = 10_000, variants: int = 2, id: str = "ev_large") -> ResultArrays:
    """Three evaluators: one that passes, one with few scores, one with scores of all kinds."""
    random, shape = np.random.default_rng(1), GridShape(rows, variants, 1)
    scores = [
        ScoreArrays(index, name, np.full(shape, 1, np.int8), (value >= 0.5).astype(np.int8), value)
        for index, (name, value) in enumerate(
            {
                "exact": (random.random(shape) < 0.8).astype(float),
                "contains": np.round(random.random(shape) * 10) / 10,
                "levenshtein": random.random(shape),
            }.items()
        )
    ]
    cells = CellArrays(np.full(shape, DONE, np.int8), random.random(shape), np.full(shape, np.nan))
    ids = np.arange(rows, dtype=">u8")
    packed = b"".join(bytes(8) + row_id.tobytes() + bytes(16) for row_id in ids)
    return ResultArrays(id, shape, packed, [f"v{index}" for index in range(variants)], cells, scores)
