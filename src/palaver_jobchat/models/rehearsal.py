"""Answer without a model and without a key, for demonstrations.

Requests take the usual path, through the real SDK and a socket, but to a fake server in this process. It plays a step
that is derived from the request: small, correct edits of the caller's own job. Every answer starts by saying so.
"""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from palaver_jobchat import models
from palaver_jobchat.models.base import Model, ModelEvent, ModelRequest
from palaver_jobchat.settings import Settings

if TYPE_CHECKING:
    from palaver_jobchat.testing import ReceivedRequest

NOTICE: Final = {
    "level": "info",
    "text": "Test mode: no model was called. The answer is scripted; edits are applied and checked as usual.",
}
"""Value of the `notice` part, shown above the answer."""


class RehearsalModel:
    """Plays `rehearsal_step`. The server starts with the first request."""

    name = "rehearsal"
    is_configured = True

    def __init__(self, settings: Settings) -> None:
        self._settings = msgspec.structs.replace(settings, provider="anthropic", model="rehearsal")
        self._lock = threading.Lock()
        self._model: Model | None = None

    async def aclose(self) -> None:
        if self._model is not None:
            await self._model.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        model = self._model or await asyncio.to_thread(self._start)
        async with aclosing(model.stream(msgspec.structs.replace(request, key=None))) as events:
            async for event in events:
                yield event

    def _start(self) -> Model:
        from palaver_jobchat.testing import FakeAnthropic

        with self._lock:
            if self._model is None:
                fake_server = FakeAnthropic(rehearsal_step).start()
                self._model = models.create_model(self._settings, api_key="rehearsal", base_url=fake_server.url)
            return self._model


OPENING_SENTENCE: Final = "Test mode: no model was called."
_DELAY_S: Final = 0.015
_CHUNK_CHARACTERS: Final = 12  # About what a model sends per delta.
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
    "get": "fetches a resource and puts it in state.data",
    "post": "sends data",
    "put": "sends data that replaces a resource",
    "patch": "sends a partial update",
    "del": "deletes a resource",
    "fn": "runs your own code and returns state",
    "fnIf": "runs an operation if a condition holds",
    "each": "runs an operation once for every item",
    "cursor": "remembers where the last run left off",
    "query": "runs a query",
    "create": "creates a record",
    "update": "updates a record",
    "upsert": "creates a record, or updates it if it exists",
}


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    question: str
    job: str
    log: str
    can_edit: bool

    @property
    def wants_change(self) -> bool:
        """Whether the question asks for a change of the job."""
        is_question = _QUESTION_WORD.match(self.question) is not None or self.question.rstrip().endswith("?")
        return bool(_CHANGE.search(self.question)) and (not is_question or bool(_POLITE.search(self.question)))


def rehearsal_step(request: "ReceivedRequest") -> dict[str, Any]:
    body: dict[str, Any] = request.body
    if body.get("tool_choice", {}).get("type") == "tool":
        return _step("", [])  # A correction: the first edits were right.
    question = _parse_request(body)
    if question.wants_change and not question.job.strip():
        return _create_step(question)
    if question.wants_change:
        return _change_step(question)
    return _step("\n\n".join(_explanation(question)))


def _parse_request(body: dict[str, Any]) -> _Question:
    """Extract the job's data and the question from the request's last message."""
    content = body["messages"][-1]["content"]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"] or [""]
    data = {kind: inner for _, kind, inner in _DATA.findall("\n".join(texts[:-1]))}
    return _Question(
        question=texts[-1], job=data.get("job", ""), log=data.get("log", ""), can_edit=bool(body.get("tools"))
    )


def _create_step(question: _Question) -> dict[str, Any]:
    text = "I'll write a small job that fetches patients and logs how many there are."
    return _suggestion(question, text, [{"action": "rewrite", "new_code": _NEW_JOB}], code=_NEW_JOB)


def _change_step(question: _Question) -> dict[str, Any]:
    rename = _RENAME.search(question.question)
    if rename is not None:
        return _rename_step(question, rename[1], rename[2])
    if _LOG_STEP in question.job.replace("\r\n", "\n"):
        return _step("The job already logs how many records there are, so I won't change it.")
    text = "I'll add a step at the end that logs how many records there are."
    return _suggestion(question, text, [_append_edit(question.job)], code=_LOG_STEP)


