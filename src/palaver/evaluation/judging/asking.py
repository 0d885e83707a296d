"""Judging: a model is asked for a verdict, which must be JSON that fits a schema; if it does not, it is asked again.

Who answers, a provider's model or a workflow, is a Model. What is asked is made elsewhere (prompting.py).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import jsons
from palaver.core.messages import Message
from palaver.core.usage import Usage
from palaver.evaluation.matching.json_schemas import misfits
from palaver.evaluation.scoring.scores import Unscored
from palaver.evaluation.scoring.spending import spend
from palaver.evaluation.values import found_json
from palaver.outbound import printable

RETRIES: Final = 2
"""How often a judge is asked again whose answer does not fit."""
_LONGEST: Final = 20_000
"""Characters of an answer that does not fit that the judge is shown again."""

Schema = Mapping[str, Any]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model said, and what that took."""

    text: str = ""
    value: Any | UnsetType = UNSET
    """Where it gave a value instead of text."""
    usage: Usage | None = None
    cost: float | None = None


class Model(Protocol):
    """Whoever can be asked for a verdict."""

    async def answer(self, messages: Sequence[Message], schema: Schema) -> Answer:
        """What it says to these messages. Unscored where it cannot be reached, or fails."""
        ...


async def verdict(model: Model, prompt: str, schema: Schema, *, retries: int = RETRIES) -> Any:
    """What the model finds. Every answer is paid for, also one that does not fit."""
    messages = [Message.system(_told(schema)), Message.user(prompt)]
    faults: list[str] = []
    for _ in range(retries + 1):
        answer = await model.answer(messages, schema)
        spend(answer.usage, answer.cost)
        value = found_json.found(answer.text) if answer.value is UNSET else answer.value
        if isinstance(value, str) and answer.value is not UNSET:
            value = found_json.found(value)
        # In a thread: a schema of the caller's may take its time.
        faults = ["it is not JSON"] if value is UNSET else await asyncio.to_thread(misfits, value, schema)
        if not faults:
            return value
        messages += [Message.assistant(_again(answer)), Message.user(_asked_again(faults))]
    raise Unscored("bad_verdict", f"the judge's answer does not fit: {printable('; '.join(faults))}")


def _told(schema: Schema) -> str:
    return (
        "You are a judge. Judge only by what you are asked, and give no other help.\n"
        "Answer with one JSON value that fits this JSON Schema, and with nothing else, no words around it:\n"
        f"{jsons.encode(jsons.plain(schema)).decode()}"
    )


def _again(answer: Answer) -> str:
    text = answer.text if answer.value is UNSET else jsons.encode(jsons.plain(answer.value)).decode()
    return text[:_LONGEST] or "(nothing)"


def _asked_again(faults: Sequence[str]) -> str:
    return (
        f"That answer cannot be used: {'; '.join(faults)}.\n"
        "Answer the same question again, with one JSON value that fits the schema and with nothing else."
    )
