"""Run one cell: read its row, call the variant, score the answer."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import dialects
from palaver.core.descriptions import Description
from palaver.core.json import is_list, is_object
from palaver.core.messages import Message
from palaver.core.runs import Call, Origin
from palaver.errors import BadStream, InvalidMessages, PalaverError, RequestError
from palaver.evaluation.case import Case, Flags, Turn, case_with_turns, last_user_message, make_turn
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import BoundEvaluator
from palaver.evaluation.json_values import scalar_text
from palaver.evaluation.plan.plan import (
    ROW_BYTES,
    ColumnMap,
    Plan,
    PlannedEvaluator,
    PlannedVariant,
    cell_position,
    format_cell_id,
)
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.runner.call import WorkflowAnswer, WorkflowCaller
from palaver.evaluation.runner.manual_case import reply_from_output
from palaver.evaluation.runner.result_writer import CaseRedactor, CellCalls, CellInfo, make_result, make_score
from palaver.evaluation.runner.script import make_answered_turn, play_script
from palaver.evaluation.score import ScoreRecord, error_score
from palaver.storage.evaluations.results import CellScore, NewResult, StopConditions
from palaver.testsets.rows import format_row_id
from palaver.testsets.scripts import Script, is_script, read_script
from palaver.traces.run_facts import NO_PARENT_ID
from palaver.workflows.workflow import Workflow


class CellInput(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a row that a cell uses."""

    row: dict[str, Any]
    history: tuple[Message, ...] = ()
    inputs: dict[str, Any] = {}
    expected: Any | UnsetType = UNSET
    script: Script | None = None


def read_cell_input(row: dict[str, Any], variant: PlannedVariant) -> CellInput:
    """Read the row. Raises RequestError for content that cannot be sent to a workflow."""
    columns = variant.map
    inputs = {name: row[column] for name, column in columns.inputs.items() if column in row}
    expected_column = columns.expected_column(row)
    expected: Any = UNSET if expected_column is None else row.get(expected_column, UNSET)
    script = _cell_value(row, columns.script)
    if script is not None and is_script(script):
        return CellInput(row=row, inputs=inputs, expected=expected, script=read_script(script, f"/{columns.script}"))
    column = columns.messages
    if columns.spoken is not None and _cell_value(row, column) in (None, ""):
        # The column with the user's text is then not an input as well.
        column = columns.spoken
        inputs = {name: value for name, value in inputs.items() if columns.inputs[name] != column}
    earlier_messages, messages = _cell_value(row, columns.history), _cell_value(row, column)
    history = (*_read_messages(earlier_messages, columns.history or ""), *_read_messages(messages, column or ""))
    return CellInput(row=row, history=history, inputs=inputs, expected=expected)


def missing_messages(cell_input: CellInput, columns: ColumnMap) -> str | None:
    """Describe the missing messages of a row; None if it has messages. An empty list counts as intended."""
    if cell_input.script is not None or cell_input.history or _cell_value(cell_input.row, columns.messages) is not None:
        return None
    if columns.messages is None and columns.script is None:
        return None
    sources = {"messages": columns.messages, "script": columns.script, "text": columns.spoken}
    return ", ".join(f"no {kind} in column {column!r}" for kind, column in sources.items() if column is not None)


def _cell_value(row: Mapping[str, Any], column: str | None) -> Any:
    return None if column is None else row.get(column)


def _read_messages(value: Any, column: str) -> list[Message]:
    """Read text or a number as a user message, and anything else as messages in any dialect."""
    if value is None or value == []:
        return []
    if (text := scalar_text(value)) is not None:
        return [Message.user(text)]
    if isinstance(value, Mapping) and "role" in value:
        value = [cast("Mapping[str, Any]", value)]
    try:
        return dialects.read(value, pointer=f"/{column}")
    except InvalidMessages as error:
        raise InvalidMessages(
            f"Column {column!r} does not contain valid messages: {error.message}", pointer=error.pointer
        ) from None


def convert_inputs(inputs: Mapping[str, Any], workflow: Description) -> dict[str, Any]:
    """Convert numbers and booleans to text for inputs that must be text: files don't tell `12` from `"12"`."""
    properties: Mapping[str, Any] = workflow.schemas.inputs.get("properties") or {}
    return {
        name: scalar_text(value) if isinstance(value, bool | int | float) and is_text_schema(schema) else value
        for name, value in inputs.items()
        for schema in (properties.get(name),)
    }


