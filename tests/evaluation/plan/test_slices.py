"""Cells are split into slices of one workflow each, and every cell is in exactly one slice."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palaver.evaluation.plan.plan import MAX_SLICE_CELLS, cell_position, make_slices, slice_cells
from palaver.storage.evaluations.repository import NewSlice
from palaver.storage.evaluations.slices import Slice
from tests.evaluation.runner.local_server import plan, variant


def claimed_slice(new_slice: NewSlice) -> Slice:
    return Slice(
        project="default",
        evaluation="ev_1",
        place=0,
        workflow=new_slice.workflow,
        first=new_slice.first,
        count=new_slice.count,
        width=1,
    )


@given(
    workflows=st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=5),
    rows=st.integers(0, 300),
    repeats=st.integers(1, 4),
    concurrency=st.integers(1, 300),
)
def test_every_cell_is_in_one_slice_of_its_workflow(
    workflows: list[str | None], rows: int, repeats: int, concurrency: int
) -> None:
    variants = [variant(name=str(index), workflow=name) for index, name in enumerate(workflows)]
    planned = plan(*variants, repeats=repeats, concurrency=concurrency)

    slices = make_slices(planned, rows)

    result = Counter(cell for one in slices for cell in slice_cells(planned, claimed_slice(one)))
    assert result == Counter(range(rows * len(workflows) * repeats))
    assert all(1 <= one.count <= MAX_SLICE_CELLS for one in slices)
    for one in slices:
        positions = [cell_position(planned, cell) for cell in slice_cells(planned, claimed_slice(one))]
        assert {workflows[index.variant] or "" for index in positions} == {one.workflow}


def test_small_evaluations_have_smaller_slices() -> None:
    def counts(cells: int, **limits: Any) -> list[int]:
        return [one.count for one in make_slices(plan(**limits), cells)]

    assert counts(20, concurrency=10) == [3, 3, 3, 3, 3, 3, 2]
    assert counts(4, concurrency=1) == [1, 1, 1, 1]
    assert set(counts(10_000)) == {50}


def test_slices_of_several_workflows_alternate() -> None:
    planned = plan(variant("a"), variant("b"), variant(None, column="old", name="c"), concurrency=4)

    assert [one.workflow for one in make_slices(planned, 2)] == ["a", "b", "", "a", "b", ""]
