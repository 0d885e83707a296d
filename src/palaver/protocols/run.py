"""POST /{w}/run and /{w}/test: /invoke's elders. Flat bodies, JSON answers (contract: discovery, 9)."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from palaver.core import json
from palaver.core.dialects import chat_completions
from palaver.core.events import Event, RunFailed, RunStarted
from palaver.core.fold import fold
from palaver.core.runs import Call
from palaver.errors import MisplacedField, PalaverError
from palaver.protocols import agenta, forms, upstream
from palaver.protocols.agenta import JSON, Reading
from palaver.protocols.base import Answer, Find, Frames, Request

_REFERENCES = ("app", "app_id", "environment", "variant_slug", "variant_version")


def decode(request: Request, find: Find) -> tuple[Call, Reading]:
    """The call of a flat body; the group of names that picked an app at Agenta's is kept with the run."""
    workflow = find(request.workflow)
    body = forms.read_object(request)
    if "data" in body:
        raise MisplacedField("data is not read here: use /invoke.", pointer="/data")
    form = forms.read_form(body, request.headers, is_chat=workflow.is_chat)
    references = form.references | _references(body, request.query)
    form = msgspec.structs.replace(form, references=references, strays=form.strays - {*_REFERENCES})
    return agenta.understood(request, form, workflow, offers=(JSON,))


def head(started: RunStarted, reading: Reading) -> Answer | None:
    """There is no stream here."""
    return None


def frames(reading: Reading) -> Frames:
    """There is no stream here, and so no frame."""
    return lambda _: b""


def whole(events: Sequence[Event], reading: Reading, *, status: int) -> Answer:
    """The outputs under `data`, with a tree id that is the trace id in another spelling."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    if isinstance(last, RunFailed):
        return agenta.run_failure(last, started, status=status)
    outputs = agenta.outputs(fold(events), events, reading)
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
    inputs = dict(call.inputs)
    body: dict[str, Any] = {"inputs": inputs, "ag_config": call.parameters}
    if is_chat:
        body["messages"] = inputs.pop("messages", None) or chat_completions.write(call.messages)
    return Request(headers=upstream.headers(call, accept=JSON), body=json.encode(body))


class Replies:
    """Reads the reply of such a service: bytes in; at the end, the value under `data`."""

    streamed = False

    def __init__(self, content_type: str) -> None:
        self._content_type = content_type
        self._body = bytearray()

    def feed(self, data: bytes) -> list[object]:
        """Nothing can be told before the end."""
        self._body += data
        return []

    def end(self) -> list[object]:
        """The outputs."""
        match upstream.value(self._content_type, bytes(self._body)):
            case {"data": outputs}:
                return [outputs]
            case bare:
                return [bare]


def _references(body: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name in _REFERENCES:
        said, asked = body.get(name), query.get(name)
        if said is not None and asked is not None and str(said) != asked:
            raise forms.differ(f"?{name}", f"/{name}")
        if said is not None or asked is not None:
            named[name] = asked if said is None else said
    return named
