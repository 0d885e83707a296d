"""Output items and the response object.

Streamed and complete responses are built by the same OutputCollector, so that they cannot differ. Each item is encoded
once; most fields of the response object never change, so they are encoded in advance.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple, assert_never, cast

from msgspec import UNSET

from palaver.core import json
from palaver.core.events import (
    Event,
    FinishReason,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TerminalEvent,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.ids import truncate_id
from palaver.core.messages import APPROVAL_REQUEST, Annotation, Data, File, Refusal, Usage
from palaver.protocols.base import ServerTools, text_or_json
from palaver.protocols.responses.request import Profile, ResponsesRequest

OutputItem = dict[str, Any]


def message_item(item: str, text: str, annotations: Sequence[OutputItem] = ()) -> OutputItem:
    return _message(item, text_part(text, annotations))


def text_part(text: str, annotations: Sequence[OutputItem] = ()) -> OutputItem:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def refusal_item(item: str, text: str) -> OutputItem:
    return _message(item, {"type": "refusal", "refusal": text})


def reasoning_item(item: str, text: str, encrypted: str | None = None) -> OutputItem:
    """Reasoning, as a summary of one part."""
    summary = [{"type": "summary_text", "text": text}]
    item_fields: OutputItem = {"type": "reasoning", "id": item, "status": "completed", "summary": summary}
    return item_fields if encrypted is None else item_fields | {"encrypted_content": encrypted}


def function_call_item(item: str, call_id: str, name: str, arguments: str) -> OutputItem:
    """A tool call; incomplete if its arguments are not JSON."""
    is_broken = arguments.strip() and not json.is_json(arguments)
    status = "incomplete" if is_broken else "completed"
    return {
        "type": "function_call",
        "id": item,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def function_call_output_item(item: str, call_id: str, output: Any, *, is_error: bool = False) -> OutputItem:
    """A tool result, always as text."""
    item_fields: OutputItem = {
        "type": "function_call_output",
        "id": item,
        "call_id": call_id,
        "output": text_or_json(output),
        "status": "completed",
    }
    return item_fields | {"palaver:is_error": True} if is_error else item_fields


def mcp_call_item(item: str, server_label: str, name: str, arguments: str) -> OutputItem:
    """A call of a tool that the workflow runs itself, in progress: clients take it as run by the server."""
    return {
        "type": "mcp_call",
        "id": item,
        "server_label": server_label,
        "name": name,
        "arguments": arguments,
        "output": None,
        "error": None,
        "approval_request_id": None,
        "status": "in_progress",
    }


def mcp_arguments(arguments: str) -> str:
    """Return the arguments as valid JSON, which clients parse: none is `{}`, text is a string."""
    if not arguments.strip():
        return "{}"
    return arguments if json.is_json(arguments) else json.encode(arguments).decode()


def with_result(item: OutputItem, event: ToolReturned) -> OutputItem:
    output = text_or_json(event.output)
    if event.is_error:  # An object, never a string: inspect_ai fails on strings.
        error = {"type": "mcp_tool_execution_error", "content": output}
        return {**item, "error": error, "status": "failed"}
    return {**item, "output": output, "status": "completed"}


def approval_item(item: str, value: Any, workflow: str) -> OutputItem:
    """An approval request. It has the id of its call, so that clients show one tool and not two."""
    request = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {
        "type": "mcp_approval_request",
        "id": _string(request.get("id")) or item,
        "name": _string(request.get("name")) or "interrupt",
        "arguments": text_or_json(request.get("arguments", {})),
        "server_label": workflow,
        "status": "completed",
    }


def data_item(item: str, part: Data) -> OutputItem:
    return {"type": "palaver:data", "id": item, "status": "completed", "name": part.name, "value": part.value}


def file_item(item: str, part: File) -> OutputItem:
    return {"type": "palaver:file", "id": item, "status": "completed"} | file_fields(part)


def file_fields(part: File) -> OutputItem:
    fields = {name: getattr(part, name) for name in ("media_type", "url", "data", "file_id", "filename")}
    return {name: value for name, value in fields.items() if value is not None}


def annotation_object(note: Annotation, length: int) -> OutputItem:
    """An annotation of a text of that length. Clients require a title and both indexes of a URL's."""
    match note.kind:
        case "url":
            return {
                "type": "url_citation",
                "url": note.url or "",
                "title": note.title or "",
                "start_index": note.start or 0,
                "end_index": length if note.end is None else note.end,
            }
        case "file":
            index = note.start or 0
            return {
                "type": "file_citation",
                "file_id": note.file_id or "",
                "filename": note.title or "",
                "index": index,
            }
        case "span":
            indexes = {"start_index": note.start or 0, "end_index": length if note.end is None else note.end}
            return {"type": "palaver:span", **indexes, "title": note.title or ""}


