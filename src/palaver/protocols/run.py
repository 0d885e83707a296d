"""POST /{w}/run and /{w}/test: /invoke's elders. Flat bodies, JSON answers (contract: discovery, 9)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from palaver.core import jsons
from palaver.core.calls import Call
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.errors import MisplacedField, NotAcceptable, PalaverError
from palaver.protocols import accept, agenta, forms
from palaver.protocols.agenta import JSON, Reading
from palaver.protocols.base import Answer, Find, Frames, Request

_REFERENCES = ("app", "app_id", "environment", "variant_slug", "variant_version")


def decode(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call of a flat body; the group of names that picked an app at Agenta's is kept with the run."""
    workflow = find(request.workflow)
    body = forms.read_object(request)
    if "data" in body:
        raise MisplacedField("data is not read here: use /invoke.", pointer="/data")
    form = forms.read_form(request, is_chat=workflow.is_chat)
    if accept.choose(request.headers.get("accept"), (JSON,)) is None:
        raise NotAcceptable(f"Only {JSON} is given here: accept it, or use /invoke.", supported=[JSON])
    reading = Reading(
        trim=form.flags.get("trim", False),
        is_chat=workflow.is_chat,
        session=form.session,
        places=form.places,
        strays=form.strays - {*_REFERENCES},
    )
    named = {name: holder[name] for name in _REFERENCES for holder in (request.query, body) if name in holder}
    call = Call(
        workflow=workflow.name,
        messages=forms.history(form, is_chat=workflow.is_chat),
        inputs=form.inputs,
        parameters=form.parameters,
        session=form.session,
        references={**form.references, **named},
        tags=form.tags,
        trace_parent=agenta.trace_parent(request.headers),
    )
    return call, reading


def head(started: RunStarted, reading: Reading) -> Answer | None:
    """There is no stream here."""
    return None


def frames(reading: Reading) -> Frames:
    """There is no stream here, and so no frame."""
    return lambda event: b""


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The outputs under `data`, with a tree id that is the trace id in another spelling."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    if isinstance(last, RunFailed):
        return agenta.run_failure(last, events, status=status)
    outputs = agenta.outputs(fold(events), is_chat=reading.is_chat, trim=reading.trim)
    document = {
        "version": "3.0",
        "data": outputs,
        "content_type": "text/plain" if isinstance(outputs, str) else JSON,
        "tree": None,
        "tree_id": str(UUID(started.trace_id)),
        "trace_id": started.trace_id,
        "span_id": started.span_id,
    }
    return agenta.answer(status, document, started=started)


def failure(error: PalaverError, reading: Reading | None, *, status: int) -> Answer:
    """One error shape for all of Agenta's routes."""
    return agenta.failure(error, reading, status=status)


# The client half: how we call such a service


def request(call: Call, *, is_chat: bool, stream: bool) -> Request:
    """A flat body; `stream` cannot be had here."""
    body: dict[str, Any] = {"inputs": dict(call.inputs), "ag_config": dict(call.parameters)}
    if is_chat:
        body["messages"] = chat_completions.write(call.messages)
    return Request(headers={"content-type": JSON, "accept": JSON}, body=jsons.encode(body))


class Replies:
    """Reads the reply of such a service: bytes in; at the end, the value under `data`."""

    def __init__(self, content_type: str) -> None:
        self.streamed = False
        self._body: list[bytes] = []

    def feed(self, data: bytes) -> list[object]:
        """Nothing can be told before the end."""
        self._body.append(data)
        return []

    def end(self) -> list[object]:
        """The outputs."""
        value = jsons.parsed(b"".join(self._body).decode("utf-8", "replace"))
        match value:
            case {"data": data}:
                return [data]
            case _:
                return [value]