def is_text_schema(schema: Any) -> bool:
    """Whether a JSON Schema accepts strings, possibly null, and nothing else."""
    if not is_object(schema):
        return False
    if is_list(values := schema.get("enum")):
        return bool(values) and all(isinstance(value, str) for value in values)
    if is_list(options := schema.get("anyOf", schema.get("oneOf"))):
        others = [option for option in options if option != {"type": "null"}]
        return bool(others) and all(map(is_text_schema, others))
    types: Any = schema.get("type")
    if is_list(types):
        return "string" in types and all(type_ in ("string", "null") for type_ in types)
    return types == "string"


SCORING_TIMEOUT_FACTOR = 5
"""Maximum time of an evaluator, as a multiple of the call timeout: it may call a model and retry."""


class UnavailableEvaluator(NamedTuple):
    """An evaluator that this process lacks, or whose parameters it rejects."""

    name: str
    reason: str
    needs: frozenset[str] = frozenset()

    async def score(self, case: Case) -> list[ScoreRecord]:  # noqa: ARG002 - the interface of BoundEvaluator
        return [error_score(self.name, f"evaluator_unknown: {self.reason}")]


def bind_planned(
    evaluators: EvaluatorRegistry, planned: PlannedEvaluator, context: EvaluatorContext
) -> BoundEvaluator | UnavailableEvaluator:
    try:
        return evaluators.find(planned.key).bind(planned.parameters, context, name=planned.name)
    except PalaverError as error:  # The code has changed since the evaluation was planned.
        return UnavailableEvaluator(planned.name, error.message)


