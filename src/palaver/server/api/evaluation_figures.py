"""Figures of evaluations for who asks for them: read and computed off the loop, and kept of those that have ended.

Reading all scores of a large run takes longer than most that is computed of them. So what was read is kept as well, as
columns: a summary, a comparison and a list of what got worse, asked for one after the other, read them once.

All that computes is imported when somebody looks at evaluations, in a thread: a server on which nobody does never loads
numpy, and where somebody does, nobody else waits for it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from palaver.evaluation.results.figures import Comparison, EvaluationSummary
from palaver.storage.database import Database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations.repository import Evaluation

if TYPE_CHECKING:
    from palaver.evaluation.results.arrays import ResultArrays

T = TypeVar("T")

_FIGURES = 64
"""Summaries and comparisons that are kept."""
_BYTES = 16 * 1024 * 1024
"""Of columns that are kept: those of twenty runs of 10,000 cells with three scores each."""


class Figures:
    """Reads figures, and keeps those of what has ended: they do not change until somebody runs it again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._told = _Kept[Any](_FIGURES)
        self._read = _Kept["ResultArrays"](_BYTES)
        self._locks = WeakValueDictionary[Hashable, asyncio.Lock]()
        self._is_loading = False

    def soon(self) -> None:
        """Somebody looks at evaluations, and is likely to ask for figures next."""
        if not self._is_loading:
            self._is_loading = True
            asyncio.get_running_loop().run_in_executor(None, _load)

    async def summary(self, project: str, evaluation: str, column: str | None) -> EvaluationSummary:
        """The figures of one; those by the values of a column, too."""
        found = await self._database.read(evaluations.get_evaluation, project, evaluation)
        key = ("summary", project, *_version(found), column)
        if (kept := self._told.get(key)) is not None:
            return kept
        await asyncio.to_thread(_load)
        from palaver.evaluation.results.load import read_column
        from palaver.evaluation.results.summary import slice_rows, summarize

        results = await self._results(project, found)
        values = None
        if column is not None:
            values = await self._database.read(read_column, project, evaluation, column)
        told = await asyncio.to_thread(lambda: summarize(results, None if values is None else slice_rows(values)))
        return self._keep(key, told, found)

    async def comparison(self, project: str, base: str, candidate: str, margin: float) -> Comparison:
        """One variant beside another."""
        await asyncio.to_thread(_load)
        from palaver.evaluation.results.compare import compare_variants
        from palaver.evaluation.results.load import compared_variant, split_variant_reference

        (first, of_first), (second, of_second) = split_variant_reference(base), split_variant_reference(candidate)
        one = await self._database.read(evaluations.get_evaluation, project, first)
        other = one if first == second else await self._database.read(evaluations.get_evaluation, project, second)
        key = ("compare", project, *_version(one), of_first, *_version(other), of_second, margin)
        if (kept := self._told.get(key)) is not None:
            return kept
        results = await self._results(project, one)
        others = results if first == second else await self._results(project, other)
        here, there = compared_variant(results, of_first, "?base"), compared_variant(others, of_second, "?candidate")
        return self._keep(key, await asyncio.to_thread(compare_variants, here, there, margin), one, other)

    async def comparisons(self, project: str, evaluation: str, base: str | None, margin: float) -> list[Comparison]:
        """All variants of one beside a base, or beside its own first."""
        await asyncio.to_thread(_load)
        from palaver.evaluation.results.load import compare_with_base, compared_variant, split_variant_reference

        first, variant = (evaluation, None) if base is None else split_variant_reference(base)
        results = await self._of(project, evaluation)
        others = results if first == evaluation else await self._of(project, first)
        beside = None if base is None else compared_variant(others, variant, "?base")
        return await asyncio.to_thread(compare_with_base, results, beside, margin)

    async def cells(
        self, project: str, evaluation: str, *, evaluator: str | None, flaky: bool, base: str | None
    ) -> list[int]:
        """The cells, in order, of rows that are flaky, or that passed in `base` and do not here.

        `base` is `ev_…:variant`; or `true`, which is the first variant of this evaluation.
        """
        await asyncio.to_thread(_load)
        from palaver.evaluation.results.compare import ComparedVariant, find_cells
        from palaver.evaluation.results.load import compared_variant, split_variant_reference

        results, before = await self._of(project, evaluation), None
        if base == "true":
            before = ComparedVariant(results, 0)
        elif base is not None:
            first, variant = split_variant_reference(base)
            others = results if first == evaluation else await self._of(project, first)
            before = compared_variant(others, variant, "?regression")
        return await asyncio.to_thread(find_cells, results, evaluator=evaluator, flaky=flaky, base=before)

    async def _of(self, project: str, evaluation: str) -> "ResultArrays":
        return await self._results(project, await self._database.read(evaluations.get_evaluation, project, evaluation))

    async def _results(self, project: str, found: Evaluation) -> "ResultArrays":
        """What figures are made of. Who asks for the same while it is read waits for it."""
        if found.ended_at is None:
            return await self._read_all(project, found)
        key = (project, *_version(found))
        async with self._locks.setdefault(key, asyncio.Lock()):
            if (kept := self._read.get(key)) is not None:
                return kept
            results = await self._read_all(project, found)
            self._read.keep(key, results, results.size)
            return results

    async def _read_all(self, project: str, found: Evaluation) -> "ResultArrays":
        from palaver.evaluation.results.load import read_results

        return await self._database.read(read_results, project, found.id)

    def _keep(self, key: Hashable, told: T, *of: Evaluation) -> T:
        if all(one.ended_at is not None for one in of):
            self._told.keep(key, told, 1)
        return told


class _Kept(Generic[T]):
    """What was used last, as much of it as there is room for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._values = OrderedDict[Hashable, tuple[T, int]]()

    def get(self, key: Hashable) -> T | None:
        """What is kept under a key."""
        if (found := self._values.get(key)) is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def keep(self, key: Hashable, value: T, size: int) -> None:
        """Keep that, and let go of what nobody asked for longest. What is too large for all of it is not kept."""
        if size > self._most:
            return
        self._size += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while self._size > self._most:
            _, (_, gone) = self._values.popitem(last=False)
            self._size -= gone


def _version(found: Evaluation) -> tuple[str, int]:
    return found.id, found.version


def _load() -> None:
    """All that computes. It takes up to a second, the first time; it is for a thread."""
    from palaver.evaluation.results import summary  # noqa: F401 # pyright: ignore[reportUnusedImport]