def _rename_step(question: _Question, old: str, new: str) -> dict[str, Any]:
    pattern = re.compile(rf"(?<![\w$]){re.escape(old)}(?![\w$])")
    count = len(pattern.findall(question.job))
    if not count:
        return _step(f"`{old}` doesn't occur in the job, so there's nothing to rename.")
    renamed = pattern.sub(lambda _: new, question.job)
    if count == question.job.count(old):
        edit = {"action": "replace_all", "old_code": old, "new_code": new}
    else:  # The name is also part of other words.
        edit = {"action": "rewrite", "new_code": renamed}
    where = "in one place" if count == 1 else f"in {count} places"
    return _suggestion(question, f"I'll rename `{old}` to `{new}` {where}.", [edit], code=renamed)


def _append_edit(job: str) -> dict[str, Any]:
    """Return the edit that appends a step. It matches the last lines, as many as needed to be unique."""
    lines = job.rstrip().split("\n")
    for count in range(1, _MAX_CONTEXT_LINES):
        old = "\n".join(lines[-count:])
        if job.find(old) == job.rfind(old):
            return {"action": "replace", "old_code": old, "new_code": f"{old}\n\n{_LOG_STEP}"}
    return {"action": "rewrite", "new_code": f"{job.rstrip()}\n\n{_LOG_STEP}\n"}


def _explanation(question: _Question) -> Iterator[str]:
    if question.log and (error_text := _log_error(question)):
        yield error_text
        return
    names = _OPERATION.findall(question.job)
    if not names:
        yield "A job is a list of operations that run in order. Each one receives the state returned by the one before."
        yield "This job is empty. Ask me to write one, and I'll suggest a small example."
        return
    yield f"The job has {len(names)} operation{'' if len(names) == 1 else 's'}:"
    yield "\n".join(f"{number}. {line}" for number, line in enumerate(map(_operation_line, names), 1))
    yield "To see a suggested edit, ask for a change, such as “rename … to …”."


def _operation_line(name: str) -> str:
    meaning = _MEANINGS.get(name.rpartition(".")[2])
    return f"`{name}` {meaning}." if meaning else f"`{name}` is a function of the adaptor."


def _log_error(question: _Question) -> str:
    """Return a text about the first error in the log and the job's line that it concerns, or an empty one."""
    for number, line in enumerate(question.log.splitlines(), 1):
        if _ERROR.search(line):
            location = _job_line(question.job.splitlines(), question.log.splitlines()[number - 1 :])
            text = f"Line {number} of the log reports an error:\n\n```\n{line.strip()}\n```"
            return f"{text}\n\n{location}" if location else text
    return ""


def _job_line(job: list[str], log: list[str]) -> str:
    """Return a text about the job's line that an error concerns, found by line number or else by name."""
    text = "\n".join(log)
    for match in _LINE.finditer(text):
        number = int(match[1] or match[2])
        if 1 <= number <= len(job) and job[number - 1].strip():
            return f"It refers to line {number} of the job:\n\n```js\n{job[number - 1].strip()}\n```"
    name_match = _NAME_IN_ERROR.search(text)
    name = (name_match[1] or name_match[2]) if name_match is not None else None
    for number, line in enumerate(job, 1):
        if name is not None and re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", line):
            return f"`{name}` is on line {number} of the job:\n\n```js\n{line.strip()}\n```"
    return ""


def _suggestion(question: _Question, text: str, edits: list[dict[str, str]], *, code: str) -> dict[str, Any]:
    """Return a step with edits or, in plain mode, with the code in its text."""
    if question.can_edit:
        return _step(text, edits)
    return _step(f"{text}\n\n```js\n{code.rstrip()}\n```")


def _step(text: str, edits: list[dict[str, str]] | None = None) -> dict[str, Any]:
    content = f"{OPENING_SENTENCE} {text}".rstrip()
    tool: list[Mapping[str, Any]] = [] if edits is None else [{"tool": {"name": "edit_job", "input": {"edits": edits}}}]
    chunks = min(max(len(content) // _CHUNK_CHARACTERS, 1), _MAX_CHUNKS)
    return {"blocks": [{"text": content}, *tool], "chunks": chunks, "delay": _DELAY_S, "usage": _NO_USAGE}
