"""Evaluations and their results, from how they are kept to how they are shown."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET

from palaver.core.api_keys import format_key_id
from palaver.evaluation.plan.plan import Plan, format_cell_id
from palaver.server.api.conventions import told_time
from palaver.server.api.evaluation_views import (
    CellTold,
    EvaluationRow,
    EvaluationView,
    FailureView,
    ResultRow,
    ResultView,
    ScoreView,
    StateTold,
    TestsetNamed,
    TurnView,
)
from palaver.storage.evaluations.repository import Evaluation
from palaver.storage.evaluations.results import ResultDetail, StoredResult, StoredScore


def plan_of(kept: Any) -> Plan:
    """A plan, as it was made."""
    return msgspec.convert(kept, Plan)


def row(evaluation: Evaluation, plan: Plan) -> EvaluationRow:
    """One as a row of the list."""
    return EvaluationRow(
        **_common(evaluation, plan),
        variants=[variant.name for variant in plan.variants],
        evaluators=[evaluator.name for evaluator in plan.evaluators],
    )


def view(evaluation: Evaluation, plan: Plan) -> EvaluationView:
    """One as a whole."""
    return EvaluationView(
        **_common(evaluation, plan),
        variants=plan.variants,
        evaluators=plan.evaluators,
        rows=evaluation.total // max(len(plan.variants) * plan.repeats, 1),
        selection=plan.testset.rows,
        limits=plan.limits,
        failed_as=plan.failed_as,
        seq=evaluation.recorded,
        updated_at=told_time(evaluation.updated_at),
    )


def state(evaluation: Evaluation) -> StateTold:
    """How it goes, as its stream tells."""
    return StateTold(state=evaluation.state, reason=failure(evaluation.reason))


def failure(kept: Any) -> FailureView | None:
    """Why something ended as it did."""
    return None if kept is None else msgspec.convert(kept, FailureView)


def _common(evaluation: Evaluation, plan: Plan) -> dict[str, Any]:
    return {
        "id": evaluation.id,
        "name": evaluation.name,
        "state": evaluation.state,
        "reason": failure(evaluation.reason),
        "testset": TestsetNamed(id=evaluation.testset, name=plan.testset.name, revision=evaluation.revision),
        "repeats": plan.repeats,
        "total": evaluation.total,
        "done": evaluation.done,
        "failed": evaluation.failed,
        "errors": evaluation.errors,
        "cost": evaluation.cost,
        "score_cost": evaluation.score_cost,
        "key": None if evaluation.key is None else format_key_id(evaluation.key),
        "created_at": told_time(evaluation.created_at),
        "started_at": None if evaluation.started_at is None else told_time(evaluation.started_at),
        "ended_at": None if evaluation.ended_at is None else told_time(evaluation.ended_at),
    }


# Results


def result_row(result: StoredResult, plan: Plan) -> ResultRow:
    """A cell as a row of the table."""
    return ResultRow(**result_fields(result, plan), scores=scores(result.scores, whole=False))


def cell(result: StoredResult, plan: Plan) -> CellTold:
    """A cell as the stream tells of it."""
    return CellTold(
        id=format_cell_id(result.cell),
        row=result.row,
        variant=plan.variants[result.variant].name,
        repeat=result.repeat,
        status=result.status,
        scores=scores(result.scores, whole=False),
    )


def result_view(whole: ResultDetail, plan: Plan, **beside: Any) -> ResultView:
    """A cell as a whole; `beside` are the ids of those that one looks at next."""
    result, body = whole.result, cast("dict[str, Any]", whole.body)
    variant = plan.variants[result.variant]
    return ResultView(
        **result_fields(result, plan),
        **beside,
        scores=scores(result.scores, whole=True),
        inputs=body.get("inputs", {}),
        expected=body.get("expected", UNSET),
        history=body.get("history", ()),  # They are shown in the form in which they are kept.
        messages=body.get("messages", ()),
        value=body.get("value", UNSET),
        text=body.get("text", ""),
        notes=body.get("notes", ()),
        tool_calls=body.get("tool_calls", ()),
        turns=[_turn(turn) for turn in body["turns"]] if "turns" in body else [_only_turn(result, body)],
        is_chat=variant.is_chat,
        is_chat_source=variant.is_chat_source,
    )


def _turn(kept: dict[str, Any]) -> TurnView:
    fields: dict[str, Any] = {name: kept[name] for name in TurnView.__struct_fields__ if name in kept}
    return TurnView(**fields, latency_seconds=kept.get("latency"), first_output_seconds=kept.get("first_output"))


def _only_turn(result: StoredResult, body: dict[str, Any]) -> TurnView:
    """The turn of a case that is no script: it is not kept twice."""
    users = [message for message in body.get("history", ()) if message.get("role") == "user"]
    same = {name: body[name] for name in ("messages", "text", "notes", "tool_calls", "value") if name in body}
    return TurnView(
        **same,
        user=users[-1] if users else None,
        usage=_plain(result.usage),
        latency_seconds=result.latency,
        first_output_seconds=result.first_output,
        finish=result.finish or "stop",
    )


def scores(kept: Sequence[StoredScore], *, whole: bool) -> list[ScoreView]:
    """What evaluators thought; `whole`: with what they say in detail."""
    return [
        ScoreView(
            evaluator=score.name,
            status=score.status,
            passed=score.passed,
            score=score.score,
            label=score.label,
            reason=score.reason,
            details=(score.details or {}) if whole else {},
            seconds=score.seconds,
            usage=_plain(score.usage),
            cost=score.cost,
        )
        for score in kept
    ]


def result_fields(result: StoredResult, plan: Plan) -> dict[str, Any]:
    """What a row and the whole of a cell have in common, but for its scores."""
    return {
        "id": format_cell_id(result.cell),
        "row": result.row,
        "variant": plan.variants[result.variant].name,
        "repeat": result.repeat,
        "status": result.status,
        "error": failure(result.error),
        "asked": result.preview_in,
        "answered": result.preview_out,
        "latency_seconds": result.latency,
        "first_output_seconds": result.first_output,
        "usage": _plain(result.usage),
        "cost": result.cost,
        "finish": result.finish,
        "attempts": result.attempts,
        "trace_id": result.trace_id,
        "run": result.run,
        "started_at": told_time(result.started_at),
        "ended_at": told_time(result.ended_at),
    }


def _plain(usage: Any) -> dict[str, Any] | None:
    return None if usage is None else msgspec.to_builtins(usage)
