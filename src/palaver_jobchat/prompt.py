"""Build the prompt, as plain values of Anthropic's Messages API.

Parts are ordered by how often they change, so that the provider can cache a prefix: instructions, adaptor, docs,
conversation, and last the current job and the question. Untrusted text is wrapped in elements that it cannot close.
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
"""Inserted when the history starts with the assistant: the API requires a user turn first."""
HIDDEN = "[hidden]"

_CACHED = {"cache_control": {"type": "ephemeral"}}
_INSTRUCTIONS = {mode: f"{ROLE}\n\n{RULES}\n\n{PRIMER}\n\n{answers}" for mode, answers in ANSWERS.items()}


class Prompt(msgspec.Struct, frozen=True):
    """The content of one request to the model."""

    system: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]


def build_prompt(
    payload: Payload,
    *,
    docs: AdaptorDocs | None = None,
    selection: Selection | None = None,
    results: Sequence[SearchResult] = (),
) -> Prompt:
    """Return the prompt for a payload, its adaptor's docs and the search results."""
    blocks = [
        _INSTRUCTIONS[payload.mode],
        "" if docs is None else _adaptor(docs, selection),
        "\n\n".join(_retrieved(selection, results)),
    ]
    return Prompt(
        system=[_text(block) | _CACHED for block in blocks if block],
        messages=[*_conversation(payload.history), {"role": "user", "content": _question(payload)}],
        tools=[EDIT_JOB] if payload.mode == "edits" else [],
    )


def element(kind: Kind, content: str) -> str:
    """Wrap untrusted text in a tag derived from its hash: the text cannot contain its own end tag.

    Equal text gives equal bytes, so that prompts stay cacheable.
    """
    mark = f"data-{sha256(content.encode(errors='surrogatepass')).hexdigest()[:12]}"
    return f'<{mark} kind="{kind}">{content}</{mark}>'


def redact_configuration(text: str) -> str:
    """Hide the values of `configuration` in a job's input or output: they are credentials."""
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


def _adaptor(docs: AdaptorDocs, selection: Selection | None) -> str:
    named = docs.adaptor.name + (f" {docs.version}" if docs.version else "")
    start = f"The job's adaptor is {named}."
    if docs.state == "missing" or selection is None or not (selection.full or selection.signatures):
        return f"{start} Its functions are not known here: say so when the answer depends on them."
    if docs.state == "nearest":
        start += f" What follows describes version {docs.docs_version}, the nearest known: details may differ."
    if selection.is_whole:
        return _adaptor_text(f"{start} Its functions; those of namespaces may be missing:", selection.text)
    return _adaptor_text(
        f"{start} The signatures of its functions; those of namespaces may be missing:", selection.signatures
    )


@lru_cache(maxsize=32)
def _adaptor_text(start: str, text: str) -> str:
    """Return the text about an adaptor. Cached because it is long, and many chats share few adaptors."""
    return f"{start}\n{element('adaptor', text)}"


def _retrieved(selection: Selection | None, results: Sequence[SearchResult]) -> Iterator[str]:
    if selection is not None and not selection.is_whole and selection.full:
        yield f"More about some of the adaptor's functions:\n{element('adaptor', selection.text)}"
    if results:
        pieces = (element("docs", _result_text(result)) for result in results)
        yield "\n".join(("From the documentation, which may or may not be to the point:", *pieces))


def _result_text(result: SearchResult) -> str:
    heading = " > ".join(part for part in (result.title, result.section) if part)
    return f"{heading}\n\n{result.text}" if heading else result.text


def _conversation(history: Sequence[Turn]) -> list[dict[str, Any]]:
    turns = [turn for turn in history if turn.text.strip()]
    if turns and turns[0].role == "assistant":
        turns.insert(0, Turn("user", OPENING))
    messages: list[dict[str, Any]] = [{"role": turn.role, "content": [_text(turn.text)]} for turn in turns]
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
    sections: tuple[tuple[str, Kind, str | None], ...] = (
        ("The input of its last run:", "input", context.input and redact_configuration(context.input)),
        ("The output of its last run:", "output", context.output and redact_configuration(context.output)),
        ("The log of its last run:", "log", context.log),
    )
    for title, kind, text in sections:
        if text and text.strip():
            yield f"{title}\n{element(kind, text)}"
