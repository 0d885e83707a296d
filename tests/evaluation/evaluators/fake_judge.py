"""Make cases from messages, and score them with built-in evaluators."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core import json
from palaver.core.events import FinishReason
from palaver.core.messages import Message, ToolCall
from palaver.core.runs import Reply
from palaver.errors import InvalidValue
from palaver.evaluation.case import Case, Turn, case_with_turns, make_turn
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.score import ScoreRecord


def call(name: str, arguments: Any = "{}", call_id: str = "c") -> ToolCall:
    """A call; arguments other than text are encoded as JSON."""
    text = arguments if isinstance(arguments, str) else json.encode(arguments).decode()
    return ToolCall(call_id=call_id, name=name, arguments=text)


def turn(*messages: Message, finish: FinishReason = "stop", **more: Any) -> Turn:
    reply = Reply(run_id="", messages=messages, finish=finish, usage=more.pop("usage", None))
    return make_turn(reply, is_chat=True, **more)


def chat(*messages: Message, finish: FinishReason = "stop", **more: Any) -> Case:
    """A chat that answered with these messages."""
    return conversation_case(turn(*messages, finish=finish), **more)


def conversation_case(*turns: Turn, **more: Any) -> Case:
    return case_with_turns(Case(**more), turns)


def case_with_calls(*calls: ToolCall, expected: Any = UNSET) -> Case:
    """A chat that answered with one message of tool calls."""
    return chat(Message.assistant(*calls), expected=expected)


async def score_record(
    key: str, case: Case, parameters: dict[str, Any] | None = None, context: EvaluatorContext | None = None
) -> ScoreRecord:
    """The only score of a built-in evaluator."""
    bound = built_in()[key].bind(parameters or {}, context or OfflineContext())
    (scored,) = await bound.score(case)
    return scored


async def score_summary(
    key: str, case: Case, parameters: dict[str, Any] | None = None, context: EvaluatorContext | None = None
) -> tuple[bool | None, float | None, str]:
    """Passed, score and reason."""
    scored = await score_record(key, case, parameters, context)
    return scored.passed, None if scored.score is None else round(scored.score, 4), scored.reason


def bind_error(key: str, parameters: dict[str, Any], context: EvaluatorContext | None = None) -> tuple[str | None, str]:
    """The pointer and message of the error for these parameters."""
    with pytest.raises(InvalidValue) as error:
        built_in()[key].bind(parameters, context or OfflineContext())
    return error.value.pointer, error.value.message
