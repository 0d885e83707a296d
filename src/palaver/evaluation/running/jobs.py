"""A job: one evaluation, as a process runs it. A cell is asked, answered, scored, and made into what is kept of it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from palaver.core.calls import Call, Reply
from palaver.core.messages import Message
from palaver.core.origins import Origin
from palaver.errors import BadStream, RequestError
from palaver.evaluation.planning.plans import ROW_BYTES, Plan, PlannedVariant, cell_id, place_of
from palaver.evaluation.running.asking import Asked, asked_of, lack_of
from palaver.evaluation.running.bodies import Redactor
from palaver.evaluation.running.calling import Calling, error_of
from palaver.evaluation.running.outcomes import Calls, Cell, result_of, score_of
from palaver.evaluation.running.playing import Answered, play
from palaver.evaluation.running.trying import reply_of
from palaver.evaluation.scoring.cases import Case, Flags, Turn
from palaver.evaluation.scoring.casing import case_of, last_user, turn_of
from palaver.evaluation.scoring.evaluator import Bound
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Scored, erred
from palaver.storage.evaluations.results import NewResult, NewScore, StopConditions
from palaver.testsets.rows import format_row_id
from palaver.traces.facts import NO_PARENT
from palaver.workflows.workflow import Workflow

SCORING = 5
"""How many times as long as a call an evaluator may take: it may ask a model itself, and ask again."""


class Unbound(NamedTuple):
    """An evaluator that this process does not have, or that takes its parameters no longer."""

    name: str
    why: str
    needs: frozenset[str] = frozenset()

    async def score(self, case: Case) -> list[Scored]:  # noqa: ARG002 - whatever the case
        """It cannot say anything of any case."""
        return [erred(self.name, f"evaluator_unknown: {self.why}")]


class Failed(Exception):
    """The cell has no answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


