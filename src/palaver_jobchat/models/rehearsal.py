"""Answer without a model and without a key: a script chosen by the question, played by a local fake server."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, Protocol, cast

import msgspec

from palaver_jobchat import models
from palaver_jobchat.models.base import Model, ModelEvent, ModelRequest
from palaver_jobchat.settings import Settings

NOTICE: Final = {
    "level": "info",
    "text": "This is a rehearsal: no model was asked. The answer is a script's; what becomes of it is as it would be.",
}
"""The part `notice`, which pages show above an answer."""


class RehearsalModel:
    """A model that is none. Its server starts with the first question."""

    def __init__(self, settings: Settings) -> None:
        self._settings = msgspec.structs.replace(settings, provider="anthropic", model="rehearsal")
        self._lock = threading.Lock()
        self._model: Model | None = None

    @property
    def name(self) -> str:
        """Which says what it is."""
        return "rehearsal"

    @property
    def is_configured(self) -> bool:
        """It needs nothing."""
        return True

    async def aclose(self) -> None:
        """Close the connections to our own server."""
        if self._model is not None:
            await self._model.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """The answer as it comes. Nobody's key is used."""
        model = self._model or await asyncio.to_thread(self._started)
        async with aclosing(model.stream(msgspec.structs.replace(request, key=None))) as happenings:
            async for happening in happenings:
                yield happening

    def _started(self) -> Model:
        from palaver_jobchat.testing import FakeAnthropic

        with self._lock:
            if self._model is None:
                fake = FakeAnthropic(rehearsal_step).start()
                self._model = models.create_model(self._settings, api_key="rehearsal", base_url=fake.url)
            return self._model


OPENING_SENTENCE: Final = "Rehearsal: no model was asked."
_DELAY_S: Final = 0.015
_CHUNK_CHARACTERS: Final = 12  # Characters in a delta, about what a model sends.
_MAX_CHUNKS: Final = 80
_MAX_CONTEXT_LINES: Final = 20
_NO_USAGE: Final = {"input_tokens": 0, "output_tokens": 0}

_DATA = re.compile(r'<(data-[0-9a-f]{12}) kind="(\w+)">(.*?)</\1>', re.DOTALL)
_RENAME = re.compile(r"\brename\s+[`'\"]?([\w$]+)[`'\"]?\s+(?:to|into|as)\s+[`'\"]?([\w$]+)", re.IGNORECASE)
_CHANGE = re.compile(
    r"\b(add|append|insert|log|change|update|modify|make|write|create|build|generate|edit|extend|improve|fix|count|"
    r"remove|delete|replace|rename|rewrite|refactor|fetch|send|get)\b",
    re.IGNORECASE,
)
_QUESTION_WORD = re.compile(
    r"\s*(how|why|what|when|where|who|which|does|do|is|are|explain|describe|tell)\b", re.IGNORECASE
)
_POLITE = re.compile(r"\b(please|can you|could you|would you)\b", re.IGNORECASE)
_ERROR = re.compile(r"error|exception|failed|is not defined|cannot read", re.IGNORECASE)
_LINE = re.compile(r"\bline (\d+)\b|:(\d+):\d+\b", re.IGNORECASE)
_NAME_IN_ERROR = re.compile(r"[`'\"]?([A-Za-z_$][\w$]*)[`'\"]? is not (?:defined|a function)|reading '([\w$]+)'")
_OPERATION = re.compile(r"^([A-Za-z_$][\w$.]*)\(", re.MULTILINE)

_LOG_STEP: Final = """\
fn(state => {
  const records = Array.isArray(state.data) ? state.data : [state.data];
  console.log(`${records.length} records`);
  return state;
});"""
_NEW_JOB: Final = f"""\
get('/patients', {{ query: {{ limit: 100 }} }});

{_LOG_STEP}
"""
_MEANINGS: Final = {
    "get": "asks for a resource and leaves it in state.data",
    "post": "sends a body",
    "put": "sends a body that takes the place of what is there",
    "patch": "sends a change",
    "del": "deletes a resource",
    "fn": "runs code of its own and returns state",
    "fnIf": "runs an operation if a condition holds",
    "each": "runs an operation once for every item",
    "cursor": "remembers how far the last run came",
    "query": "asks with a query",
    "create": "creates a record",
    "update": "changes a record",
    "upsert": "creates a record or changes the one that is there",
}


class RehearsalRequest(Protocol):
    """What a rehearsal looks at."""

    body: Any


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    question: str
    job: str
    log: str
    can_edit: bool

    @property
    def wants_change(self) -> bool:
        """Whether it reads like an order rather than a question."""
        is_question = _QUESTION_WORD.match(self.question) is not None or self.question.rstrip().endswith("?")
        return bool(_CHANGE.search(self.question)) and (not is_question or bool(_POLITE.search(self.question)))


def rehearsal_step(request: RehearsalRequest) -> dict[str, Any]:
    """The step that suits a request."""
    body = cast("dict[str, Any]", request.body)
    if body.get("tool_choice", {}).get("type") == "tool":
        return _step("", [])  # A correction; there is nothing that could be better the second time.
    asked = _parse_request(body)
    if asked.wants_change and not asked.job.strip():
        return _create_step(asked)
    if asked.wants_change:
        return _change_step(asked)
    return _step("\n\n".join(_explanation(asked)))


