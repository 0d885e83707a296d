"""A fixed run for protocol tests: requests, valid event streams, decoded records."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palaver.core.descriptions import Description
from palaver.core.events import Event, RunFinished, RunStarted, TerminalEvent
from palaver.core.grammar import Grammar, OutputValue
from palaver.errors import WorkflowNotFound
from palaver.protocols.base import HttpRequest, HttpResponse

RUN = "run_01k00000000000000000000000"
MESSAGE = "msg_01k00000000000000000000000"
TRACE, SPAN = "0ef1d6b784c34b8a705bae5974e51954", "a1b2c3d4e5f60718"
STARTED = RunStarted(run_id=RUN, session="s-1", trace_id=TRACE, span_id=SPAN)
IDS = (
    ("x-palaver-run-id", RUN),
    ("x-palaver-trace-id", TRACE),
    ("traceparent", f"00-{TRACE}-{SPAN}-01"),
)
"""The headers that identify a run and its span, in every protocol."""
CHAT = Description(name="tutor", flags={"is_chat": True})
FORM = Description(name="headline", flags={"is_chat": False})
HISTORY = [{"role": "user", "content": "Why?"}]


def find(name: str | None) -> Description:
    """Look up one of two workflows: a chat, which is the default, and one that is not a chat."""
    known = {None: CHAT, "tutor": CHAT, "headline": FORM}
    if name not in known:
        raise WorkflowNotFound(name, known=["headline", "tutor"])
    return known[name]


def request(
    body: Any = None, *, workflow: str | None = None, query: Mapping[str, str] = {}, **headers: Any
) -> HttpRequest:
    """Build a request with a JSON body; headers as keywords, `_` for `-`."""
    dashed_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return HttpRequest(workflow=workflow, query=query, headers=dashed_headers, body=raw)


def valid_events(*values: OutputValue | str, end: TerminalEvent | None = None, run_id: str = RUN) -> list[Event]:
    """Return the events of a run that yields these values."""
    grammar = Grammar(run_id)
    started = msgspec.structs.replace(STARTED, run_id=run_id)
    events = [*grammar.start(started)]
    for value in values:
        events += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    return [*events, *grammar.end(end or grammar.ending or RunFinished())]


def json(answer: HttpResponse) -> Any:
    return msgspec.json.decode(answer.body)


def record(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def records(frames: Sequence[bytes]) -> list[Any]:
    """The records of ndjson frames."""
    return [msgspec.json.decode(line) for line in b"".join(frames).splitlines()]
