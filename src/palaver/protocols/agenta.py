"""What /inspect, /invoke, /run and /test have in common: Agenta's version, headers, outputs and errors."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, PartAdded, RunFailed, RunStarted, TextDelta
from palaver.core.messages import Data
from palaver.core.runs import Call, Reply
from palaver.errors import FaultyCall, MissingInput, NotAcceptable, PalaverError, RequestError
from palaver.protocols import accept, forms, ui_client, ui_whole
from palaver.protocols.base import Answer, Headers, Request, ids

VERSION = "2025.07.14"
JSON, SSE = "application/json", "text/event-stream"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a call was said, and hence how it is to be answered."""

    form: str = JSON
    """The media type of the answer."""
    envelope: bool = False
    trim: bool = False
    """Only the last message."""
    is_chat: bool = True
    ui: ui_client.Client | None = None
    """Who reads UI messages (the vercel format); None where messages are told in Chat Completions form."""
    session: str | None = None
    places: Mapping[str, str] = {}
    """Where things stand in the body as it was sent: `/inputs/x` -> `/data/inputs/x`."""
    strays: frozenset[str] = frozenset()
    """Top-level keys that mean nothing to us; one of them may be an input in the wrong place."""

    def pointer(self, pointer: str) -> str:
        """A pointer of the waist (`/messages/3`, `/inputs/x`, `/parameters/x`) as one into the body."""
        known = max((place for place in self.places if _is_below(pointer, place)), key=len, default=None)
        return pointer if known is None else self.places[known] + pointer[len(known) :]


class Refused(RequestError):
    """A call that was read but cannot be taken, with the reading that its answer needs."""

    def __init__(self, error: RequestError, reading: Reading) -> None:
        super().__init__(error.message, pointer=error.pointer, details=error.details)
        self.code = error.code
        self.error = error
        self.reading = reading


# Calls


def understood(
    request: Request, form: forms.Form, workflow: Description, *, offers: Sequence[str]
) -> tuple[Call, Reading]:
    """The call of a form, and how to answer it. What the workflow can take comes last, after the form of the answer."""
    reading = Reading(
        envelope=form.envelope,
        trim=form.flags.get("trim", request.headers.get("x-ag-messages-transcript") == "last"),
        is_chat=workflow.is_chat,
        session=form.session,
        places=form.places,
        strays=form.strays,
    )
    try:
        version = _ui_version(request.headers)
        chosen = _negotiated(request.headers, form.flags, offers if version is None else _told_as_ui(offers))
        messages = forms.history(form) if workflow.is_chat else ()
    except RequestError as error:
        raise Refused(error, reading) from None
    ui = None if version is None else ui_client.client(version, form.messages, messages)
    call = Call(
        workflow=workflow.name,
        messages=messages,
        inputs=form.inputs,
        parameters=form.parameters,
        session=form.session,
        references=form.references,
        tags=form.tags,
        trace_parent=request.trace_parent,
    )
    return call, msgspec.structs.replace(reading, form=chosen, ui=ui)


def _ui_version(headers: Mapping[str, str]) -> int | None:
    """The version of the client that wants UI messages; None for one that wants Agenta's own format."""
    match headers.get("x-ag-messages-format", "agenta"):
        case "agenta":
            return None
        case "vercel":
            return ui_client.version(headers)
        case _:
            known = ["agenta", "vercel"]
            raise NotAcceptable(f"That message format is unknown: ask for {' or '.join(known)}.", supported=known)


def _told_as_ui(offers: Sequence[str]) -> tuple[str, ...]:
    """The forms in which UI messages can be told: they have no records, and so no lines."""
    return tuple(offer for offer in offers if offer in (JSON, SSE))


def _negotiated(headers: Mapping[str, str], flags: Mapping[str, bool], offers: Sequence[str]) -> str:
    """The form of the answer, decided before anything runs."""
    stream = flags.get("stream")
    left = tuple(offer for offer in offers if stream is None or stream is (offer != JSON))
    if not left:
        raise NotAcceptable("Nothing is streamed here: leave flags.stream out, or use /invoke.", supported=offers)
    chosen = accept.choose(headers.get("accept"), left)
    if chosen is None:
        asked = "" if stream is None else f" with flags.stream {str(stream).lower()}"
        raise NotAcceptable(f"Nothing accepted can be given{asked}: accept {' or '.join(left)}.", supported=left)
    return chosen


