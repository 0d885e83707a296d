"""POST /v1/chat/completions.

A run is one completion with one choice and one message: the texts of its messages are joined, and only tool calls that
the client has to run are included. Data and files have no place in this protocol and are left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, assert_never

import msgspec
from msgspec import UNSET

from palaver.core import json
from palaver.core.events import (
    TERMINAL_EVENTS,
    Event,
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
from palaver.core.linearize import Linearizer
from palaver.core.messages import APPROVAL_REQUEST, Data, Refusal, ToolCall, Usage
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import base, openai, sse
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, WorkflowLookup, run_headers, text_or_json
from palaver.protocols.chat_completions.request import parse_messages, parse_options
from palaver.protocols.openai import JsonFields

Delta = dict[str, Any]
"""The fields that one chunk adds to the message."""

MESSAGE_SEPARATOR = "\n\n"

_FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]


class DeltaEncoder:
    """Encodes events as deltas. Calls of a tool in `tools` are the client's and are sent as they come.

    Other calls are the workflow's and held back; those without a result at the end are sent, so that a workflow can
    leave a call to a client that declared no tools.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self.linearizer = Linearizer()
        self.usage: Usage | None = None
        self.finish_reason: _FinishReason = "stop"
        self._tools = tools
        self._last_message: str | None = None  # The last message with text.
        self._length = 0  # Of the content before the open text item.
        self._annotation_count = 0
        self._call_count = 0  # The number of calls sent so far.
        self._call: ToolStarted | None = None  # The open call.
        self._is_client_call = False  # Whether the open call is the client's.
        self._has_no_arguments = False  # Whether the open call has no arguments yet.
        self._workflow_calls: dict[str, ToolCall] = {}  # Finished calls of the workflow, by id.
        self._unanswered: set[str] = set()  # Calls that were sent and have no result.

    def feed(self, event: Event) -> list[Delta]:
        return [delta for linear_event in self.linearizer.feed(event) for delta in self._encode_event(linear_event)]

    def _encode_event(self, event: Event) -> Sequence[Delta]:
        match event:
            case TextDelta(delta=delta):
                return ({"content": delta},)
            case ReasoningDelta(delta=delta):
                return ({"reasoning_content": delta},)
            case ToolDelta(delta=delta):
                return self._add_arguments(delta)
            case RunStarted():
                return ({"role": "assistant", "content": ""},)
            case TextStarted(message=message):
                return self._start_text(message)
            case TextEnded():
                return self._add_annotations(event)
            case ReasoningStarted() | ReasoningEnded():
                return ()
            case ToolStarted():
                return self._open_call(event)
            case ToolEnded(arguments=arguments):
                return self._close_call(arguments)
            case ToolReturned(call_id=call_id):
                self._workflow_calls.pop(call_id, None)
                self._unanswered.discard(call_id)
                return ()
            case PartAdded(part=part):
                return self._add_part(part)
            case UsageAdded(usage=usage):
                self.usage = self.usage + usage if self.usage else usage
                return ()
            case RunFinished() if not is_incomplete(event):
                return self._finish(event)
            case RunFinished() | RunFailed() | RunCancelled():
                self.finish_reason = "length"  # The run did not finish; no other reason says that the text is cut off.
                return ()
            case _:
                assert_never(event)

    # Text

    def _start_text(self, message: str) -> Sequence[Delta]:
        previous, self._last_message = self._last_message, message
        if previous is None or previous == message:
            return ()
        self._length += len(MESSAGE_SEPARATOR)
        return ({"content": MESSAGE_SEPARATOR},)

    def _add_annotations(self, event: TextEnded) -> Sequence[Delta]:
        """Return the annotations, with offsets in the whole content."""
        start, end = self._length, self._length + len(event.text)
        self._length = end
        annotations = [
            {
                "url": note.url,
                "title": note.title or "",
                "start_index": start if note.start is None else start + note.start,
                "end_index": end if note.end is None else start + note.end,
            }
            for note in event.annotations
            if note.kind == "url"
        ]
        if not annotations:
            return ()
        # Entries of a list that grows must be numbered for OpenAI's `stream()` helper.
        sent_count = self._annotation_count
        numbers = [{"index": sent_count + offset} if sent_count else {} for offset in range(len(annotations))]
        self._annotation_count = sent_count + len(annotations)
        entries = zip(numbers, annotations, strict=True)
        return (
            {"annotations": [{**number, "type": "url_citation", "url_citation": note} for number, note in entries]},
        )

    def _add_part(self, part: object) -> Sequence[Delta]:
        match part:
            case Refusal(text=text) if text:
                return ({"refusal": text},)
            case Data(name=name, value={"call_id": str(call_id)}) if name == APPROVAL_REQUEST:
                self._workflow_calls.pop(call_id, None)  # A person has to answer, not the client.
                return ()
            case _:
                return ()

    # Calls

    def _open_call(self, event: ToolStarted) -> Sequence[Delta]:
        self._call, self._is_client_call, self._has_no_arguments = event, event.name in self._tools, True
        return (self._call_delta(event.call_id, event.name),) if self._is_client_call else ()

    def _add_arguments(self, delta: str) -> Sequence[Delta]:
        self._has_no_arguments = False
        return (self._arguments_delta(delta),) if self._is_client_call else ()  # The end event has them all.

    def _close_call(self, arguments: str) -> Sequence[Delta]:
        call = self._call
        if self._is_client_call:
            return (self._arguments_delta(arguments),) if self._has_no_arguments and arguments else ()
        assert call is not None
        self._workflow_calls[call.call_id] = ToolCall(call_id=call.call_id, name=call.name, arguments=arguments)
        return ()

    def _call_delta(self, call_id: str, name: str) -> Delta:
        function = {"name": name, "arguments": ""}
        call = {"index": self._call_count, "id": call_id, "type": "function", "function": function}
        self._call_count += 1
        self._unanswered.add(call_id)
        return {"tool_calls": [call]}

    def _arguments_delta(self, arguments: str) -> Delta:
        """Return a piece of the last call that was sent; no other call is open."""
        return {"tool_calls": [{"index": self._call_count - 1, "function": {"arguments": arguments}}]}

    # The end

    def _finish(self, event: RunFinished) -> Sequence[Delta]:
        deltas: list[Delta] = []
        # Not if its text was streamed.
        if event.value is not UNSET and self._last_message is None and (content := text_or_json(event.value)):
            deltas.append({"content": content})
        for call in self._workflow_calls.values():
            deltas.append(self._call_delta(call.call_id, call.name))
            if call.arguments:
                deltas.append(self._arguments_delta(call.arguments))
        match event.finish:
            case "length":
                self.finish_reason = "length"
            case "content-filter":
                self.finish_reason = "content_filter"
            case _:
                self.finish_reason = "tool_calls" if self._unanswered else "stop"
        return deltas


