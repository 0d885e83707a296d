"""Evaluations, their results and evaluators as the REST API returns them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.api_keys import format_key_id
from palaver.core.descriptions import IsChatSource
from palaver.core.messages import Message
from palaver.evaluation.evaluator import Need
from palaver.evaluation.plan.plan import Plan, PlannedEvaluator, PlannedVariant, format_cell_id
from palaver.evaluation.plan.request import EvaluatorInput, FailedAs, Limits, RowSelection
from palaver.evaluation.runner.manual_case import ManualCase
from palaver.server.api.conventions import Timestamp, make_view
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import CellScore, ResultDetail, StoredResult

EvaluationState = Literal["queued", "running", "succeeded", "partly", "failed", "cancelled"]
CellStatus = Literal["done", "failed"]
"""Status of a recorded cell; cells without a result are queued, running or cancelled."""
ScoreStatus = Literal["scored", "skipped", "error"]
EvaluatorOrigin = Literal["built_in", "author"]
Which = Literal["failed", "errors", "all"]


class FailureView(msgspec.Struct, frozen=True, kw_only=True):
    """Why an evaluation or a cell failed."""

    code: str
    message: str


# Evaluations


class EvaluationTestset(msgspec.Struct, frozen=True, kw_only=True):
    """The test set revision that an evaluation runs on."""

    id: str
    name: str
    """Name of the test set when the evaluation was created."""
    revision: int


class EvaluationHead(msgspec.Struct, frozen=True, kw_only=True):
    """The fields shared by EvaluationRow and EvaluationView."""

    id: str
    name: str
    state: EvaluationState
    reason: FailureView | None
    """Why the evaluation failed."""
    testset: EvaluationTestset
    repeats: int
    total: int
    """Number of cells: rows × variants × repeats."""
    done: int
    """Number of cells with an answer and scores."""
    failed: int
    """Number of cells whose run failed."""
    errors: int
    """Number of evaluator errors."""
    cost: float | None
    """Known cost of all calls, in US dollars."""
    score_cost: float | None
    """Known cost of evaluators that call models, in US dollars."""
    key: str | None
    created_at: Timestamp
    started_at: Timestamp | None
    ended_at: Timestamp | None


class EvaluationRow(EvaluationHead, frozen=True, kw_only=True):
    """An evaluation in a list."""

    variants: list[str]
    """Names of the variants."""
    evaluators: list[str]
    """Names of the evaluators."""


class EvaluationView(EvaluationHead, frozen=True, kw_only=True):
    """An evaluation with its configuration; summary and results have separate routes."""

    variants: Sequence[PlannedVariant]
    """The variants, with the parameters, flags and columns that they had when the evaluation was created."""
    evaluators: Sequence[PlannedEvaluator]
    rows: int
    """Number of test set rows in the evaluation."""
    selection: RowSelection | None
    """How the rows were selected; null for all rows."""
    limits: Limits
    failed_as: FailedAs
    seq: int
    """The number of the last recorded result, after which the event stream continues."""
    updated_at: Timestamp


class CreatedEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation that was just created."""

    id: str
    state: EvaluationState
    total: int


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """The cells to rerun in the same evaluation."""

    which: Which = "failed"
    """`failed`: cells that failed or were cancelled; `errors`: also those with evaluator errors; `all`: all cells."""


# Results


