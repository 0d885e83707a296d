"""Cases made of messages, and what an evaluator says of them."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.core import json
from palaver.core.events import FinishReason
from palaver.core.messages import Message, ToolCall
from palaver.core.runs import Reply
from palaver.errors import InvalidValue
from palaver.evaluation.case import Case, Flags, Turn, make_case, make_turn
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.score import ScoreRecord


def call(name: str, arguments: Any = "{}", call_id: str = "c") -> ToolCall:
    """A call; arguments that are no text become their JSON."""
    text = arguments if isinstance(arguments, str) else json.encode(arguments).decode()
    return ToolCall(call_id=call_id, name=name, arguments=text)


def turn(*messages: Message, finish: FinishReason = "stop", **more: Any) -> Turn:
    reply = Reply(run_id="", messages=messages, finish=finish, usage=more.pop("usage", None))
    return make_turn(reply, is_chat=True, **more)


def chat(*messages: Message, finish: FinishReason = "stop", **more: Any) -> Case:
    """A chat that answered with these messages."""
    return talk(turn(*messages, finish=finish), **more)


def talk(*turns: Turn, **more: Any) -> Case:
    return make_case(turns=turns, flags=Flags(), **more)


def called(*calls: ToolCall, expected: Any = UNSET) -> Case:
    """A chat that answered with one message of calls."""
    return chat(Message.assistant(*calls), expected=expected)


async def asked(
    key: str, case: Case, parameters: dict[str, Any] | None = None, context: EvaluatorContext | None = None
) -> ScoreRecord:
    """What the built-in evaluator says."""
    bound = built_in()[key].bind(parameters or {}, context or OfflineContext())
    (scored,) = await bound.score(case)
    return scored


async def told(
    key: str, case: Case, parameters: dict[str, Any] | None = None, context: EvaluatorContext | None = None
) -> tuple[bool | None, float | None, str]:
    """Passed, score and reason."""
    scored = await asked(key, case, parameters, context)
    return scored.passed, None if scored.score is None else round(scored.score, 4), scored.reason


def refused(key: str, parameters: dict[str, Any], context: EvaluatorContext | None = None) -> tuple[str | None, str]:
    """Where and why these parameters are refused."""
    with pytest.raises(InvalidValue) as error:
        built_in()[key].bind(parameters, context or OfflineContext())
    return error.value.pointer, error.value.message