def is_incomplete(event: TerminalEvent) -> bool:
    """Whether the run did not finish."""
    return not isinstance(event, RunFinished) or event.finish == "interrupted"


DONE = sse.data_event(b"[DONE]")

_INTERRUPTED = RunFailed(code="interrupted", message="The run was interrupted.")
_encode_string = msgspec.json.Encoder().encode


class ChatStreamEncoder:
    """Encodes events as chunks. Text deltas are the hot path: everything around the text is encoded once."""

    def __init__(self, model: str, tools: Collection[str], *, include_usage: bool) -> None:
        self._model = model
        self._include_usage = include_usage
        self._deltas = DeltaEncoder(tools)
        self._linearizer = self._deltas.linearizer
        self._head = self._delta_prefix = b""
        self._end = b"}\n\n"
        if include_usage:
            self._end = b',"usage":null' + self._end
        self._tail = b',"logprobs":null,"finish_reason":null}]' + self._end
        self._delta_suffix = b"}" + self._tail

    def encode(self, event: Event) -> bytes:
        """Return the chunks of one event, empty if it has none."""
        linearizer = self._linearizer
        if type(event) is TextDelta and event.item == linearizer.passthrough_item:
            linearizer.pieces.append(event.delta)
            return b"".join((self._delta_prefix, _encode_string(event.delta), self._delta_suffix))
        if isinstance(event, RunStarted):
            self._start(event)
        chunks = [self._chunk(delta) for delta in self._deltas.feed(event)]
        if isinstance(event, TERMINAL_EVENTS):
            chunks += self._end_chunks(event)
        return b"".join(chunks)

    def _start(self, started: RunStarted) -> None:
        prefix = json.encode(completion_fields(started, self._model, "chat.completion.chunk"))
        self._head = b'data: %b,"choices":[' % prefix.removesuffix(b"}")
        self._delta_prefix = self._head + b'{"index":0,"delta":{"content":'

    def _chunk(self, delta: Delta) -> bytes:
        return b'%b{"index":0,"delta":%b%b' % (self._head, json.encode(delta), self._tail)

    def _end_chunks(self, event: TerminalEvent) -> Iterable[bytes]:
        if is_incomplete(event):
            ended = _INTERRUPTED if isinstance(event, RunFinished) else event
            yield sse.data_event(json.encode({"error": openai.error_object(ended)}))
        else:
            reason = self._deltas.finish_reason.encode()
            choice = b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"%b"}]' % reason
            yield self._head + choice + self._end
            usage = event.usage or self._deltas.usage
            if self._include_usage and usage is not None:
                yield b'%b],"usage":%b}\n\n' % (self._head, json.encode(usage_fields(usage)))
        yield DONE