class CellFailed(Exception):
    """Raised if a cell has no answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


class CellRunner:
    def __init__(
        self,
        project: str,
        evaluation: str,
        plan: Plan,
        rows: bytes,
        *,
        key: str | None,
        caller: WorkflowCaller,
        find_workflow: Callable[[str], Workflow],
        evaluators: Sequence[BoundEvaluator | UnavailableEvaluator],
        context: EvaluatorContext,
        redact: Callable[[str, str | None], CaseRedactor | None] | None,
        now: Callable[[], datetime],
    ) -> None:
        self.evaluation_key = project, evaluation
        self.plan = plan
        self.stop_conditions = _stop_conditions(plan, len(rows) // ROW_BYTES)
        self._rows = rows
        self._key = key
        self._caller = caller
        self._find_workflow = find_workflow
        self._evaluators = evaluators
        self._wants_events = any("events" in evaluator.needs for evaluator in evaluators)
        self._context = context
        self._redact = redact
        self._now = now

    def row_hash(self, cell: int) -> bytes:
        return self._row(cell)[ROW_BYTES // 2 :]

    def _row(self, cell: int) -> bytes:
        start = cell_position(self.plan, cell).row * ROW_BYTES
        return self._rows[start : start + ROW_BYTES]

    def _info(self, cell: int) -> CellInfo:
        row_id = format_row_id(self._row(cell)[: ROW_BYTES // 2])
        return CellInfo(cell, cell_position(self.plan, cell), row_id, self._now())

    async def run(self, cell: int, content: bytes | None) -> NewResult:
        """Run a cell. Only cancellation and EvaluationAborted are raised."""
        info = self._info(cell)
        variant = self.plan.variants[info.position.variant]
        case = Case(id=format_cell_id(cell), row_id=info.row, variant=variant.name, repeat=info.position.repeat)
        calls = CellCalls()
        scores: list[CellScore] = []
        try:
            case = await self._make_case(case, variant, content, calls)
            error = calls.error
            if error is None:
                scores = await self._score(case)
        except CellFailed as failure:
            error = failure.error
        except (RequestError, BadStream) as failure:
            error = {"code": failure.code, "message": failure.message}
        return self._make_result(info, case, calls, error, scores)

    def failed_result(self, cell: int, code: str, message: str) -> NewResult:
        info = self._info(cell)
        case = Case(id=format_cell_id(cell), row_id=info.row, variant=self.plan.variants[info.position.variant].name)
        return self._make_result(info, case, CellCalls(), {"code": code, "message": message}, [])

    async def _make_case(self, case: Case, variant: PlannedVariant, content: bytes | None, calls: CellCalls) -> Case:
        if content is None:
            raise CellFailed("row_gone", "The row's content is no longer in the test set.")
        cell_input = read_cell_input(msgspec.json.decode(content), variant)
        if variant.workflow is not None:
            inputs = convert_inputs(cell_input.inputs, self._find_workflow(variant.workflow).description)
            cell_input = msgspec.structs.replace(cell_input, inputs=inputs)
        if variant.workflow is None:
            turns: Sequence[Turn] = [_make_recorded_turn(cell_input, variant)]
            history = cell_input.history
        else:
            turns, history = await self._call_variant(case, cell_input, variant, calls)
        case = msgspec.structs.replace(
            case,
            row=cell_input.row,
            inputs=cell_input.inputs,
            expected=cell_input.expected,
            history=history,
            events=tuple(calls.events) if self._wants_events else None,
            trace_id=calls.trace_id,
            flags=Flags(variant.is_chat, variant.is_chat_source),
            script=cell_input.script,
        )
        return case_with_turns(case, turns)

    async def _call_variant(
        self, case: Case, cell_input: CellInput, variant: PlannedVariant, calls: CellCalls
    ) -> tuple[Sequence[Turn], tuple[Message, ...]]:
        if variant.is_chat and (missing := missing_messages(cell_input, variant.map)) is not None:
            raise CellFailed(
                "no_messages", f"The row has no input: {missing}. Fill in the column or leave out the row."
            )
        workflow = self._find_workflow(variant.workflow or "")

        async def answer(history: tuple[Message, ...]) -> WorkflowAnswer:
            return await self._call(case, workflow, variant, history, cell_input.inputs, calls)

        if cell_input.script is None:
            reply = await answer(cell_input.history)
            user = last_user_message(cell_input.history)
            return [make_answered_turn([reply], reply.messages, user, is_chat=variant.is_chat)], cell_input.history

        async def play_user(name: str, history: tuple[Message, ...]) -> WorkflowAnswer:
            simulated = PlannedVariant(name=name, workflow=name, is_chat=True)
            return await self._call(case, self._find_workflow(name), simulated, history, {}, calls)

        played = await play_script(
            cell_input.script, answer, self._context, play_user=play_user, is_chat=variant.is_chat
        )
        calls.error = played.error
        return played.turns, cell_input.script.start

    async def _call(
        self,
        case: Case,
        workflow: Workflow,
        variant: PlannedVariant,
        history: tuple[Message, ...],
        inputs: Mapping[str, Any],
        calls: CellCalls,
    ) -> WorkflowAnswer:
        project, evaluation = self.evaluation_key
        call = Call(
            workflow=workflow.description.name,
            messages=history,
            inputs=inputs,
            parameters=variant.parameters,
            session=f"{evaluation}.{case.id}",
            trace_parent=None if calls.trace_id is None else f"00-{calls.trace_id}-{NO_PARENT_ID}-01",
        )
        origin = Origin(project=project, key=self._key, protocol="evaluation", background=True, variant=variant.variant)
        result = await self._caller.call(workflow, call, origin)
        calls.add(result, keep_events=self._wants_events)
        return result.answer

    async def _score(self, case: Case) -> list[CellScore]:
        scores: dict[tuple[int, str], CellScore] = {}
        for index, evaluator in enumerate(self._evaluators):
            for record in await self._run_evaluator(evaluator, case):
                scores.setdefault((index, record.evaluator), make_score(index, record))
        return list(scores.values())

    async def _run_evaluator(self, evaluator: BoundEvaluator | UnavailableEvaluator, case: Case) -> list[ScoreRecord]:
        limit = self.plan.limits.timeout * SCORING_TIMEOUT_FACTOR
        try:
            async with asyncio.timeout(limit):
                return await evaluator.score(case)
        except TimeoutError:
            return [error_score(evaluator.name, f"evaluator_timeout: timed out after {limit:g} seconds", seconds=limit)]

    def _make_result(
        self, info: CellInfo, case: Case, calls: CellCalls, error: Mapping[str, Any] | None, scores: Sequence[CellScore]
    ) -> NewResult:
        workflow = self.plan.variants[info.position.variant].workflow
        redactor = None if self._redact is None else self._redact(self.evaluation_key[0], workflow)
        return make_result(info, case, calls, error, scores, redactor=redactor, ended_at=self._now())


def _stop_conditions(plan: Plan, rows: int) -> StopConditions:
    """Return the conditions under which an evaluation of this many rows stops early."""
    total, limits = rows * len(plan.variants) * plan.repeats, plan.limits
    max_failed = int(limits.max_errors * total) if limits.max_errors < 1 else None
    return StopConditions(max_failed=max_failed, max_cost=limits.max_cost)


def _make_recorded_turn(cell_input: CellInput, variant: PlannedVariant) -> Turn:
    """Make the turn of an answer that the row already holds."""
    value = cell_input.row.get(variant.column or "", UNSET)
    if value is UNSET:
        raise CellFailed("no_answer", f"The row has no answer in column {variant.column!r}.")
    reply = reply_from_output(value, is_chat=variant.is_chat, history=cell_input.history)
    return make_turn(reply, is_chat=variant.is_chat, user=last_user_message(cell_input.history))
