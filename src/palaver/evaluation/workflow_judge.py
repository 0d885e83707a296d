"""Workflows as judges, called on behalf of the project that asks.

Their runs have the protocol "evaluation", so their output is not stored again with the run, and live evaluators skip
them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import UNSET

from palaver.core.messages import Message
from palaver.core.runs import Call, Origin
from palaver.engine.engine import Engine
from palaver.errors import InvalidValue
from palaver.evaluation.judges.verdict import JudgeAnswer
from palaver.evaluation.runner.call import Prices, WorkflowCaller, describe_error
from palaver.evaluation.score import ScoringError
from palaver.outbound import printable
from palaver.workflows.workflow import Workflow

JUDGE_TIMEOUT_S, JUDGE_RETRIES = 120.0, 2
_PROMPT_INPUT, _SCHEMA_INPUT = "prompt", "schema"


class WorkflowJudge:
    def __init__(
        self, workflow: Workflow, engine: Engine, project: str, key: str | None, prices: Prices | None = None
    ) -> None:
        self._workflow = workflow
        self._calling = WorkflowCaller(engine, timeout=JUDGE_TIMEOUT_S, retries=JUDGE_RETRIES, prices=prices)
        self._origin = Origin(project=project, key=key, protocol="evaluation", background=True)

    async def answer(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> JudgeAnswer:
        """Ask the workflow: a chat gets the messages, others get them as one text."""
        description = self._workflow.description
        if description.is_chat:
            call = Call(workflow=description.name, messages=tuple(messages))
        else:
            call = Call(workflow=description.name, inputs=_judge_inputs(self._workflow, messages, schema))
        answered = (await self._calling.call(self._workflow, call, self._origin)).answer
        if answered.failed is not None:
            raise ScoringError(
                "judge_failed", f"{description.name}: {printable(describe_error(answered.failed)['message'])}"
            )
        text = next((one.text for one in reversed(answered.messages) if one.role == "assistant"), "")
        usage = answered.usage
        value = UNSET if description.is_chat else answered.value
        return JudgeAnswer(text=text, value=value, usage=usage, cost=None if usage is None else usage.cost)


def check_workflow_judge(workflow: Workflow, pointer: str) -> None:
    """Raise InvalidValue for a workflow that is not a chat and has no input for the prompt."""
    if not workflow.description.is_chat and _prompt_input(workflow) is None:
        raise InvalidValue(
            f"{workflow.description.name} cannot judge: it is no chat, and has no input {_PROMPT_INPUT!r}.",
            pointer=pointer,
        )


def _judge_inputs(workflow: Workflow, messages: Sequence[Message], schema: Mapping[str, Any]) -> dict[str, Any]:
    place = _prompt_input(workflow)
    if place is None:
        raise ScoringError("judge_failed", f"{workflow.description.name} has no input for the question")
    prompt = "\n\n".join(message.text for message in messages)
    return {place: prompt} | (
        {_SCHEMA_INPUT: schema} if _SCHEMA_INPUT in _input_names(workflow) and place != _SCHEMA_INPUT else {}
    )


def _prompt_input(workflow: Workflow) -> str | None:
    """The input for the prompt: `prompt`, or the only input."""
    names = _input_names(workflow)
    return _PROMPT_INPUT if _PROMPT_INPUT in names else names[0] if len(names) == 1 else None


def _input_names(workflow: Workflow) -> list[str]:
    properties = workflow.description.schemas.inputs.get("properties")
    return list(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else []
