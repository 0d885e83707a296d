"""POST /{w}/invoke: Agenta's call, answered as JSON, in lines, or as server-sent events (contract: discovery, 5 to 8)."""

from collections.abc import Sequence
from typing import Any

from palaver.core import jsons
from palaver.core.calls import Call
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.errors import NotAcceptable, PalaverError, UpstreamFailed
from palaver.protocols import accept, agenta, forms, records, sse
from palaver.protocols.agenta import JSON, VERSION, Reading
from palaver.protocols.base import Answer, Find, Frames, Request

NDJSON, JSONL, SSE = "application/x-ndjson", "application/jsonl", "text/event-stream"
OFFERS = (JSON, NDJSON, JSONL, SSE)

_MOST_OF_A_STRANGER = 200


def decode(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call and how to answer it. What the workflow can take is checked last, after the form of the answer."""
    workflow = find(request.workflow)
    form = forms.read_form(request, is_chat=workflow.is_chat)
    reading = Reading(
        form=_negotiated(request, form),
        envelope=form.envelope,
        trim=_trim(request, form),
        is_chat=workflow.is_chat,
        session=form.session,
        places=form.places,
        strays=form.strays,
    )
    call = Call(
        workflow=workflow.name,
        messages=forms.history(form, is_chat=workflow.is_chat),
        inputs=form.inputs,
        parameters=form.parameters,
        session=form.session,
        references=form.references,
        tags=form.tags,
        trace_parent=agenta.trace_parent(request.headers),
    )
    return call, reading


def head(started: RunStarted, reading: Reading) -> Answer | None:
    """The head of a stream; None for a JSON answer."""
    if reading.form == JSON:
        return None
    named = (("content-type", reading.form), ("cache-control", "no-cache, no-transform"), ("x-accel-buffering", "no"))
    keep_alive = sse.KEEP_ALIVE if reading.form == SSE else b""
    return Answer(status=200, headers=(*named, *agenta.headers(started, None)), keep_alive=keep_alive)


def frames(reading: Reading) -> Frames:
    """Records, wrapped as the form wants them."""
    return records.Writer(sse.frame if reading.form == SSE else _line, is_chat=reading.is_chat)


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The envelope, or in the flat form the outputs alone."""
    started, last, reply = events[0], events[-1], fold(events)
    assert isinstance(started, RunStarted)
    outputs = agenta.outputs(reply, is_chat=reading.is_chat, trim=reading.trim)
    if isinstance(last, RunFailed):
        if reading.envelope and reply.messages:
            return agenta.run_failure(last, events, status=status, said=outputs)
        return agenta.run_failure(last, events, status=status)
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
    inputs: dict[str, Any] = dict(call.inputs)
    if is_chat:
        inputs["messages"] = chat_completions.write(call.messages)
    data: dict[str, Any] = {"inputs": inputs, "parameters": dict(call.parameters)}
    body: dict[str, Any] = {"version": VERSION, "data": data}
    if call.session:
        body["session_id"] = call.session
    named = {"content-type": JSON, "accept": SSE if stream else "*/*"}
    return Request(headers=named, body=jsons.encode(body))


class Replies:
    """Reads the reply of such a service: bytes in, events and values out, by its content type."""

    def __init__(self, content_type: str, *, longest: int = 1024 * 1024) -> None:
        media = content_type.partition(";")[0].strip().lower()
        self.streamed = media in (NDJSON, JSONL, SSE)
        self._lines = sse.Reader(longest=longest) if media == SSE else sse.Lines(longest=longest)
        self._record = records.Reader()
        self._body: list[bytes] = []

    def feed(self, data: bytes) -> list[object]:
        """What can be told by now."""
        if not self.streamed:
            self._body.append(data)
            return []
        return [value for line in self._lines.feed(data) if line for value in self._record(line)]

    def end(self) -> list[object]:
        """What was left to tell at the end of the body."""
        if self.streamed:
            return [value for line in self._lines.end() if line for value in self._record(line)]
        body = b"".join(self._body)
        value = jsons.parsed(body.decode("utf-8", "replace"))
        match value:
            case {"data": {"outputs": outputs}}:
                return [outputs]
            case _:
                return [value]


def refused(status: int, body: bytes) -> PalaverError:
    """Why such a service said no, in its own words as far as they can be trusted."""
    match jsons.parsed(body[:65536].decode("utf-8", "replace")):
        case {"status": {"message": str(message)}} | {"error": {"message": str(message)}} | {"detail": str(message)}:
            said = f": {message[:_MOST_OF_A_STRANGER]}"
        case _:
            said = "."
    return UpstreamFailed(f"The remote workflow answered {status}{said}")


def _line(record: bytes) -> bytes:
    return record + b"\n"


def _trim(request: Request, form: forms.Form) -> bool:
    return form.flags.get("trim", request.headers.get("x-ag-messages-transcript") == "last")


def _negotiated(request: Request, form: forms.Form) -> str:
    """The form of the answer, decided before anything runs."""
    match form.flags.get("stream"):
        case True:
            offers = OFFERS[1:]
        case False:
            offers = OFFERS[:1]
        case _:
            offers = OFFERS
    wanted = request.headers.get("x-ag-messages-format", "agenta")
    if wanted != "agenta":
        reason = "is not served yet" if wanted == "vercel" else "is unknown"
        raise NotAcceptable(f"The message format {wanted!r} {reason}: use agenta.", supported=["agenta"])
    chosen = accept.choose(request.headers.get("accept"), offers)
    if chosen is None:
        asked = f" with flags.stream {str(form.flags['stream']).lower()}" if "stream" in form.flags else ""
        raise NotAcceptable(f"None of the accepted types can be given{asked}: accept {' or '.join(offers)}.", supported=offers)
    return chosen
