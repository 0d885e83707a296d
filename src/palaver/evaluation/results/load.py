"""Load results from the database, compare variants, and make reports.

Reads are functions of a connection. Computations with numpy take up to a third of a second, and happen without one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from sqlalchemy import Connection

from palaver.errors import InvalidValue
from palaver.evaluation.plan.plan import ROW_BYTES, Plan
from palaver.evaluation.results.arrays import (
    GridShape,
    ResultArrays,
    empty_score_arrays,
    load_cell_arrays,
    load_score_arrays,
)
from palaver.evaluation.results.compare import DEFAULT_MARGIN, ComparedVariant, compare_variants
from palaver.evaluation.results.export.report import Report
from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import ResultDetail
from palaver.storage.testsets import rows as testset_rows

_ROW_BATCH = 2_000
"""Rows whose content is in memory at a time."""


# Reads


def read_results(db: Connection, project: str, evaluation: str) -> ResultArrays:
    """The arrays of an evaluation, including evaluators without scores so far."""
    stored = evaluations.get_planned(db, project, evaluation)
    plan = msgspec.convert(stored.plan, Plan)
    shape = GridShape(len(stored.rows) // ROW_BYTES, len(plan.variants), plan.repeats)
    scored = load_score_arrays(evaluation_results.score_rows(db, project, evaluation), shape)
    with_scores = {scores.evaluator for scores in scored}
    without_scores = [
        empty_score_arrays(index, evaluator.name, shape)
        for index, evaluator in enumerate(plan.evaluators)
        if index not in with_scores
    ]
    reasons = defaultdict[tuple[int, int], Counter[tuple[str, str]]](Counter)
    for index, variant, status, reason, count in evaluation_results.unscored_reasons(
        db, project, evaluation, variants=shape.variants, repeats=shape.repeats
    ):
        reasons[index, variant][status, reason] = count
    return ResultArrays(
        id=evaluation,
        shape=shape,
        rows=stored.rows,
        variants=[variant.name for variant in plan.variants],
        cells=load_cell_arrays(evaluation_results.cell_rows(db, project, evaluation), shape),
        scores=sorted([*scored, *without_scores], key=lambda scores: scores.evaluator),
        failed_as=plan.failed_as,
        reasons=dict(reasons),
    )


def read_column(db: Connection, project: str, evaluation: str, column: str) -> list[Any]:
    """The value of a column for each row, UNSET if missing. Raises InvalidValue if no row has the column."""
    stored = evaluations.get_planned(db, project, evaluation)
    values = list(_read_values(db, project, stored.evaluation.testset, stored.rows, column))
    if all(value is UNSET for value in values):
        raise InvalidValue(f"Column {column[:80]!r} not found in the test set.", pointer="?slice")
    return values


def _read_values(db: Connection, project: str, testset: str, rows: bytes, column: str) -> Iterator[Any]:
    # Decodes only this column.
    row_type = msgspec.defstruct("_Row", [("value", Any, UNSET)], rename={"value": column})
    decode = msgspec.json.Decoder(row_type).decode
    hashes = [rows[offset + ROW_BYTES // 2 : offset + ROW_BYTES] for offset in range(0, len(rows), ROW_BYTES)]
    for offset in range(0, len(hashes), _ROW_BATCH):
        batch = hashes[offset : offset + _ROW_BATCH]
        contents = testset_rows.read_contents(db, project, testset, batch)
        for digest in batch:
            data = contents.get(digest)
            row: Any = None if data is None else decode(data)
            yield UNSET if row is None else row.value


def split_variant_reference(reference: str) -> tuple[str, str | None]:
    """Split `ev_…:variant`; the variant is optional."""
    evaluation, _, variant = reference.partition(":")
    return evaluation, variant or None


def compared_variant(results: ResultArrays, variant: str | None, pointer: str) -> ComparedVariant:
    """A variant by name; the name is optional if there is only one."""
    names = list(results.variants)
    if variant is None and len(names) == 1:
        return ComparedVariant(results, 0)
    if variant not in names:
        problem = "Missing variant" if variant is None else f"Variant {variant[:80]!r} not found"
        raise InvalidValue(f"{problem}. Available in {results.id}: {', '.join(names)}.", pointer=pointer)
    return ComparedVariant(results, names.index(variant))


def compare_with_base(
    results: ResultArrays, base: ComparedVariant | None = None, margin: float = DEFAULT_MARGIN
) -> list[Comparison]:
    """Compare every variant with a base, by default the first variant."""
    base = ComparedVariant(results, 0) if base is None and results.variants else base
    if base is None:
        return []
    variants = [ComparedVariant(results, index) for index in range(len(results.variants))]
    return [compare_variants(base, variant, margin) for variant in variants if variant.name != base.name]


def make_report(
    evaluation: Evaluation,
    plan: Plan,
    *,
    summary: EvaluationSummary,
    comparisons: Sequence[Comparison] = (),
    failed_gates: Sequence[str] = (),
    note: str | None = None,
    cells: Callable[[], Iterable[ResultDetail]],
) -> Report:
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
        created_at=_format_time(evaluation.created_at),
        ended_at=None if evaluation.ended_at is None else _format_time(evaluation.ended_at),
        failed_as=plan.failed_as,
        summary=summary,
        comparisons=comparisons,
        failed_gates=failed_gates,
        note=note,
        cells=cells,
    )


def _format_time(moment: Any) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
