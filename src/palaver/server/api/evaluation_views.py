"""Evaluations as the REST API shows them: rows and wholes, results, evaluators, and what a stream of one tells."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.descriptions import IsChatSource
from palaver.core.messages import Message
from palaver.evaluation.evaluator import Need
from palaver.evaluation.plan.plan import PlannedEvaluator, PlannedVariant
from palaver.evaluation.plan.request import FailedAs, Limits, WantedEvaluator, WantedRows
from palaver.evaluation.runner.manual_case import TriedCase
from palaver.server.api.conventions import Time

EvaluationState = Literal["queued", "running", "succeeded", "partly", "failed", "cancelled"]
CellStatus = Literal["done", "failed"]
"""Of a cell that is recorded; what is not there is pending, running or, in an evaluation that was ended, cancelled."""
ScoreStatus = Literal["scored", "skipped", "error"]
EvaluatorOrigin = Literal["built_in", "author"]
Which = Literal["failed", "errors", "all"]


class FailureView(msgspec.Struct, frozen=True, kw_only=True):
    """Why something did not come to its end."""

    code: str
    message: str


# Evaluations


class TestsetNamed(msgspec.Struct, frozen=True, kw_only=True):
    """The revision that it runs over."""

    id: str
    name: str
    """As it was called when the evaluation began."""
    revision: int


class EvaluationHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a row of the list and the whole have in common."""

    id: str
    name: str
    state: EvaluationState
    reason: FailureView | None
    """Why it failed."""
    testset: TestsetNamed
    repeats: int
    total: int
    """Cells: rows × variants × repeats."""
    done: int
    """Cells that were answered and scored."""
    failed: int
    """Cells that were not answered."""
    errors: int
    """Scores that an evaluator could not give."""
    cost: float | None
    """Of all calls, in US dollars, as far as it is known."""
    score_cost: float | None
    """Of evaluators that ask models themselves."""
    key: str | None
    created_at: Time
    started_at: Time | None
    ended_at: Time | None


class EvaluationRow(EvaluationHead, frozen=True, kw_only=True):
    """One row of the list."""

    variants: list[str]
    """Their names."""
    evaluators: list[str]
    """Their names."""


class EvaluationView(EvaluationHead, frozen=True, kw_only=True):
    """All of one; its figures and results have routes of their own."""

    variants: Sequence[PlannedVariant]
    """With their parameters, flags and columns, as they were when it began."""
    evaluators: Sequence[PlannedEvaluator]
    rows: int
    """Rows of the test set that it runs over."""
    selection: WantedRows | None
    """How they were chosen; null: all of them."""
    limits: Limits
    failed_as: FailedAs
    seq: int
    """The number of the result that was recorded last; the stream of events goes on after it."""
    updated_at: Time


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What a new one is answered with."""

    id: str
    state: EvaluationState
    total: int


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """Which cells are run once more, in the same evaluation."""

    which: Which = "failed"
    """`failed`: cells that failed or were cancelled; `errors`: those and where an evaluator erred; `all`: every one."""


# Results


class ScoreView(msgspec.Struct, frozen=True, kw_only=True):
    """What one evaluator thought of one cell."""

    evaluator: str
    """Its name in this evaluation; `name.key` for an entry of a mapping that it returned."""
    status: ScoreStatus
    passed: bool | None = None
    score: float | None = None
    label: str | None = None
    reason: str = ""
    """Of one that was skipped or erred it begins with a code."""
    details: Mapping[str, Any] = {}
    seconds: float | None = None
    usage: Mapping[str, Any] | None = None
    cost: float | None = None


class ResultRow(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: a row of the test set, answered by one variant, once."""

    id: str
    """`cell_42`: of this evaluation."""
    row: str
    """The id of the row in the test set."""
    variant: str
    repeat: int
    """From 0."""
    status: CellStatus
    error: FailureView | None
    asked: Any = msgspec.field(name="in")
    """A preview of what was asked."""
    answered: Any = msgspec.field(name="out")
    """A preview of the answer."""
    scores: list[ScoreView]
    """In the order of the evaluators, without details."""
    latency_seconds: float | None
    first_output_seconds: float | None
    usage: Mapping[str, Any] | None
    cost: float | None
    finish: str | None
    attempts: int
    """How often it was tried, at last with this result."""
    trace_id: str | None
    run: str | None
    started_at: Time
    ended_at: Time


class CaseCallView(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was called, and what came of it."""

    call_id: str
    name: str
    arguments: str
    """The exact text."""
    parsed: Any | UnsetType = UNSET
    """No key: it is no JSON."""
    result: Any | UnsetType = UNSET
    is_error: bool = False
    turn: int = 0
    index: int = 0
    """Its place among all calls of the case."""


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a case; a plain case has one."""

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
    """False: the script had stopped before it."""


class ResultView(ResultRow, frozen=True, kw_only=True):
    """All of one cell: what was asked, what was expected and what came, to be shown side by side."""

    inputs: Mapping[str, Any]
    expected: Any | UnsetType = UNSET
    """No key: the row has none."""
    history: Sequence[Message]
    """What was sent."""
    messages: Sequence[Message]
    """What came back, of all turns."""
    value: Any | UnsetType = UNSET
    """A workflow's value; no key for a chat."""
    text: str
    notes: Sequence[str] = ()
    tool_calls: Sequence[CaseCallView] = ()
    turns: Sequence[TurnView]
    is_chat: bool
    is_chat_source: IsChatSource
    repeats: list[str]
    """The ids of this row's cells with the same variant, in the order of repeats, this one among them."""
    others: Mapping[str, str]
    """By the name of every variant, the id of its cell of the same row and repeat."""
    previous: str | None
    """The id of the cell before it, of the same variant and repeat."""
    next: str | None


# Streams


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="progress"):
    """How far it is; at most four times a second."""

    done: int
    failed: int
    errors: int = 0
    total: int
    rate: float | None
    """Cells a second, of the last 200; null before there are two."""
    eta_seconds: float | None
    cost: float | None = None


class CellTold(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cell"):
    """A cell that was recorded."""

    id: str
    row: str
    variant: str
    repeat: int
    status: CellStatus
    scores: list[ScoreView]


class StateTold(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="state"):
    """The evaluation began, or ended."""

    state: EvaluationState
    reason: FailureView | None


EvaluationEvent = Progress | CellTold | StateTold
"""What the stream of an evaluation tells; the name of each server-sent event is its `type`."""


# Evaluators


class EvaluatorView(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator that can be used here."""

    key: str
    title: str
    description: str
    schema: Mapping[str, Any]
    """JSON Schema of its parameters; a form is made from it."""
    needs: list[Need]
    origin: EvaluatorOrigin


class Evaluators(msgspec.Struct, frozen=True):
    """All of them, by key."""

    data: list[EvaluatorView]


class TryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator's parameters, and a case."""

    parameters: dict[str, Any] = {}
    case: TriedCase


class Tried(ScoreView, frozen=True, kw_only=True):
    """What it thought."""

    more: list[ScoreView] = []
    """The others, of one that gives several scores."""


class ImportedView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one evaluator of Agenta's."""

    name: str
    source: str
    """Its key there."""
    evaluator: WantedEvaluator | None
    """As an evaluation takes it; null: nothing here does the same."""
    notes: list[str]
    """What was left out, and why."""
    text: str | None
    """Code that came with it, which is never run."""


class ImportedEvaluators(msgspec.Struct, frozen=True):
    """All of a document."""

    data: list[ImportedView]
