"""What /inspect, /invoke, /run and /test have in common: Agenta's version, headers, outputs and errors."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from palaver.core import jsons
from palaver.core.calls import Call, Reply
from palaver.core.descriptions import Description
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, PartAdded, RunFailed, RunStarted, TextDelta
from palaver.core.parts import Data
from palaver.errors import FaultyCall, MissingInput, NotAcceptable, PalaverError, RequestError
from palaver.protocols import accept, forms
from palaver.protocols.base import Answer, Headers, Request

VERSION = "2025.07.14"
JSON = "application/json"

_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a call was said, and hence how it is to be answered."""

    form: str = JSON
    """The media type of the answer."""
    envelope: bool = False
    trim: bool = False
    """Only the last message."""
    is_chat: bool = True
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
        chosen = _negotiated(request.headers, form.flags, offers)
        messages = forms.history(form) if workflow.is_chat else ()
    except RequestError as error:
        raise Refused(error, reading) from None
    call = Call(
        workflow=workflow.name,
        messages=messages,
        inputs=form.inputs,
        parameters=form.parameters,
        session=form.session,
        references=form.references,
        tags=form.tags,
        trace_parent=_trace_parent(request.headers),
    )
    return call, msgspec.structs.replace(reading, form=chosen)


def _negotiated(headers: Mapping[str, str], flags: Mapping[str, bool], offers: Sequence[str]) -> str:
    """The form of the answer, decided before anything runs."""
    stream = flags.get("stream")
    wanted = headers.get("x-ag-messages-format", "agenta")
    if wanted != "agenta":
        what = "The UI message format is not served yet" if wanted == "vercel" else "That message format is unknown"
        raise NotAcceptable(f"{what}: leave x-ag-messages-format out, or ask for agenta.", supported=["agenta"])
    left = tuple(offer for offer in offers if stream is None or stream is (offer != JSON))
    if not left:
        raise NotAcceptable("Nothing is streamed here: leave flags.stream out, or use /invoke.", supported=offers)
    chosen = accept.choose(headers.get("accept"), left)
    if chosen is None:
        asked = "" if stream is None else f" with flags.stream {str(stream).lower()}"
        raise NotAcceptable(f"Nothing accepted can be given{asked}: accept {' or '.join(left)}.", supported=left)
    return chosen


def _trace_parent(headers: Mapping[str, str]) -> str | None:
    """The caller's trace, if it names one that W3C would accept."""
    given = headers.get("traceparent", "")
    return given if _TRACE_PARENT.fullmatch(given) else None


# Answers


def headers(started: RunStarted | None, session: str | None = None) -> Headers:
    """The headers of every answer; ids where they exist by then."""
    session = started.session if started else session
    named = [("x-ag-version", VERSION)]
    if session:
        named += [("x-ag-session-id", session), ("baggage", f"ag.session.id={session}")]
    if started:
        named += [
            ("x-ag-trace-id", started.trace_id),
            ("x-ag-span-id", started.span_id),
            ("traceparent", f"00-{started.trace_id}-{started.span_id}-01"),
            ("x-palaver-run-id", started.run_id),
        ]
    return tuple(named)


def outputs(reply: Reply, events: Sequence[Event], reading: Reading) -> Any:
    """A chat's messages in Chat Completions form, one alone as an object; any other workflow's value."""
    if not reading.is_chat:
        return _value_so_far(events) if reply.value is UNSET else reply.value
    written = chat_completions.write(reply.messages)
    if not written:
        return {"role": "assistant", "content": ""}
    return written[-1] if reading.trim or len(written) == 1 else written


def answer(status: int, document: Any, *, started: RunStarted | None = None, session: str | None = None) -> Answer:
    """A JSON answer with the headers of every answer."""
    named = (("content-type", JSON), *headers(started, session))
    return Answer(status=status, headers=named, body=jsons.encode(document))


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
