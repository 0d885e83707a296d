"""Write the results of a slice in batches, at most a tenth of a second late."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from palaver.core import json
from palaver.core.extraction import preview, preview_messages
from palaver.core.messages import Message
from palaver.errors import PalaverError
from palaver.evaluation.case import Case, CaseToolCall, Turn, last_user_message
from palaver.evaluation.plan.plan import CellPosition
from palaver.evaluation.runner.call import CallResult
from palaver.evaluation.score import ScoreRecord
from palaver.storage.database import Database
from palaver.storage.evaluations import results
from palaver.storage.evaluations.results import CellScore, NewResult, RecordOutcome, StopConditions, compress_result
from palaver.storage.evaluations.slices import Slice

log = logging.getLogger("palaver.evaluation")

BATCH_DELAY_S = 0.05
"""Seconds before a batch is written: half of the maximum delay, which leaves the other half for the write."""
RETRY_INTERVAL_S = 1.0


@dataclass(eq=False, repr=False)
class ResultWriter:
    """Buffers results of a slice until they are stored."""

    database: Database
    process: str
    slice_: Slice
    stop_conditions: StopConditions
    _: KW_ONLY
    now: Callable[[], datetime]
    on_recorded: Callable[[RecordOutcome], None]
    delay: float = BATCH_DELAY_S
    _retries_writes: bool = field(default=True, init=False)
    _pending: list[NewResult] = field(default_factory=list[NewResult], init=False)
    _write_task: asyncio.Task[None] | None = field(default=None, init=False)

    def add(self, result: NewResult) -> None:
        self._pending.append(result)
        if self._write_task is None:
            self._write_task = asyncio.get_running_loop().create_task(self._write_pending())

    async def flush(self, *, retry: bool = True) -> None:
        """Wait until all results are stored. Without `retry`, give up if the database is unavailable."""
        self.delay, self._retries_writes = 0, retry
        while self._write_task is not None:
            await asyncio.wait([self._write_task])

    def discard(self) -> None:
        """Discard the buffer: the slice belongs to another process."""
        self._pending.clear()

    async def _write_pending(self) -> None:
        try:
            while self._pending:
                await asyncio.sleep(self.delay)
                batch, self._pending = self._pending, []
                if batch and not await self._write(batch):
                    if not self._retries_writes:
                        return
                    self._pending = batch + self._pending
                    await asyncio.sleep(RETRY_INTERVAL_S)
        finally:
            self._write_task = None

    async def _write(self, batch: list[NewResult]) -> bool:
        """Store results; False if the database is unavailable."""
        try:
            outcome = await self.database.write(
                results.record_results, self.process, self.slice_, batch, self.stop_conditions, self.now()
            )
        except PalaverError as error:
            log.warning("Failed to write results, retrying: %s", error.message)
            return False
        self.on_recorded(outcome)
        return True


_MAX_SEARCH_LENGTH = 10_000
"""Characters of input and output that are searchable."""


class CaseRedactor(Protocol):
    """Removes data that must not be stored."""

    def redact_mapping(self, inputs: Mapping[str, Any], field: str = "inputs") -> Mapping[str, Any]: ...

    def redact_messages(self, messages: Sequence[Message], field: str = "messages_in") -> Sequence[Message]: ...

    def redact_value(self, value: Any, field: str = "inputs") -> Any: ...


def redact_case(case: Case, redactor: CaseRedactor) -> Case:
    """Redact a scored case. Inputs go first: values removed from them are also removed from the outputs."""
    return msgspec.structs.replace(
        case,
        inputs=dict(redactor.redact_mapping(case.inputs)),
        history=tuple(redactor.redact_messages(case.history)),
        expected=case.expected if case.expected is UNSET else redactor.redact_value(case.expected, "outputs"),
        messages=tuple(redactor.redact_messages(case.messages, "messages_out")),
        text=redact_text(case.text, redactor),
        tool_calls=tuple(_redact_call(call, redactor) for call in case.tool_calls),
        value=case.value if case.value is UNSET else redactor.redact_value(case.value, "outputs"),
        turns=tuple(_redact_turn(turn, redactor) for turn in case.turns),
    )


def redact_text(text: str, redactor: CaseRedactor) -> str:
    redacted = redactor.redact_value(text, "outputs") if text else text
    return redacted if isinstance(redacted, str) else ""


def _redact_turn(turn: Turn, redactor: CaseRedactor) -> Turn:
    return msgspec.structs.replace(
        turn,
        user=None if turn.user is None else redactor.redact_messages([turn.user])[0],
        messages=tuple(redactor.redact_messages(turn.messages, "messages_out")),
        text=redact_text(turn.text, redactor),
        tool_calls=tuple(_redact_call(call, redactor) for call in turn.tool_calls),
        value=turn.value if turn.value is UNSET else redactor.redact_value(turn.value, "outputs"),
    )


def _redact_call(call: CaseToolCall, redactor: CaseRedactor) -> CaseToolCall:
    return msgspec.structs.replace(
        call,
        arguments=redact_text(call.arguments, redactor),
        parsed=call.parsed if call.parsed is UNSET else redactor.redact_value(call.parsed, "outputs"),
        result=call.result if call.result is UNSET else redactor.redact_value(call.result, "outputs"),
    )


def _encode_case(case: Case) -> dict[str, Any]:
    body: dict[str, Any] = {"inputs": case.inputs, "history": case.history, "messages": case.messages}
    body |= {"text": case.text, "notes": sorted(case.notes), "tool_calls": case.tool_calls}
    if case.value is not UNSET:
        body["value"] = case.value
    if case.expected is not UNSET:
        body["expected"] = case.expected
    if len(case.turns) > 1 or case.script is not None:
        body["turns"] = [_encode_turn(turn) for turn in case.turns]
    return body


def _encode_turn(turn: Turn) -> Mapping[str, Any]:
    fields = {**msgspec.structs.asdict(turn), "notes": sorted(turn.notes)}
    return {name: value for name, value in fields.items() if value is not UNSET and name != "verdict"}


def _encode_text(value: Any) -> str:
    return json.encode(value).decode()


class CellInfo(NamedTuple):
    cell: int
    position: CellPosition
    row: str
    started_at: datetime


class CellCalls:
    def __init__(self) -> None:
        self.run: str | None = None
        self.trace_id: str | None = None
        self.attempts = 1
        self.error: Mapping[str, Any] | None = None
        self.events: list[Any] = []

    def add(self, result: CallResult, *, keep_events: bool) -> None:
        """Add the result of a call. The cell links to the run and trace of the first call."""
        self.run = self.run or result.run
        self.trace_id = self.trace_id or result.trace_id
        self.attempts += result.attempts - 1
        self.error = result.answer.error
        if keep_events:
            self.events += result.answer.events


def make_result(
    info: CellInfo,
    case: Case,
    calls: CellCalls,
    error: Mapping[str, Any] | None,
    scores: Sequence[CellScore],
    *,
    redactor: CaseRedactor | None,
    ended_at: datetime,
) -> NewResult:
    """Make the result of a cell for storage; it is redacted here, after scoring."""
    if redactor is not None:
        case = redact_case(case, redactor)
        scores = [_redact_score(score, redactor) for score in scores]
    value = None if case.value is UNSET else case.value
    user = last_user_message(case.history)
    question = user.text if user is not None else _encode_text(case.inputs)
    answer = case.text or ("" if value is None else _encode_text(value))
    return NewResult(
        cell=info.cell,
        row=info.row,
        variant=info.position.variant,
        repeat=info.position.repeat,
        status="done" if error is None else "failed",
        error=error,
        latency=case.latency if calls.run is not None else None,
        first_output=case.first_output,
        usage=case.usage,
        cost=None if case.usage is None else case.usage.cost,
        finish=case.finish if case.turns else None,
        attempts=calls.attempts,
        trace_id=calls.trace_id,
        run=calls.run,
        started_at=info.started_at,
        ended_at=max(ended_at, info.started_at),
        preview_in=preview_messages(case.history, "input") if case.history else preview(case.inputs, "input"),
        preview_out=preview_messages(case.messages, "output") if case.messages else preview(value, "output"),
        words=f"{question[:_MAX_SEARCH_LENGTH]}\n{answer[:_MAX_SEARCH_LENGTH]}",
        body=compress_result(_encode_case(case)),
        scores=scores,
    )


def make_score(index: int, record: ScoreRecord) -> CellScore:
    """Make a score for storage. `index` is the evaluator's index in the plan."""
    fields = msgspec.structs.asdict(record)
    return CellScore(name=fields.pop("evaluator"), evaluator=index, **fields)


def _redact_score(score: CellScore, redactor: CaseRedactor) -> CellScore:
    """Redact the texts of a score: reasons and details may quote the conversation."""
    return msgspec.structs.replace(
        score,
        label=None if score.label is None else redact_text(score.label, redactor),
        reason=redact_text(score.reason, redactor),
        details=redactor.redact_mapping(score.details or {}, "outputs"),
    )