def _message(item: str, part: OutputItem) -> OutputItem:
    return {"type": "message", "id": item, "status": "completed", "role": "assistant", "content": [part]}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


_DEFAULTS: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "previous_response_id": None,
    "conversation": None,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}
PendingStatus = Literal["queued", "in_progress"]
"""Status of a response that has not ended."""
_INCOMPLETE_REASONS: Mapping[FinishReason, str] = {
    "length": "max_output_tokens",
    "content-filter": "content_filter",
    "interrupted": "interrupted",
}


def response_id(run_id: str) -> str:
    """The response id of a run: the same id with another prefix."""
    return "resp_" + run_id.removeprefix("run_")


class Outcome(NamedTuple):
    status: str
    reason: str | None = None
    """Why it is incomplete."""
    error: Mapping[str, str] | None = None


def response_outcome(terminal: TerminalEvent) -> Outcome:
    match terminal:
        case RunFinished(finish=finish):
            reason = _INCOMPLETE_REASONS.get(finish)
            return Outcome("incomplete", reason) if reason else Outcome("completed")
        case RunCancelled():
            return Outcome("cancelled", "cancelled")
        case RunFailed(code=code, message=message):
            return Outcome("failed", error={"code": code, "message": message})


class ResponseObject:
    """Encodes the snapshots of one response."""

    __slots__ = ("_head", "_metadata", "_profile", "_tail", "id", "trace")

    def __init__(self, started: RunStarted, request: ResponsesRequest) -> None:
        self.id = response_id(started.run_id)
        self._profile: Profile = request.profile
        self._metadata = dict(request.metadata)
        self.trace = f"tr-{started.trace_id}" if request.trace and started.trace_id else None
        """The trace id, if it was requested."""
        self._head = b"".join(
            (b'{"id":"', self.id.encode(), b'","object":"response","created_at":%d' % _created_at(started, request))
        )
        self._tail = _constant_fields(request.profile, request.model, request.echo)

    def running(self, status: PendingStatus = "in_progress", output: Sequence[bytes] = ()) -> bytes:
        """Encode the response before its end, with the items done so far."""
        return self._snapshot(status.encode(), output, Outcome(""), None, None, {}, self._metadata)

    def complete(
        self, terminal: TerminalEvent, output: Sequence[bytes], usage: Usage | None, custom: Mapping[str, Any]
    ) -> bytes:
        """Encode the response at its end."""
        end = response_outcome(terminal)
        metadata = self._metadata if self.trace is None else {**self._metadata, "trace_id": self.trace}
        completed_at = terminal.at if end.status == "completed" else None
        return self._snapshot(end.status.encode(), output, end, completed_at, usage, custom, metadata)

    def _snapshot(
        self,
        status: bytes,
        output: Sequence[bytes],
        end: Outcome,
        completed_at: datetime | None,
        usage: Usage | None,
        custom: Mapping[str, Any],
        metadata: Mapping[str, str],
    ) -> bytes:
        if completed_at is not None and usage is None and not custom and not metadata:
            # By far the most common case, with a fixed shape.
            pieces = (self._head, _COMPLETED_HEAD, b",".join(output), b'],"completed_at":%d' % _seconds(completed_at))
            return b"".join((*pieces, _COMPLETED_TAIL[self._profile], self._tail, b"}"))
        variable_fields: dict[str, Any] = {
            "completed_at": None if completed_at is None else _seconds(completed_at),
            "error": end.error,
            "incomplete_details": None if end.reason is None else {"reason": end.reason},
            "usage": None if usage is None else usage_object(usage),
        }
        if self._profile == "invocations":
            variable_fields = {name: value for name, value in variable_fields.items() if value is not None}
        if custom:
            variable_fields["custom_outputs"] = custom
        variable_fields["metadata"] = metadata
        return b"".join(
            (
                self._head,
                b',"status":"',
                status,
                b'","output":[',
                b",".join(output),
                b"],",
                json.encode(variable_fields)[1:-1],
                self._tail,
                b"}",
            )
        )


