"""Cells that are told by figures, not by themselves: rows whose repeats differ, and rows that passed elsewhere."""

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.columns import (
    Floats,
    Results,
    ScoreColumns,
    Shape,
    by_row,
    cell_columns,
    counted,
    score_columns,
)
from palaver.evaluation.comparing import Side, is_passed, paired
from palaver.evaluation.plans import ROW_BYTES, Plan
from palaver.evaluation.summary import flaky as differing
from palaver.storage import evaluation_results, evaluations

Rows = NDArray[np.bool_]


def found_cells(
    db: Connection, project: str, evaluation: str, *, evaluator: str | None, flaky: bool, base: str | None
) -> list[int]:
    """The cells, in order, of rows that are flaky, or that passed in `base` and do not here.

    `base` is `ev_…:variant`; or `true`, which is the first variant of this evaluation.
    """
    results = results_of(db, project, evaluation)
    scores = _named(results.scores, evaluator)
    wanted = np.ones((results.shape.rows, results.shape.variants), np.bool_)
    if flaky:
        wanted &= _by_variant(results, [_flaky(results, one) for one in scores])
    if base is not None:
        before = Side(results, 0) if base == "true" else side_of(db, project, base, "?regression")
        wanted &= _by_variant(results, [_regressed(results, one, before) for one in scores])
    every = np.repeat(wanted.reshape(-1), results.shape.repeats)
    return [int(cell) for cell in np.flatnonzero(every)]


def results_of(db: Connection, project: str, evaluation: str) -> Results:
    """What figures of an evaluation are made of."""
    kept = evaluations.planned(db, project, evaluation)
    plan = msgspec.convert(kept.plan, Plan)
    shape = Shape(len(kept.rows) // ROW_BYTES, len(plan.variants), plan.repeats)
    return Results(
        id=evaluation,
        shape=shape,
        rows=kept.rows,
        variants=[variant.name for variant in plan.variants],
        cells=cell_columns(evaluation_results.cell_rows(db, project, evaluation), shape),
        scores=score_columns(evaluation_results.score_rows(db, project, evaluation), shape),
        failed_as=plan.failed_as,
    )


def side_of(db: Connection, project: str, named: str, pointer: str) -> Side:
    """What `ev_…:variant` names; of an evaluation with one variant, `ev_…` will do."""
    evaluation, _, variant = named.partition(":")
    results = results_of(db, project, evaluation)
    names = list(results.variants)
    if not variant and len(names) == 1:
        return Side(results, 0)
    if variant not in names:
        told = f"{evaluation[:80]} has no variant {variant[:80]!r}. It has: {', '.join(names)}."
        raise InvalidValue(told, pointer=pointer)
    return Side(results, names.index(variant))


def _named(scores: Iterable[ScoreColumns], evaluator: str | None) -> list[ScoreColumns]:
    return [one for one in scores if evaluator is None or one.name == evaluator]


def _by_variant(results: Results, found: list[Rows]) -> Rows:
    """Rows that any of the evaluators finds."""
    none = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    return np.logical_or.reduce([none, *found])


def _flaky(results: Results, scores: ScoreColumns) -> Rows:
    counts = counted(scores, results.cells, results.failed_as)
    found = [differing(counts, variant) for variant in range(results.shape.variants)]
    none = np.zeros(results.shape.rows, np.bool_)
    return np.stack([none if one is None else one for one in found], axis=1)


def _regressed(results: Results, scores: ScoreColumns, before: Side) -> Rows:
    found = np.zeros((results.shape.rows, results.shape.variants), np.bool_)
    same = [one for one in before.results.scores if one.name == scores.name]
    if not same:
        return found
    old = _passes(before.results, same[0])[:, before.variant]
    pairs = paired(before.results.rows, results.rows)
    new = _passes(results, scores)[pairs.candidate]
    was, is_now = is_passed(old[pairs.base])[:, np.newaxis], is_passed(new)
    found[pairs.candidate] = was & ~is_now & ~np.isnan(new)
    return found


def _passes(results: Results, scores: ScoreColumns) -> Floats:
    return by_row(counted(scores, results.cells, results.failed_as).passed)
