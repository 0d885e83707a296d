"""The cells of an evaluation, cut into slices: each slice is of one workflow, so that a process can run all of it.

A slice names its cells by their place among those of its workflow: row by row, in a row variant by variant, of each
repeat by repeat. So a table of slices is small, whatever the evaluation holds.
"""

from collections.abc import Sequence

from palaver.evaluation.planning.plans import Place, Plan, cell_at
from palaver.storage.evaluations.repository import NewSlice
from palaver.storage.evaluations.slices import NO_CALL_WORKFLOW, SLICES_PER_WORKFLOW, Slice

MOST = 50
"""Cells of a slice."""


def slices_of(plan: Plan, rows: int) -> list[NewSlice]:
    """All slices of a plan. Those of several workflows take turns, so that all begin at once."""
    found: list[tuple[int, NewSlice]] = []
    for workflow in dict.fromkeys(variant.workflow or NO_CALL_WORKFLOW for variant in plan.variants):
        total = rows * len(_variants(plan, workflow)) * plan.repeats
        size = _size(total, plan.limits.concurrency)
        some = [NewSlice(workflow, first, min(size, total - first)) for first in range(0, total, size)]
        found += enumerate(some)
    return [one for _, one in sorted(found, key=lambda placed: placed[0])]


def cells_in(plan: Plan, one: Slice) -> list[int]:
    """The cells of a slice, in order."""
    variants = _variants(plan, one.workflow)
    return [_cell(plan, variants, place) for place in range(one.first, one.first + one.count)]


def _cell(plan: Plan, variants: Sequence[int], place: int) -> int:
    rest, repeat = divmod(place, plan.repeats)
    row, variant = divmod(rest, len(variants))
    return cell_at(plan, Place(row, variants[variant], repeat))


def _size(total: int, concurrency: int) -> int:
    """How many cells a slice has: of a small evaluation few, so that all who may run at once have some to the end."""
    width = -(-concurrency // SLICES_PER_WORKFLOW)
    return max(1, min(MOST, max(width, total // (SLICES_PER_WORKFLOW * 4))))


def _variants(plan: Plan, workflow: str) -> list[int]:
    return [place for place, variant in enumerate(plan.variants) if (variant.workflow or NO_CALL_WORKFLOW) == workflow]
