"""Make the plan of an evaluation request. An invalid request raises an error with a pointer.

Everything is validated before anything runs: names, workflows, parameters, columns, evaluators and the number of
cells.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from palaver.errors import ConflictingFields, InvalidValue, RequestError, WorkflowNotFound
from palaver.evaluation.plan.column_map import ColumnKinds, check_column, map_answer_columns, map_columns
from palaver.evaluation.plan.plan import (
    ROW_BYTES,
    Plan,
    PlannedEvaluation,
    PlannedEvaluator,
    PlannedTestset,
    PlannedVariant,
)
from palaver.evaluation.plan.request import EvaluatorInput, Limits, NewEvaluation, VariantInput
from palaver.evaluation.plan.testset import RevisionSource, RevisionSummary, select_rows
from palaver.storage.variants import ResolvedVariant
from palaver.workflows.workflow import Workflow, find_parameter_faults


class NamedEvaluator(Protocol):
    @property
    def name(self) -> str: ...


ResolveVariant = Callable[[str, Workflow, str], Awaitable[ResolvedVariant]]
"""Resolve `short` or `short:3` for a workflow of a project."""
BindEvaluator = Callable[[str, Mapping[str, Any], str | None], NamedEvaluator]
"""Bind an evaluator to parameters under a name. Raises InvalidValue."""


@dataclass(frozen=True, kw_only=True)
class EvaluationPlanner:
    find_workflow: Callable[[str], Workflow]
    testsets: RevisionSource
    resolve_variant: ResolveVariant
    bind_evaluator: BindEvaluator
    max_cells: int = 1_000_000
    max_cost: float | None = None

    async def plan(self, project: str, request: NewEvaluation) -> PlannedEvaluation:
        """Return the plan and its rows. Nothing is stored."""
        # In threads: evaluators are imported on first use, and a set may have a million rows.
        evaluators = await asyncio.to_thread(self._plan_evaluators, request)
        revision = await self.testsets.revision(project, request.testset)
        variants = await self._plan_variants(project, request, revision)
        _check_distinct([variant.name for variant in variants], "variants")
        rows = await self.testsets.rows(project, revision, request.testset.rows)
        plan = Plan(
            name=request.name or f"{revision.name}: {', '.join(variant.name for variant in variants)}"[:200],
            testset=PlannedTestset(
                id=revision.testset,
                name=revision.name,
                revision=revision.number,
                digest=revision.digest,
                rows=request.testset.rows,
            ),
            variants=variants,
            evaluators=evaluators,
            repeats=request.repeats,
            limits=self._cap_cost(request.limits),
            failed_as=request.failed_as,
        )
        planned = PlannedEvaluation(plan, await asyncio.to_thread(select_rows, rows, request.testset.rows))
        self._check_size(planned)
        return planned

    def _cap_cost(self, requested: Limits) -> Limits:
        if self.max_cost is None or (requested.max_cost is not None and requested.max_cost <= self.max_cost):
            return requested
        return msgspec.structs.replace(requested, max_cost=self.max_cost)

    def _check_size(self, planned: PlannedEvaluation) -> None:
        if not planned.rows:
            raise InvalidValue("No rows match the selection.", pointer="/testset/rows")
        if planned.total > self.max_cells:
            rows = len(planned.rows) // ROW_BYTES
            size = f"{rows:,} rows × {len(planned.plan.variants)} variants × {planned.plan.repeats} repeats"
            raise InvalidValue(
                f"{size} = {planned.total:,} cells, but the limit is {self.max_cells:,}. Use a sample of the rows.",
                pointer="/testset/rows",
            )

    # Evaluators

    def _plan_evaluators(self, request: NewEvaluation) -> list[PlannedEvaluator]:
        evaluators = [self._plan_evaluator(requested, index) for index, requested in enumerate(request.evaluators)]
        _check_distinct([evaluator.name for evaluator in evaluators], "evaluators")
        return evaluators

    def _plan_evaluator(self, requested: EvaluatorInput, index: int) -> PlannedEvaluator:
        try:
            bound = self.bind_evaluator(requested.key, requested.parameters, requested.name)
        except RequestError as error:
            raise _set_pointer(error, f"/evaluators/{index}{error.pointer or '/key'}") from None
        return PlannedEvaluator(key=requested.key, name=bound.name, parameters=requested.parameters)

    # Variants

    async def _plan_variants(
        self, project: str, request: NewEvaluation, revision: RevisionSummary
    ) -> list[PlannedVariant]:
        requests = list(enumerate(request.variants))
        answers = {wanted.column for _, wanted in requests if wanted.column is not None}
        with_workflow = {
            index: await self._plan_workflow_variant(project, request, wanted, index, revision, answers)
            for index, wanted in requests
            if wanted.column is None
        }
        has_chat = any(variant.is_chat for variant in with_workflow.values())
        return [
            with_workflow.get(index)
            or _plan_recorded_variant(request, wanted, index, revision.kinds, answers, has_chat=has_chat)
            for index, wanted in requests
        ]

    async def _plan_workflow_variant(
        self,
        project: str,
        request: NewEvaluation,
        requested: VariantInput,
        index: int,
        revision: RevisionSummary,
        answers: Iterable[str],
    ) -> PlannedVariant:
        pointer = f"/variants/{index}"
        if requested.workflow is None:
            raise InvalidValue("A variant requires a workflow, or a column with answers.", pointer=pointer)
        try:
            workflow = self.find_workflow(requested.workflow)
        except WorkflowNotFound as error:
            raise InvalidValue(error.message, pointer=f"{pointer}/workflow") from None
        reference, parameters = None, requested.parameters
        if requested.variant is not None:
            try:
                resolved = await self.resolve_variant(project, workflow, requested.variant)
            except RequestError as error:
                raise _set_pointer(error, f"{pointer}/variant") from None
            reference, parameters = resolved.reference, {**resolved.parameters, **parameters}
        if faults := find_parameter_faults(workflow, parameters):
            raise _set_pointer(faults[0], f"{pointer}{faults[0].pointer or ''}")
        description = workflow.description
        return PlannedVariant(
            name=requested.name or reference or description.name,
            workflow=description.name,
            variant=reference,
            parameters=parameters,
            is_chat=description.is_chat,
            is_chat_source=description.is_chat_source,
            map=map_columns(request.map, revision.kinds, description, answers=set(answers), gaps=revision.gaps),
        )


def _plan_recorded_variant(
    request: NewEvaluation,
    requested: VariantInput,
    index: int,
    kinds: ColumnKinds,
    answers: Collection[str],
    *,
    has_chat: bool,
) -> PlannedVariant:
    """Plan a variant whose answers are recorded in a column.

    It is a chat if the answers are messages, or if they are texts and another variant is a chat.
    """
    pointer, column = f"/variants/{index}", requested.column or ""
    if requested.workflow is not None or requested.variant is not None or requested.parameters:
        raise ConflictingFields(
            "'column' can't be combined with 'workflow', 'variant' or 'parameters'.", pointer=pointer
        )
    check_column(column, kinds, f"{pointer}/column")
    kind = kinds[column]
    return PlannedVariant(
        name=requested.name or column or "column",
        column=column,
        is_chat=kind in ("chat", "message") or (kind in ("text", "mixed") and has_chat),
        is_chat_source="derived",
        map=map_answer_columns(request.map, kinds, column, answers=answers),
    )


def _check_distinct(names: Sequence[str], field: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            pointer = f"/{field}/{index}/name"
            raise InvalidValue(f"Two {field} have the name {name!r}. Rename one of them.", pointer=pointer)


def _set_pointer(error: RequestError, pointer: str) -> RequestError:
    error.pointer = pointer
    return error
