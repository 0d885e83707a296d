"""From what is stored to figures and files: the results of an evaluation out of the database, and a report of it.

What asks the database is a function of a connection; what computes (numpy, a third of a second for a large run) is not,
so that nobody waits for a connection meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.planning.plans import ROW_BYTES, Plan
from palaver.evaluation.reading.columns import Results, Shape, cell_columns, score_columns, unsaid
from palaver.evaluation.reading.comparing import MARGIN, Side, compared
from palaver.evaluation.reading.exports.report import Report
from palaver.evaluation.reading.figures import Comparison, EvaluationSummary
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import ResultDetail
from palaver.storage.testsets import rows as testset_rows

_AT_ONCE = 2_000
"""Rows whose content is in memory."""


# Out of the database


def read_results(db: Connection, project: str, evaluation: str) -> Results:
    """What figures are made of; an evaluator that has not said anything yet is among them, too."""
    kept = evaluations.get_planned(db, project, evaluation)
    plan = msgspec.convert(kept.plan, Plan)
    shape = Shape(len(kept.rows) // ROW_BYTES, len(plan.variants), plan.repeats)
    said = score_columns(evaluation_results.score_rows(db, project, evaluation), shape)
    spoke = {scores.evaluator for scores in said}
    silent = [unsaid(place, one.name, shape) for place, one in enumerate(plan.evaluators) if place not in spoke]
    return Results(
        id=evaluation,
        shape=shape,
        rows=kept.rows,
        variants=[variant.name for variant in plan.variants],
        cells=cell_columns(evaluation_results.cell_rows(db, project, evaluation), shape),
        scores=sorted([*said, *silent], key=lambda scores: scores.evaluator),
        failed_as=plan.failed_as,
    )


def read_column(db: Connection, project: str, evaluation: str, column: str) -> list[Any]:
    """What each row of an evaluation has in a column, UNSET where it has none; InvalidValue if no row has it."""
    kept = evaluations.get_planned(db, project, evaluation)
    values = list(_values(db, project, kept.evaluation.testset, kept.rows, column))
    if all(value is UNSET for value in values):
        raise InvalidValue(f"No row of the test set has a column {column[:80]!r}.", pointer="?slice")
    return values


def _values(db: Connection, project: str, testset: str, rows: bytes, column: str) -> Iterator[Any]:
    # One field of many: what is not asked for is passed over, not decoded.
    shape = msgspec.defstruct("_Row", [("value", Any, UNSET)], rename={"value": column})
    read = msgspec.json.Decoder(shape).decode
    hashes = [rows[first + ROW_BYTES // 2 : first + ROW_BYTES] for first in range(0, len(rows), ROW_BYTES)]
    for first in range(0, len(hashes), _AT_ONCE):
        some = hashes[first : first + _AT_ONCE]
        contents = testset_rows.read_contents(db, project, testset, some)
        for digest in some:
            data = contents.get(digest)
            found: Any = None if data is None else read(data)
            yield UNSET if found is None else found.value


# Figures


def split_side(named: str) -> tuple[str, str | None]:
    """`ev_…:variant` in two; the variant may be left out."""
    evaluation, _, variant = named.partition(":")
    return evaluation, variant or None


def side(results: Results, variant: str | None, pointer: str) -> Side:
    """One variant of a run by its name; of a run that has one, without it."""
    names = list(results.variants)
    if variant is None and len(names) == 1:
        return Side(results, 0)
    if variant not in names:
        wrong = "Say which variant: " if variant is None else f"There is no variant {variant[:80]!r}: "
        raise InvalidValue(f"{wrong}{results.id} has {', '.join(names)}.", pointer=pointer)
    return Side(results, names.index(variant))


def comparisons(results: Results, base: Side | None = None, margin: float = MARGIN) -> list[Comparison]:
    """Every variant beside a base; without one, beside the first of them."""
    first = Side(results, 0) if base is None and results.variants else base
    if first is None:
        return []
    others = [Side(results, place) for place in range(len(results.variants))]
    return [compared(first, other, margin) for other in others if other.name != first.name]


# Reports


def report(
    evaluation: Evaluation,
    plan: Plan,
    *,
    summary: EvaluationSummary,
    comparisons: Sequence[Comparison] = (),
    failed_gates: Sequence[str] = (),
    cells: Callable[[], Iterable[ResultDetail]],
) -> Report:
    """What every export is made of."""
    reason = evaluation.reason or {}
    return Report(
        id=evaluation.id,
        name=evaluation.name,
        state=evaluation.state,
        reason=reason.get("message"),
        testset=plan.testset.name,
        revision=evaluation.revision,
        variants=[variant.name for variant in plan.variants],
        rows=evaluation.total // max(1, len(plan.variants) * plan.repeats),
        repeats=plan.repeats,
        created_at=_time(evaluation.created_at),
        ended_at=None if evaluation.ended_at is None else _time(evaluation.ended_at),
        failed_as=plan.failed_as,
        summary=summary,
        comparisons=comparisons,
        failed_gates=failed_gates,
        cells=cells,
    )


def _time(moment: Any) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
