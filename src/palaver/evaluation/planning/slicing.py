"""Slicing: a plan becomes an evaluation that can be kept, with the slices that processes will take (cells.py)."""

from palaver.evaluation.planning.cells import slices_of
from palaver.evaluation.planning.plans import ROW_BYTES, Planned
from palaver.storage.evaluations.repository import NewEvaluation


def new_of(id: str, planned: Planned, *, key: str | None = None) -> NewEvaluation:
    """The evaluation of a plan, under an id."""
    plan = planned.plan
    return NewEvaluation(
        id=id,
        name=plan.name,
        testset=plan.testset.id,
        revision=plan.testset.revision,
        total=planned.total,
        plan=plan,
        rows=planned.rows,
        concurrency=plan.limits.concurrency,
        slices=slices_of(plan, len(planned.rows) // ROW_BYTES),
        key=key,
    )
