"""POST /{w}/invoke: Agenta's call, answered as JSON, in lines or as server-sent events (contract: discovery, 5-8)."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import agenta, forms, records, sse, ui_parts, upstream
from palaver.protocols.agenta import JSON, SSE, VERSION, Reading
from palaver.protocols.base import Answer, Find, Frames, Request

NDJSON, JSONL = "application/x-ndjson", "application/jsonl"
OFFERS = (JSON, NDJSON, JSONL, SSE)


def decode(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call, in either form, and how to answer it."""
    workflow = find(request.workflow)
    form = forms.read_form(forms.read_object(request), request.headers, is_chat=workflow.is_chat)
    return agenta.understood(request, form, workflow, offers=OFFERS)


def head(started: RunStarted, reading: Reading) -> Answer | None:
    """The head of a stream; None for a JSON answer."""
    if reading.form == JSON:
        return None
    named = (("content-type", reading.form), ("cache-control", "no-cache, no-transform"), ("x-accel-buffering", "no"))
    told_as = reading.ui.headers if reading.ui else ()
    keep_alive = sse.KEEP_ALIVE if reading.form == SSE else b""
    return Answer(status=200, headers=(*named, *told_as, *agenta.headers(started)), keep_alive=keep_alive)


def frames(reading: Reading) -> Frames:
    """Records, wrapped as the form wants them; or the parts of a UI message."""
    if reading.ui is not None:
        # A run that fails before it has said anything is answered with its status here: so the start waits.
        return ui_parts.Writer(reading.ui, at_once=False).frames
    return records.Writer(sse.frame if reading.form == SSE else _line, is_chat=reading.is_chat).frames


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The envelope, or in the flat form the outputs alone."""
    started, last, reply = events[0], events[-1], fold(events)
    assert isinstance(started, RunStarted)
    outputs = agenta.outputs(reply, events, reading)
    if isinstance(last, RunFailed):
        said = outputs if reading.envelope and reply.messages else UNSET
        return agenta.run_failure(last, started, status=status, said=said)
    if not reading.envelope:
        return agenta.answer(status, outputs, started=started)
    meta: dict[str, Any] = {"run_id": reply.run_id, "finish": reply.finish}
    if reply.usage is not None:
        meta["usage"] = reply.usage
    document = {
        "version": VERSION,
        "status": {"code": status, "message": "Success"},
        "trace_id": started.trace_id,
        "span_id": started.span_id,
        "session_id": started.session,
        "data": {"outputs": outputs},
        "meta": meta,
    }
    return agenta.answer(status, document, started=started)


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """One error shape for all of Agenta's routes."""
    return agenta.failure(error, reading, status=status)


# The client half: how we call such a service


def request(call: Call, *, is_chat: bool, stream: bool) -> Request:
    """The envelope. Streams are only asked of those who say that they stream: others decide after the work is done."""
    inputs = dict(call.inputs)
    if is_chat:
        # A call that came while the service was away was not read as a chat's: its history is still an input.
        inputs.setdefault("messages", chat_completions.write(call.messages))
    body: dict[str, Any] = {"version": VERSION, "data": {"inputs": inputs, "parameters": call.parameters}}
    if call.session:
        body["session_id"] = call.session
    return Request(headers=upstream.headers(call, accept=SSE if stream else "*/*"), body=json.encode(body))


class Replies:
    """Reads the reply of such a service: bytes in, events and values out, by its content type."""

    def __init__(self, content_type: str, *, longest: int = sse.LONGEST) -> None:
        media = upstream.media_type(content_type)
        self.streamed = media in (NDJSON, JSONL, SSE)
        self._content_type = content_type
        self._lines = sse.Reader(longest=longest) if media == SSE else sse.Lines(longest=longest)
        self._record = records.Reader()
        self._body = bytearray()

    def feed(self, data: bytes) -> list[object]:
        """What can be told by now."""
        if not self.streamed:
            self._body += data
            return []
        return [value for line in self._lines.feed(data) if line for value in self._record(line)]

    def end(self) -> list[object]:
        """What was left to tell at the end of the body."""
        if self.streamed:
            told = [value for line in self._lines.end() for value in self._record(line, whole=False)]
            return [*told, *self._record.end()]
        body = bytes(self._body)
        match upstream.value(self._content_type, body):
            case {"status": {"code": int(code)}} if code >= 400:  # Some say 200 first and this inside.
                return [RunFailed(code="upstream_failed", message=upstream.words(body) or "")]
            case {"data": {"outputs": outputs}}:
                return [outputs]
            case {"version": str(), "status": dict()}:
                return [None]  # An envelope without outputs.
            case bare:
                return [bare]


def _line(record: bytes) -> bytes:
    return record + b"\n"