def encode_text_response(started: RunStarted, request: ResponsesRequest, item: bytes, completed_at: datetime) -> bytes:
    """Encode the response of a run that produced one text. Equal to ResponseObject's, but faster."""
    head = (
        _ID_PREFIX,
        started.run_id.removeprefix("run_").encode(),
        b'","object":"response","created_at":%d' % _created_at(started, request),
    )
    tail = (_COMPLETED_TAIL[request.profile], _constant_fields(request.profile, request.model, request.echo), b"}")
    return b"".join((*head, _COMPLETED_HEAD, item, b'],"completed_at":%d' % _seconds(completed_at), *tail))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Usage with all the details that validators require."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_input_tokens or 0,
            "cache_write_tokens": usage.cache_creation_input_tokens or 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens,
    }


def _encode_fields(profile: Profile, fields: Mapping[str, Any]) -> bytes:
    if profile == "invocations":
        fields = {name: value for name, value in fields.items() if value is not None}
    return b"," + json.encode(fields)[1:-1]


_ID_PREFIX = b'{"id":"resp_'
_COMPLETED_HEAD = b',"status":"completed","output":['
_COMPLETED_TAIL: Mapping[Profile, bytes] = {
    "open": b',"error":null,"incomplete_details":null,"usage":null,"metadata":{}',
    "invocations": b',"metadata":{}',
}


def _constant_fields(profile: Profile, model: str, echo: Mapping[str, Any]) -> bytes:
    if not echo:
        return _default_fields(profile, model)
    return b',"model":' + json.encode(model) + _encode_fields(profile, {**_DEFAULTS, **echo})


@lru_cache(256)  # Most requests use the defaults, with one of a few models.
def _default_fields(profile: Profile, model: str) -> bytes:
    return b',"model":' + json.encode(model) + _encode_fields(profile, _DEFAULTS)


def _created_at(started: RunStarted, request: ResponsesRequest) -> int:
    """Return the creation time. A background response exists before its run starts."""
    return _seconds(request.queued_at or started.at)


def _seconds(time: datetime | None) -> int:
    return int(time.timestamp()) if time else 0


class OutputCall:
    """A tool call of the run."""

    __slots__ = ("approval", "arguments", "call_id", "form", "index", "item", "name")

    def __init__(self, call_id: str, name: str, form: ServerTools, item: str, index: int) -> None:
        self.call_id = call_id
        self.name = name
        self.form: ServerTools = form
        self.item = item
        """The id of its output item."""
        self.index = index
        self.arguments = ""
        self.approval: str | None = None
        """The id of the request to approve it, in an earlier response."""


class TextItem(NamedTuple):
    """A finished text: its annotations, and its encoded item."""

    notes: list[OutputItem]
    item: bytes