def _parse_request(body: dict[str, Any]) -> _Question:
    """The request's last turn: what is known of the job, and the question alone."""
    content = body["messages"][-1]["content"]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"] or [""]
    data = {kind: inner for _, kind, inner in _DATA.findall("\n".join(texts[:-1]))}
    return _Question(
        question=texts[-1], job=data.get("job", ""), log=data.get("log", ""), can_edit=bool(body.get("tools"))
    )


def _create_step(asked: _Question) -> dict[str, Any]:
    text = "I'll write a small job that asks for patients and logs how many there are."
    return _suggestion(asked, text, [{"action": "rewrite", "new_code": _NEW_JOB}], shown=_NEW_JOB)


def _change_step(asked: _Question) -> dict[str, Any]:
    rename = _RENAME.search(asked.question)
    if rename is not None:
        return _rename_step(asked, rename[1], rename[2])
    if _LOG_STEP in asked.job.replace("\r\n", "\n"):
        return _step("The job logs how many records there are already. I leave it as it is.")
    text = "I'll add a step at the end that logs how many records there are."
    return _suggestion(asked, text, [_append_edit(asked.job)], shown=_LOG_STEP)


def _rename_step(asked: _Question, old: str, new: str) -> dict[str, Any]:
    word = re.compile(rf"(?<![\w$]){re.escape(old)}(?![\w$])")
    places = len(word.findall(asked.job))
    if not places:
        return _step(f"There is no `{old}` in the job, so there is nothing to rename.")
    renamed = word.sub(lambda _: new, asked.job)
    if places == asked.job.count(old):
        edit = {"action": "replace_all", "old_code": old, "new_code": new}
    else:  # It is also a part of other words, which keep it.
        edit = {"action": "rewrite", "new_code": renamed}
    where = "in one place" if places == 1 else f"in {places} places"
    return _suggestion(asked, f"I'll rename `{old}` to `{new}` {where}.", [edit], shown=renamed)


def _append_edit(job: str) -> dict[str, Any]:
    """The edit that puts a step after the last line: by that line, with as many before it as make it the only one."""
    lines = job.rstrip().split("\n")
    for count in range(1, _MAX_CONTEXT_LINES):
        old = "\n".join(lines[-count:])
        if job.find(old) == job.rfind(old):
            return {"action": "replace", "old_code": old, "new_code": f"{old}\n\n{_LOG_STEP}"}
    return {"action": "rewrite", "new_code": f"{job.rstrip()}\n\n{_LOG_STEP}\n"}


def _explanation(asked: _Question) -> Iterator[str]:
    if asked.log and (failing := _log_error(asked)):
        yield failing
        return
    names = _OPERATION.findall(asked.job)
    if not names:
        yield "A job is a list of operations, run in order; each takes the state that the one before it left."
        yield "This job is empty. Ask for one to be written, and a small one will be suggested."
        return
    yield f"The job has {len(names)} operation{'' if len(names) == 1 else 's'}:"
    yield "\n".join(f"{place}. {line}" for place, line in enumerate(map(_operation_line, names), 1))
    yield "Ask for a change, such as “rename … to …”, to see how one is suggested."


def _operation_line(name: str) -> str:
    meaning = _MEANINGS.get(name.rpartition(".")[2])
    return f"`{name}` {meaning}." if meaning else f"`{name}`, a function of the adaptor."


def _log_error(asked: _Question) -> str:
    """Where the log says that something went wrong, and where that is in the job."""
    for number, line in enumerate(asked.log.splitlines(), 1):
        if _ERROR.search(line):
            place = _job_line(asked.job.splitlines(), asked.log.splitlines()[number - 1 :])
            told = f"Line {number} of the log tells of an error:\n\n```\n{line.strip()}\n```"
            return f"{told}\n\n{place}" if place else told
    return ""


def _job_line(job: list[str], log: list[str]) -> str:
    """The line of the job that an error is about: by its number, else by the name in it."""
    text = "\n".join(log)
    for match in _LINE.finditer(text):
        number = int(match[1] or match[2])
        if 1 <= number <= len(job) and job[number - 1].strip():
            return f"It is about line {number} of the job:\n\n```js\n{job[number - 1].strip()}\n```"
    named = _NAME_IN_ERROR.search(text)
    name = (named[1] or named[2]) if named is not None else None
    for number, line in enumerate(job, 1):
        if name is not None and re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", line):
            return f"`{name}` stands in line {number} of the job:\n\n```js\n{line.strip()}\n```"
    return ""


def _suggestion(asked: _Question, text: str, edits: list[dict[str, str]], *, shown: str) -> dict[str, Any]:
    """The text with its edits; where none can be made, with the code itself."""
    if asked.can_edit:
        return _step(text, edits)
    return _step(f"{text}\n\n```js\n{shown.rstrip()}\n```")


def _step(text: str, edits: list[dict[str, str]] | None = None) -> dict[str, Any]:
    said = f"{OPENING_SENTENCE} {text}".rstrip()
    tool: list[Mapping[str, Any]] = [] if edits is None else [{"tool": {"name": "edit_job", "input": {"edits": edits}}}]
    chunks = min(max(len(said) // _CHUNK_CHARACTERS, 1), _MAX_CHUNKS)
    return {"blocks": [{"text": said}, *tool], "chunks": chunks, "delay": _DELAY_S, "usage": _NO_USAGE}