class Job:
    """What all cells of an evaluation share."""

    def __init__(
        self,
        project: str,
        evaluation: str,
        plan: Plan,
        rows: bytes,
        *,
        key: str | None,
        calling: Calling,
        find: Callable[[str], Workflow],
        evaluators: Sequence[Bound | Unbound],
        reach: Reach,
        redact: Callable[[str, str | None], Redactor | None] | None,
        now: Callable[[], datetime],
    ) -> None:
        self.of = project, evaluation
        self.plan = plan
        self.stops = stops_of(plan, len(rows) // ROW_BYTES)
        self._rows = rows
        self._key = key
        self._calling = calling
        self._find = find
        self._evaluators = evaluators
        self._wants_events = any("events" in one.needs for one in evaluators)
        self._reach = reach
        self._redact = redact
        self._now = now

    def hash_of(self, cell: int) -> bytes:
        """The hash of the content of a cell's row."""
        return self._row(cell)[ROW_BYTES // 2 :]

    def _row(self, cell: int) -> bytes:
        at = place_of(self.plan, cell).row * ROW_BYTES
        return self._rows[at : at + ROW_BYTES]

    async def run(self, cell: int, content: bytes | None) -> NewResult:
        """What the cell comes to. Only being cancelled, and GivenUp, are raised."""
        one = Cell(cell, place_of(self.plan, cell), format_row_id(self._row(cell)[: ROW_BYTES // 2]), self._now())
        variant = self.plan.variants[one.place.variant]
        case = Case(id=cell_id(cell), row_id=one.row, variant=variant.name, repeat=one.place.repeat)
        called = Calls()
        error: Mapping[str, Any] | None = None
        scores: list[NewScore] = []
        try:
            case = await self._case(case, variant, content, called)
            error = called.error
            if error is None:
                scores = await self._scored(case)
        except Failed as failed:
            error = failed.error
        except (RequestError, BadStream) as failed:
            error = {"code": failed.code, "message": failed.message}
        return self._kept(one, case, called, error, scores)

    def broken(self, cell: int, code: str, message: str) -> NewResult:
        """The result of a cell that could not be run."""
        one = Cell(cell, place_of(self.plan, cell), format_row_id(self._row(cell)[: ROW_BYTES // 2]), self._now())
        case = Case(id=cell_id(cell), row_id=one.row, variant=self.plan.variants[one.place.variant].name)
        return self._kept(one, case, Calls(), {"code": code, "message": message}, [])

    # One cell

    async def _case(self, case: Case, variant: PlannedVariant, content: bytes | None, calls: Calls) -> Case:
        if content is None:
            raise Failed("row_gone", "The row's content is not in the test set any more.")
        asked = asked_of(msgspec.json.decode(content), variant)
        flags = Flags(variant.is_chat, variant.is_chat_source)
        if variant.workflow is None:
            turns: Sequence[Turn] = [_recorded(asked, variant)]
            history = asked.history
        else:
            turns, history = await self._answered(case, asked, variant, calls)
        return case_of(
            turns=turns,
            flags=flags,
            id=case.id,
            row_id=case.row_id,
            variant=case.variant,
            repeat=case.repeat,
            row=asked.row,
            inputs=asked.inputs,
            expected=asked.expected,
            history=history,
            events=calls.events if self._wants_events else None,
            trace_id=calls.trace_id,
            script=asked.script,
        )

    async def _answered(
        self, case: Case, asked: Asked, variant: PlannedVariant, calls: Calls
    ) -> tuple[Sequence[Turn], tuple[Message, ...]]:
        if variant.is_chat and (lack := lack_of(asked, variant.map)) is not None:
            raise Failed("no_messages", f"The row has nothing to say: {lack}. Fill it in, or leave the row out.")
        workflow = self._find(variant.workflow or "")

        async def answer(history: tuple[Message, ...]) -> Answered:
            return await self._call(case, workflow, variant, history, asked.inputs, calls)

        if asked.script is None:
            answered = await answer(asked.history)
            return [_turn(answered, asked.history, is_chat=variant.is_chat)], asked.history

        async def play_user(name: str, history: tuple[Message, ...]) -> Answered:
            simulated = PlannedVariant(name=name, workflow=name, is_chat=True)
            return await self._call(case, self._find(name), simulated, history, {}, calls)

        played = await play(asked.script, answer, self._reach, play_user=play_user, is_chat=variant.is_chat)
        if played.failed is not None:
            calls.error = error_of(played.failed)
        return played.turns, asked.script.start

    async def _call(
        self,
        case: Case,
        workflow: Workflow,
        variant: PlannedVariant,
        history: tuple[Message, ...],
        inputs: Mapping[str, Any],
        calls: Calls,
    ) -> Answered:
        """One call, in the same session and trace as the others of its cell."""
        project, evaluation = self.of
        call = Call(
            workflow=workflow.description.name,
            messages=history,
            inputs=inputs,
            parameters=variant.parameters,
            session=f"{evaluation}.{case.id}",
            trace_parent=None if calls.trace_id is None else f"00-{calls.trace_id}-{NO_PARENT}-01",
        )
        origin = Origin(project=project, key=self._key, protocol="evaluation", background=True, variant=variant.variant)
        called = await self._calling.call(workflow, call, origin)
        calls.note(called, keeps_events=self._wants_events)
        return called.answered

    async def _scored(self, case: Case) -> list[NewScore]:
        scores: dict[tuple[int, str], NewScore] = {}
        for place, one in enumerate(self._evaluators):
            for scored in await self._said(one, case):
                scores.setdefault((place, scored.evaluator), score_of(place, scored))
        return list(scores.values())

    async def _said(self, one: Bound | Unbound, case: Case) -> list[Scored]:
        """What an evaluator says, if it says so before the evaluation would wait for ever."""
        seconds = self.plan.limits.timeout * SCORING
        try:
            async with asyncio.timeout(seconds):
                return await one.score(case)
        except TimeoutError:
            return [erred(one.name, f"evaluator_timeout: it took longer than {seconds:g} seconds", seconds=seconds)]

    def _kept(
        self, one: Cell, case: Case, calls: Calls, error: Mapping[str, Any] | None, scores: Sequence[NewScore]
    ) -> NewResult:
        workflow = self.plan.variants[one.place.variant].workflow
        redactor = None if self._redact is None else self._redact(self.of[0], workflow)
        return result_of(one, case, calls, error, scores, redactor=redactor, ended_at=self._now())


def stops_of(plan: Plan, rows: int) -> StopConditions:
    """When an evaluation of so many rows has had enough."""
    total, limits = rows * len(plan.variants) * plan.repeats, plan.limits
    most_failed = int(limits.max_errors * total) if limits.max_errors < 1 else None
    return StopConditions(most_failed=most_failed, most_cost=limits.max_cost)


def _recorded(asked: Asked, variant: PlannedVariant) -> Turn:
    """The turn of an answer that stands in the row."""
    value = asked.row.get(variant.column or "", UNSET)
    if value is UNSET:
        raise Failed("no_answer", f"The row has nothing in the column {variant.column!r}.")
    reply = reply_of(value, is_chat=variant.is_chat, history=asked.history)
    return turn_of(reply, is_chat=variant.is_chat, user=last_user(asked.history))


def _turn(answered: Answered, history: Sequence[Message], *, is_chat: bool) -> Turn:
    reply = Reply(
        run_id="",
        messages=answered.messages,
        value=answered.value,
        usage=answered.usage,
        finish=answered.finish,
    )
    return turn_of(
        reply,
        is_chat=is_chat,
        user=last_user(history),
        latency=answered.latency,
        first_output=answered.first_output,
    )
