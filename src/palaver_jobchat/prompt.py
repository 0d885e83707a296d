"""What the model is sent, as plain values of Anthropic's Messages API.

What changes most often stands last, so that everything before it can be cached: our own words, the adaptor, the docs,
the conversation, and only then the job as it is now and the question. What others wrote stands in elements that it
cannot close itself.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, cast

import msgspec

from palaver_jobchat.adaptors.folder import AdaptorDocs
from palaver_jobchat.adaptors.selection import Selection
from palaver_jobchat.docs.search import SearchResult
from palaver_jobchat.payload import JobContext, Payload, Turn
from palaver_jobchat.system_prompt import ANSWERS, EDIT_JOB, PRIMER, ROLE, RULES

Kind = Literal["adaptor", "docs", "job", "input", "output", "log"]
OPENING = "(earlier conversation)"
"""A model's conversation begins with the user; this stands for what we were not shown."""
HIDDEN = "[hidden]"

_CACHED = {"cache_control": {"type": "ephemeral"}}
_OWN = {mode: f"{ROLE}\n\n{RULES}\n\n{PRIMER}\n\n{answers}" for mode, answers in ANSWERS.items()}
"""Our own words."""


class Prompt(msgspec.Struct, frozen=True):
    """The parts of one request that say what to answer."""

    system: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


def build_prompt(
    payload: Payload,
    *,
    docs: AdaptorDocs | None = None,
    choice: Selection | None = None,
    found: Sequence[SearchResult] = (),
) -> Prompt:
    """The prompt for a payload, with what is known about its adaptor and what a search found."""
    blocks = [
        _OWN[payload.mode],
        "" if docs is None else _adaptor(docs, choice),
        "\n\n".join(_retrieved(choice, found)),
    ]
    return Prompt(
        system=[_text(block) | _CACHED for block in blocks if block],
        messages=[*_conversation(payload.history), {"role": "user", "content": _question(payload)}],
        tools=[EDIT_JOB] if payload.mode == "edits" else [],
    )


def element(kind: Kind, content: str) -> str:
    """Somebody's text, between marks made of itself: it cannot hold its own end, and equal text gives equal bytes."""
    mark = f"data-{sha256(content.encode(errors='surrogatepass')).hexdigest()[:12]}"
    return f'<{mark} kind="{kind}">{content}</{mark}>'


def redact_configuration(text: str) -> str:
    """A job's input or output without the values of its configuration, which are a credential's."""
    try:
        value = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text
    if not isinstance(value, dict):
        return text
    state = cast("dict[str, Any]", value)
    configuration = state.get("configuration")
    if configuration is None:
        return text
    is_object = isinstance(configuration, dict)
    hidden = dict.fromkeys(cast("dict[str, Any]", configuration), HIDDEN) if is_object else HIDDEN
    return msgspec.json.encode({**state, "configuration": hidden}).decode()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _adaptor(docs: AdaptorDocs, choice: Selection | None) -> str:
    named = docs.adaptor.name + (f" {docs.version}" if docs.version else "")
    start = f"The job's adaptor is {named}."
    if docs.state == "missing" or choice is None or not (choice.full or choice.signatures):
        return f"{start} Its functions are not known here: say so when the answer depends on them."
    if docs.state == "nearest":
        start += f" What follows describes version {docs.docs_version}, the nearest known: details may differ."
    if choice.is_whole:
        return _listed(f"{start} Its functions; those of namespaces may be missing:", choice.text)
    return _listed(f"{start} The signatures of its functions; those of namespaces may be missing:", choice.signatures)


@lru_cache(maxsize=32)
def _listed(start: str, text: str) -> str:
    """What an adaptor can do. Many chats at once are about few adaptors: they share one text, which is long."""
    return f"{start}\n{element('adaptor', text)}"


def _retrieved(choice: Selection | None, found: Sequence[SearchResult]) -> Iterator[str]:
    if choice is not None and not choice.is_whole and choice.full:
        yield f"More about some of the adaptor's functions:\n{element('adaptor', choice.text)}"
    if found:
        pieces = (element("docs", _piece(one)) for one in found)
        yield "\n".join(("From the documentation, which may or may not be to the point:", *pieces))


def _piece(found: SearchResult) -> str:
    heading = " > ".join(part for part in (found.title, found.section) if part)
    return f"{heading}\n\n{found.text}" if heading else found.text


def _conversation(history: Sequence[Turn]) -> list[dict[str, Any]]:
    turns = [turn for turn in history if turn.said.strip()]
    if turns and turns[0].role == "assistant":
        turns.insert(0, Turn("user", OPENING))
    messages: list[dict[str, Any]] = [{"role": turn.role, "content": [_text(turn.said)]} for turn in turns]
    if messages:
        messages[-1]["content"] = [messages[-1]["content"][0] | _CACHED]
    return messages


def _question(payload: Payload) -> list[dict[str, Any]]:
    about = "\n\n".join(_job(payload.context))
    return [_text(about), _text(payload.question)]


def _job(context: JobContext) -> Iterator[str]:
    if context.expression is not None and context.expression.strip():
        yield f"The job's code now:\n{element('job', context.expression)}"
    else:
        yield "The job has no code yet."
    given: tuple[tuple[str, Kind, str | None], ...] = (
        ("The input of its last run:", "input", context.input and redact_configuration(context.input)),
        ("The output of its last run:", "output", context.output and redact_configuration(context.output)),
        ("The log of its last run:", "log", context.log),
    )
    for title, kind, text in given:
        if text and text.strip():
            yield f"{title}\n{element(kind, text)}"