class OutputCollector:
    """Collects the output items of a response in order. Its events must be linear (core/linearize.py)."""

    def __init__(self, request: ResponsesRequest) -> None:
        self.items: list[bytes] = []
        self._request = request
        self._is_open = request.profile == "open"
        self._indexes: dict[str, int] = {}
        self._server_tools: ServerTools = (request.server_tools if self._is_open else None) or "function_call"
        self._has_scoped_ids = self._is_open and request.stored and request.server_tools is not None
        self._client_tools = request.client_tools
        self._calls: dict[str, OutputCall] = {}  # By item id of the event.
        self._server_calls: dict[str, OutputCall] = {}  # Without a result yet, by call id.
        self._usage: Usage | None = None
        self._has_text = self._has_output = False
        self._data: list[Any] = []
        self._files: list[Any] = []
        self._run = ""

    @property
    def custom(self) -> Mapping[str, Any]:
        """Data and files in the profile `invocations`, which has no items for them."""
        lists = {"data": self._data, "files": self._files}
        return {name: values for name, values in lists.items() if values}

    def usage(self, terminal: TerminalEvent) -> Usage | None:
        return terminal.usage or self._usage

    def add(self, event: Event) -> None:
        """Collect one event of a response that is not streamed."""
        match event:
            case TextDelta() | ReasoningDelta() | ToolDelta():
                pass  # Their end events carry the whole text.
            case RunStarted():
                self.start_run(event)
            case TextStarted() | ReasoningStarted():
                self.start_item(event)
            case ToolStarted():
                self.start_call(event)
            case TextEnded():
                self.text(event)
            case ReasoningEnded():
                self.reasoning(event)
            case ToolEnded():
                self.end_call(event)
            case ToolReturned():
                self.resume_call(event.call_id)
                if self.result(event) is None:
                    self.separate_result(event)
            case PartAdded():
                self.part(event)
            case UsageAdded():
                self.add_usage(event)
            case RunFinished():
                self.finish_calls()
                for value_event in self.value_events(event):
                    self.add(value_event)
            case RunFailed() | RunCancelled():
                self.finish_calls()
            case _:
                assert_never(event)

    def start_run(self, started: RunStarted) -> None:
        self._run = started.run_id.removeprefix("run_")

    # Items with a start and an end

    def start_item(self, event: TextStarted | ReasoningStarted) -> int:
        return self._reserve(event.item)

    def index(self, item: str) -> int:
        return self._indexes[item]

    def text(self, event: TextEnded) -> TextItem:
        self._has_text = True
        return self._add_message(event.item, event.text, event)

    def _add_message(self, item: str, text: str, event: TextEnded | None = None) -> TextItem:
        annotations = event.annotations if event is not None else ()
        # The AI SDK's generateText accepts no others.
        supported = annotations if self._is_open else [note for note in annotations if note.kind == "url"]
        notes = [annotation_object(note, len(text)) for note in supported]
        return TextItem(notes, self._finish_item(item, json.encode(message_item(item, text, notes))))

    def reasoning(self, event: ReasoningEnded) -> bytes:
        encrypted = event.encrypted if self._request.encrypted else None
        return self._finish_item(event.item, json.encode(reasoning_item(event.item, event.text, encrypted)))

    # Tool calls

    def overlaps(self, event: ToolStarted) -> bool:
        """Whether other items may start before the call has ended."""
        return self._form(event.name) != "function_call"

    def _form(self, tool: str) -> ServerTools:
        return "function_call" if tool in self._client_tools else self._server_tools

    def _tool_item_id(self, prefix: str, call_id: str, item: str = "") -> str:
        """Return the id of a call or result; of a stored response with the id of the run, to find the item by."""
        is_scoped = prefix == "mcp" or self._has_scoped_ids
        return truncate_id(f"{prefix}_{self._run}_{call_id}") if is_scoped else item

    def start_call(self, event: ToolStarted) -> OutputCall:
        call = self._calls[event.item] = self._add_call(event.call_id, event.name, event.item)
        return call

    def resume_call(self, call_id: str) -> OutputCall | None:
        """Start a call of an earlier response again, whose result has come; None unless the workflow ran it."""
        pending = self._request.pending_calls.get(call_id)
        if pending is None or call_id in self._server_calls or self._form(pending.name) == "function_call":
            return None
        call = self._add_call(call_id, pending.name)
        call.arguments, call.approval = mcp_arguments(pending.arguments), pending.approval
        return call

    def _add_call(self, call_id: str, name: str, item: str = "") -> OutputCall:
        form = self._form(name)
        item_id = self._tool_item_id("mcp" if form == "mcp_call" else "fc", call_id, item)
        call = OutputCall(call_id, name, form, item_id, len(self.items))
        if form != "omit":
            self.items.append(b"")
        if form != "function_call":
            self._server_calls[call_id] = call
        return call

    def get_call(self, item: str) -> OutputCall:
        """Return a call that has not ended, by the item id of its events."""
        return self._calls[item]

    def end_call(self, event: ToolEnded) -> OutputCall:
        call = self._calls.pop(event.item)
        if call.form == "function_call":
            item = function_call_item(call.item, call.call_id, call.name, event.arguments)
            self.items[call.index] = json.encode(item)
        else:
            call.arguments = mcp_arguments(event.arguments)
        return call

    def result(self, event: ToolReturned) -> OutputCall | None:
        """Finish the call of a result; None if the result is an item of its own, to be added by `separate_result`."""
        call = self._server_calls.pop(event.call_id, None)
        if call is not None and call.form == "mcp_call":
            self.items[call.index] = json.encode(with_result(self.mcp_item(call), event))
        return call

    def separate_result(self, event: ToolReturned) -> tuple[int, bytes]:
        item_id = self._tool_item_id("fco", event.call_id, event.item)
        return self._append_item(
            function_call_output_item(item_id, event.call_id, event.output, is_error=event.is_error)
        )

    def mcp_item(self, call: OutputCall) -> OutputItem:
        item = mcp_call_item(call.item, self._request.workflow, call.name, call.arguments)
        if call.approval is not None:
            item["approval_request_id"] = call.approval
        if not call.item.endswith(call.call_id):  # It was too long for the id of the item.
            item["palaver:call_id"] = call.call_id
        return item

    def finish_calls(self) -> list[OutputCall]:
        """Finish the server's calls that have no result as incomplete, and return them."""
        calls = [call for call in self._server_calls.values() if call.form == "mcp_call"]
        self._server_calls.clear()
        for call in calls:
            self.items[call.index] = json.encode({**self.mcp_item(call), "status": "incomplete"})
        return calls

    # Complete items

    def part(self, event: PartAdded) -> tuple[int, bytes] | None:
        """Add a part as an item; None if the profile has no item for it."""
        if event.transient:
            return None  # Transient parts are not kept.
        match event.part:
            case Data(name=name) as data if name == APPROVAL_REQUEST:
                return self._append_item(approval_item(event.item, data.value, self._request.workflow))
            case Data() as data:
                self._has_output = self._has_output or data.name == "output"
                if self._is_open:
                    return self._append_item(data_item(event.item, data))
                self._data.append({"id": event.item, "name": data.name, "value": data.value})
            case File() as file:
                if self._is_open:
                    return self._append_item(file_item(event.item, file))
                self._files.append({"id": event.item, **file_fields(file)})
            case Refusal(text=text):
                if self._is_open:
                    return self._append_item(refusal_item(event.item, text))
                # A refusal item makes the Databricks provider's stream raise a TypeError.
                index = self._reserve(event.item)
                return index, self._add_message(event.item, text).item
            case None:
                pass
        return None

    def add_usage(self, event: UsageAdded) -> None:
        self._usage = self._usage + event.usage if self._usage else event.usage

    def value_events(self, event: RunFinished) -> list[Event]:
        """The events for the return value of a workflow that is not a chat; none if it streamed text before."""
        if event.value is UNSET or self._request.is_chat or self._has_text:
            return []
        text, name = text_or_json(event.value), f"msg_{self._run}_0"  # The grammar counts from 1.
        events: list[Event] = []
        if text:
            events += [TextStarted(item=name, message=name), TextDelta(item=name, delta=text)]
            events.append(TextEnded(item=name, text=text))
        if not isinstance(event.value, str) and not self._has_output:
            data = Data(name="output", value=event.value)
            events.append(PartAdded(item=f"dat_{self._run}_0", message=name, part=data))
        return events

    def _reserve(self, item: str) -> int:
        index = self._indexes[item] = len(self.items)
        self.items.append(b"")
        return index

    def _finish_item(self, item: str, encoded: bytes) -> bytes:
        self.items[self._indexes.pop(item)] = encoded
        return encoded

    def _append_item(self, item: OutputItem) -> tuple[int, bytes]:
        index, encoded = len(self.items), json.encode(item)
        self.items.append(encoded)
        return index, encoded


JSON_HEADER = ("content-type", "application/json")