def completion_fields(started: RunStarted, model: str, kind: str) -> dict[str, Any]:
    """The fields that every chunk, and the complete response, starts with."""
    created = 0 if started.at is None else int(started.at.timestamp())
    return {"id": f"chatcmpl-{started.run_id}", "object": kind, "created": created, "model": model}


def join_deltas(deltas: Iterable[Delta]) -> dict[str, Any]:
    """Join deltas to the message that a client would build."""
    pieces: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning_content": []}
    annotations: list[Any] = []
    calls: list[dict[str, Any]] = []
    arguments: list[list[str]] = []
    for delta in deltas:
        for name, value in delta.items():
            match name:
                case "content" | "refusal" | "reasoning_content":
                    pieces[name].append(value)
                case "annotations":
                    annotations += [{key: value for key, value in note.items() if key != "index"} for note in value]
                case "tool_calls" if value[0]["index"] == len(calls):
                    calls.append(value[0])
                    arguments.append([])
                case "tool_calls":
                    arguments[-1].append(value[0]["function"]["arguments"])
                case _:
                    pass  # The role.
    content, refusal, reasoning = ("".join(texts) for texts in pieces.values())
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content or (None if calls or refusal else ""),
        "refusal": refusal or None,
        "annotations": annotations,
    }
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["function"]["name"], "arguments": "".join(texts)},
            }
            for call, texts in zip(calls, arguments, strict=True)
        ]
    return message


def usage_fields(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


_MAX_MODEL_LENGTH = 256
_SHARED_FIELDS = ("custom_inputs", "parameters", "context", "metadata", "safety_identifier", "user")
_EMPTY: Mapping[str, Any] = {}


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to encode the response."""

    model: str = ""
    stream: bool = False
    include_usage: bool = False
    client_tools: frozenset[str] = frozenset()


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ChatRequest]:
    """Parse a request. At the root, `model` names the workflow."""
    fields = JsonFields.from_request(request)
    body = fields.body
    model = fields.string("model", max_length=_MAX_MODEL_LENGTH)
    workflow = openai.find_model(find, model) if request.workflow is None else find(request.workflow)
    options = parse_options(fields, workflow)
    shared = openai.parse_shared_fields(fields, workflow) if not body.keys().isdisjoint(_SHARED_FIELDS) else None
    chat_request = ChatRequest(
        model=model or workflow.name,
        stream=fields.boolean("stream", default=False),
        include_usage=fields.nested("stream_options").boolean("include_usage", default=False),
        client_tools=openai.client_tool_names(JsonFields(options)) if "tools" in options else frozenset(),
    )
    call = Call(
        workflow=workflow.name,
        messages=parse_messages(fields) if workflow.is_chat else (),
        inputs=shared.inputs if shared else _EMPTY,
        parameters=shared.parameters if shared else _EMPTY,
        session=shared.session if shared else None,
        user=shared.user if shared else None,
        client_tools=chat_request.client_tools,
        options=options,
        tags=shared.metadata if shared else _EMPTY,
        trace_parent=request.trace_parent,
    )
    return call, chat_request


def response_head(started: RunStarted, request: ChatRequest) -> HttpResponse | None:
    if not request.stream:
        return None
    headers = (*openai.STREAM_HEADERS, *run_headers(started))
    return HttpResponse(status=200, headers=headers, keep_alive=sse.KEEP_ALIVE)


def stream_encoder(request: ChatRequest) -> EventEncoder:
    return ChatStreamEncoder(request.model, request.client_tools, include_usage=request.include_usage).encode


def encode_response(events: Sequence[Event], request: ChatRequest, *, status: int) -> HttpResponse:
    """Encode the completion; of a failed run the error, of a cancelled one the text so far."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai.run_error_response(last, started, status=status, headers=run_headers(started))
    deltas = DeltaEncoder(request.client_tools)
    message = join_deltas(delta for event in events for delta in deltas.feed(event))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": deltas.finish_reason}
    document = completion_fields(started, request.model, "chat.completion") | {
        "system_fingerprint": None,
        "choices": [choice],
    }
    if usage := last.usage or deltas.usage:
        document["usage"] = usage_fields(usage)
    return base.json_response(document, status=status, headers=run_headers(started))


def encode_error(error: PalaverError, request: ChatRequest | None, *, status: int) -> HttpResponse:
    return openai.error_response(error, status=status, to_param=_param)


def _param(pointer: str) -> str:
    """Convert a pointer into the Call to a param: inputs are sent as `custom_inputs`."""
    first, slash, tail = pointer.removeprefix("/").partition("/")
    return openai.pointer_to_param(f"/custom_inputs{slash}{tail}" if first == "inputs" else pointer)