# Answers


def headers(started: RunStarted | None, session: str | None = None) -> Headers:
    """The headers of every answer; ids where they exist by then."""
    session = started.session if started else session
    named = [("x-ag-version", VERSION)]
    if session:
        named += [("x-ag-session-id", session), ("baggage", f"ag.session.id={session}")]
    if started:
        named += [("x-ag-trace-id", started.trace_id), ("x-ag-span-id", started.span_id), *ids(started)]
    return tuple(named)


def outputs(reply: Reply, events: Sequence[Event], reading: Reading) -> Any:
    """A chat's messages in Chat Completions form, one alone as an object, or as a UI message; any other's value."""
    if not reading.is_chat:
        return _value_so_far(events) if reply.value is UNSET else reply.value
    if reading.ui is not None:
        return ui_whole.message(events, reading.ui)
    written = chat_completions.write(reply.messages)
    if not written:
        return {"role": "assistant", "content": ""}
    return written[-1] if reading.trim or len(written) == 1 else written


def answer(status: int, document: Any, *, started: RunStarted | None = None, session: str | None = None) -> Answer:
    """A JSON answer with the headers of every answer."""
    named = (("content-type", JSON), *headers(started, session))
    return Answer(status=status, headers=named, body=json.encode(document))


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """The error document of a request that started no run."""
    if isinstance(error, Refused):
        error, reading = error.error, error.reading
    told: dict[str, Any] = {"code": status, "type": error.code, "message": error.message}
    if isinstance(error, FaultyCall):
        told["errors"] = [_fault(fault, reading) for fault in error.faults]
        told["message"] = told["errors"][0]["message"]
    elif isinstance(error, RequestError) and error.pointer is not None:
        told["errors"] = [_fault(error, reading)]
    told |= {key: value for key, value in error.details.items() if key not in told}
    session = reading.session if reading else None
    return answer(status, _error_document(told, None, session), session=session)


def run_failure(failed: RunFailed, started: RunStarted, *, status: int, said: Any = UNSET) -> Answer:
    """The error document of a run that failed; `said` is what it had said by then, if the form has a place for it."""
    told: dict[str, Any] = {"code": status, "type": failed.code, "message": failed.message}
    if failed.details:
        told["details"] = failed.details
    document = _error_document(told, started, started.session)
    if said is not UNSET:
        document["data"] = {"outputs": said}
    return answer(status, document, started=started)


def _error_document(told: dict[str, Any], started: RunStarted | None, session: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {"version": VERSION, "status": told}
    if started:
        document |= {"trace_id": started.trace_id, "span_id": started.span_id}
    return document | ({"session_id": session} if session else {})


def _fault(fault: RequestError, reading: Reading | None) -> dict[str, Any]:
    pointer, message = fault.pointer or "", fault.message
    if reading is not None:
        name = pointer.removeprefix("/inputs/")
        pointer = reading.pointer(pointer)
        if isinstance(fault, MissingInput) and name in reading.strays:
            message = f"{message} It was found at /{name}; it belongs in {pointer}."
    return {"type": fault.code, "pointer": pointer, "message": message}


def _is_below(pointer: str, place: str) -> bool:
    return pointer == place or pointer.startswith(f"{place}/")


def _value_so_far(events: Sequence[Event]) -> Any:
    """What a workflow that is no chat had yielded when it was stopped, made up as its value would have been."""
    values: list[Any] = []
    in_text = False
    for event in events:
        match event:
            case TextDelta(delta=delta) if in_text:
                values[-1] += delta
            case TextDelta(delta=delta):
                values.append(delta)
                in_text = True
            case PartAdded(part=Data(name="output", value=value), transient=False):
                values.append(value)
                in_text = False
            case _:
                pass
    return values if len(values) > 1 else values[0] if values else None