class ScoreView(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one evaluator for one cell."""

    evaluator: str
    """Name of the evaluator in this evaluation; `name.key` if it returned a mapping of scores."""
    status: ScoreStatus
    passed: bool | None = None
    score: float | None = None
    label: str | None = None
    reason: str = ""
    """Begins with a code if the status is `skipped` or `error`."""
    details: Mapping[str, Any] = {}
    seconds: float | None = None
    usage: Mapping[str, Any] | None = None
    cost: float | None = None


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one cell: one run of a variant on a test set row."""

    id: str
    """For example `cell_42`; unique within the evaluation."""
    row: str
    """The id of the row in the test set."""
    variant: str
    repeat: int
    """Number of the repeat, starting at 0."""
    status: CellStatus
    error: FailureView | None
    asked: Any = msgspec.field(name="in")
    """A preview of the input."""
    answered: Any = msgspec.field(name="out")
    """A preview of the output."""
    scores: list[ScoreView]
    """Scores in the order of the evaluators, without details."""
    latency_seconds: float | None
    first_output_seconds: float | None
    usage: Mapping[str, Any] | None
    cost: float | None
    finish: str | None
    attempts: int
    """Number of attempts, including the one with this result."""
    trace_id: str | None
    run: str | None
    started_at: Timestamp
    ended_at: Timestamp


class CaseCallView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and its result."""

    call_id: str
    name: str
    arguments: str
    """The exact text of the arguments."""
    parsed: Any | UnsetType = UNSET
    """Absent if the arguments are not JSON."""
    result: Any | UnsetType = UNSET
    is_error: bool = False
    turn: int = 0
    index: int = 0
    """Position among all tool calls of the result."""


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation. Without a script, there is only one."""

    user: Message | None = None
    messages: Sequence[Message] = ()
    text: str = ""
    notes: Sequence[str] = ()
    tool_calls: Sequence[CaseCallView] = ()
    value: Any | UnsetType = UNSET
    usage: Mapping[str, Any] | None = None
    latency_seconds: float | None = None
    first_output_seconds: float | None = None
    finish: str = "stop"
    expect: Any = None
    """What the script expects of this turn."""
    reached: bool = True
    """False if the script stopped before this turn."""


class ResultView(ResultRow, frozen=True, kw_only=True):
    """A result with its full input, expected answer and output."""

    inputs: Mapping[str, Any]
    expected: Any | UnsetType = UNSET
    """Absent if the row has no expected answer."""
    history: Sequence[Message]
    """The messages that were sent."""
    messages: Sequence[Message]
    """The messages of the answer, from all turns."""
    value: Any | UnsetType = UNSET
    """The value that the workflow returned; absent if the workflow is a chat."""
    text: str
    notes: Sequence[str] = ()
    tool_calls: Sequence[CaseCallView] = ()
    turns: Sequence[TurnView]
    is_chat: bool
    is_chat_source: IsChatSource
    repeats: list[str]
    """The ids of this row's cells with the same variant, including this one, in the order of repeats."""
    others: Mapping[str, str]
    """The ids of the cells with the same row and repeat, by variant name."""
    previous: str | None
    """The id of the previous row's cell with the same variant and repeat."""
    next: str | None


# Streams


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="progress"):
    """The progress of the evaluation; sent at most four times per second."""

    done: int
    failed: int
    errors: int = 0
    total: int
    rate: float | None
    """Cells per second over the last 200 cells; null with fewer than two."""
    eta_seconds: float | None
    cost: float | None = None


class CellEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cell"):
    """A result that was recorded."""

    id: str
    row: str
    variant: str
    repeat: int
    status: CellStatus
    scores: list[ScoreView]


class StateEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="state"):
    """The evaluation started or ended."""

    state: EvaluationState
    reason: FailureView | None


EvaluationEvent = Progress | CellEvent | StateEvent
"""Events of an evaluation's stream; the name of each server-sent event is its `type`."""


# Evaluators


class EvaluatorView(msgspec.Struct, frozen=True, kw_only=True):
    """An available evaluator."""

    key: str
    title: str
    description: str
    schema: Mapping[str, Any]
    """JSON Schema of the parameters, from which the web interface builds a form."""
    needs: list[Need]
    origin: EvaluatorOrigin


class Evaluators(msgspec.Struct, frozen=True):
    """All evaluators, by key."""

    data: list[EvaluatorView]


class TrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of an evaluator, and a case to score."""

    parameters: dict[str, Any] = {}
    case: ManualCase


class TrialScore(ScoreView, frozen=True, kw_only=True):
    """The result of trying an evaluator."""

    more: list[ScoreView] = []
    """The other scores of an evaluator that returns several."""


class ImportedEvaluatorView(msgspec.Struct, frozen=True, kw_only=True):
    """A converted Agenta evaluator."""

    name: str
    source: str
    """Key of the evaluator in Agenta."""
    evaluator: EvaluatorInput | None
    """The evaluator to use in an evaluation; null if there is no equivalent."""
    notes: list[str]
    """What was left out, and why."""
    text: str | None
    """Code of the evaluator, which is never run."""


class ImportedEvaluators(msgspec.Struct, frozen=True):
    """The converted evaluators of a document."""

    data: list[ImportedEvaluatorView]


def decode_plan(stored: Any) -> Plan:
    return msgspec.convert(stored, Plan)


def evaluation_row(evaluation: Evaluation, plan: Plan) -> EvaluationRow:
    return make_view(
        EvaluationRow,
        evaluation,
        **_evaluation_fields(evaluation, plan),
        variants=[variant.name for variant in plan.variants],
        evaluators=[evaluator.name for evaluator in plan.evaluators],
    )


def evaluation_view(evaluation: Evaluation, plan: Plan) -> EvaluationView:
    return make_view(
        EvaluationView,
        evaluation,
        **_evaluation_fields(evaluation, plan),
        variants=plan.variants,
        evaluators=plan.evaluators,
        rows=evaluation.total // max(len(plan.variants) * plan.repeats, 1),
        selection=plan.testset.rows,
        limits=plan.limits,
        failed_as=plan.failed_as,
        seq=evaluation.recorded,
    )


def state_event(evaluation: Evaluation) -> StateEvent:
    return StateEvent(state=evaluation.state, reason=failure_view(evaluation.reason))


def failure_view(stored: Any) -> FailureView | None:
    return None if stored is None else msgspec.convert(stored, FailureView)


def _evaluation_fields(evaluation: Evaluation, plan: Plan) -> dict[str, Any]:
    """Return the fields of EvaluationHead that are not stored as they are shown."""
    return {
        "reason": failure_view(evaluation.reason),
        "testset": EvaluationTestset(id=evaluation.testset, name=plan.testset.name, revision=evaluation.revision),
        "repeats": plan.repeats,
        "key": None if evaluation.key is None else format_key_id(evaluation.key),
    }


# Results


def result_row(result: StoredResult, plan: Plan) -> ResultRow:
    return make_view(ResultRow, result, **_result_fields(result, plan, with_details=False))


def cell_event(result: StoredResult, plan: Plan) -> CellEvent:
    return make_view(
        CellEvent,
        result,
        id=format_cell_id(result.cell),
        variant=plan.variants[result.variant].name,
        scores=_score_views(result.scores, with_details=False),
    )


def result_view(detail: ResultDetail, plan: Plan, **neighbours: Any) -> ResultView:
    """Return the full view of a cell; `neighbours` are its fields `repeats`, `others`, `previous` and `next`."""
    result, body = detail.result, cast("dict[str, Any]", detail.body)
    variant = plan.variants[result.variant]
    return make_view(
        ResultView,
        result,
        **_result_fields(result, plan, with_details=True),
        **neighbours,
        inputs=body.get("inputs", {}),
        expected=body.get("expected", UNSET),
        history=body.get("history", ()),
        messages=body.get("messages", ()),
        value=body.get("value", UNSET),
        text=body.get("text", ""),
        notes=body.get("notes", ()),
        tool_calls=body.get("tool_calls", ()),
        turns=[_turn_view(turn) for turn in body["turns"]] if "turns" in body else [_single_turn_view(result, body)],
        is_chat=variant.is_chat,
        is_chat_source=variant.is_chat_source,
    )


def _turn_view(turn: dict[str, Any]) -> TurnView:
    fields: dict[str, Any] = {name: turn[name] for name in TurnView.__struct_fields__ if name in turn}
    return TurnView(**fields, latency_seconds=turn.get("latency"), first_output_seconds=turn.get("first_output"))


def _single_turn_view(result: StoredResult, body: dict[str, Any]) -> TurnView:
    """Return the only turn of a conversation without a script, which is not stored separately."""
    users = [message for message in body.get("history", ()) if message.get("role") == "user"]
    shared = {name: body[name] for name in ("messages", "text", "notes", "tool_calls", "value") if name in body}
    return TurnView(
        **shared,
        user=users[-1] if users else None,
        usage=_usage_dict(result.usage),
        latency_seconds=result.latency,
        first_output_seconds=result.first_output,
        finish=result.finish or "stop",
    )


def _score_views(scores: Sequence[CellScore], *, with_details: bool) -> list[ScoreView]:
    return [
        make_view(
            ScoreView,
            score,
            evaluator=score.name,
            details=(score.details or {}) if with_details else {},
            usage=_usage_dict(score.usage),
        )
        for score in scores
    ]


def _result_fields(result: StoredResult, plan: Plan, *, with_details: bool) -> dict[str, Any]:
    """Return the fields of ResultRow that are not stored as they are shown."""
    return {
        "id": format_cell_id(result.cell),
        "variant": plan.variants[result.variant].name,
        "error": failure_view(result.error),
        "asked": result.preview_in,
        "answered": result.preview_out,
        "latency_seconds": result.latency,
        "first_output_seconds": result.first_output,
        "usage": _usage_dict(result.usage),
        "scores": _score_views(result.scores, with_details=with_details),
    }


def _usage_dict(usage: Any) -> dict[str, Any] | None:
    return None if usage is None else msgspec.to_builtins(usage)
