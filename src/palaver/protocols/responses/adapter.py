"""POST /v1/responses, /responses and /invocations: OpenAI's Responses API, and MLflow's variant of it.

One protocol with two profiles, chosen by the route.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

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
from palaver.core.linearize import Linearizer, linearize
from palaver.core.messages import APPROVAL_REQUEST, Data, File, Refusal, Usage
from palaver.core.model_options import required_format
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import openai, sse
from palaver.protocols.base import EventEncoder, HttpRequest, HttpResponse, WorkflowLookup, run_headers
from palaver.protocols.responses.request import Profile, ResponsesRequest, parse_request
from palaver.protocols.responses.response_object import (
    JSON_HEADER,
    OutputCall,
    OutputCollector,
    OutputItem,
    ResponseObject,
    encode_text_response,
    file_fields,
    message_item,
    response_outcome,
    text_part,
    usage_object,
)

_encode_string = msgspec.json.Encoder().encode
_ZERO_USAGE = Usage(input_tokens=0, output_tokens=0)
_EMPTY_TEXT_PART = b',"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}'
_EMPTY_SUMMARY_PART = b',"part":{"type":"summary_text","text":""}'
_DELTA_END = b',"logprobs":[]}\n\n'


class _EventPrefixes(dict[str, bytes]):
    """The beginning of a frame of each type, up to its sequence number."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __missing__(self, kind: str) -> bytes:
        # Validators of `open` require the event's name; MLflow's own streams have none.
        event_line = f"event: {kind}\n" if self._profile == "open" else ""
        prefix = self[kind] = f'{event_line}data: {{"type":"{kind}","sequence_number":'.encode()
        return prefix


_EVENT_PREFIXES: Mapping[Profile, _EventPrefixes] = {
    "open": _EventPrefixes("open"),
    "invocations": _EventPrefixes("invocations"),
}


class ResponseStreamEncoder:
    """Encodes events as server-sent events.

    The frames are a pure function of the request and the events, so a stream is resumed by encoding its log again. Text
    deltas are the hot path: everything around the text is encoded once per item.
    """

    def __init__(self, request: ResponsesRequest) -> None:
        self._request = request
        self._is_open = request.profile == "open"
        self._prefixes = _EVENT_PREFIXES[request.profile]
        self._output = OutputCollector(request)
        self._linearizer = Linearizer(self._output.overlaps)
        self._next_number = 0
        self._delta_prefix = self._prefixes["response.output_text.delta"]
        self._delta_fields = b""  # The bytes between the sequence number of a text delta and its text.
        self._has_arguments = False
        self._response: ResponseObject
        # With a required format, the end of a text waits for what follows: OpenAI's SDK parses the text when it ends,
        # so the error of a reply that does not match has to come first.
        self._holds_ends = bool(request.echo) and required_format(request.echo) is not None
        self._held_end: TextEnded | None = None

    @property
    def number(self) -> int:
        """The sequence number of the next frame."""
        return self._next_number

    def encode(self, event: Event) -> bytes:
        """Return the frames of one event, empty if it has none."""
        linearizer = self._linearizer
        if type(event) is TextDelta and event.item == linearizer.passthrough_item:
            linearizer.pieces.append(event.delta)
            number = self._next_number
            self._next_number = number + 1
            text = _encode_string(event.delta)
            return b"".join((self._delta_prefix, b"%d" % number, self._delta_fields, text, _DELTA_END))
        return b"".join(map(self._encode_event, linearizer.feed(event)))

    def _encode_event(self, event: Event) -> bytes:
        if not self._holds_ends or isinstance(event, UsageAdded):
            return self._encode_linear(event)
        error = self._error(event) if isinstance(event, RunFailed) else b""
        held, self._held_end = self._held_end, event if isinstance(event, TextEnded) else None
        end = b"" if held is None else self._close_text(held)
        return error + end + (b"" if self._held_end else self._encode_linear(event))

    def _encode_linear(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._frame(
                    "response.output_text.delta", self._delta_fields, _encode_string(event.delta), b',"logprobs":[]'
                )
            case ReasoningDelta():
                fields = self._item_fields(event.item, b',"summary_index":0,"delta":')
                return self._frame("response.reasoning_summary_text.delta", fields, _encode_string(event.delta))
            case ToolDelta():
                return self._arguments(event)
            case RunStarted():
                return self._start(event)
            case TextStarted():
                return self._open_text(event)
            case TextEnded():
                return self._close_text(event)
            case ReasoningStarted():
                return self._open_reasoning(event)
            case ReasoningEnded():
                return self._close_reasoning(event)
            case ToolStarted():
                return self._open_call(event)
            case ToolEnded():
                return self._close_call(event)
            case ToolReturned():
                return self._result(event)
            case PartAdded():
                return self._part(event)
            case UsageAdded():
                self._output.add_usage(event)
                return b""
            case RunFinished() | RunFailed() | RunCancelled():
                return self._end(event)
            case _:
                assert_never(event)

    # Text

    def _open_text(self, event: TextStarted) -> bytes:
        index = self._output.start_item(event)
        self._delta_fields = self._item_fields(event.item, b',"content_index":0,"delta":')
        added = self._item_added(index, _open_item("message", event.item, role="assistant", content=[]))
        return added + self._frame("response.content_part.added", self._content_fields(event.item), _EMPTY_TEXT_PART)

    def _close_text(self, event: TextEnded) -> bytes:
        fields, index = self._content_fields(event.item), self._output.index(event.item)
        text_item = self._output.text(event)
        annotation_frames = [self._annotation_frame(fields, n, note) for n, note in enumerate(text_item.notes)]
        text, encoded_part = _encode_string(event.text), json.encode(text_part(event.text, text_item.notes))
        done = self._frame("response.output_text.done", fields, b',"text":', text, b',"logprobs":[]')
        part = self._frame("response.content_part.done", fields, b',"part":', encoded_part)
        return b"".join((*annotation_frames, done, part, self._item_done(index, text_item.item)))

    def _annotation_frame(self, fields: bytes, index: int, annotation: OutputItem) -> bytes:
        pieces = (fields, b',"annotation_index":%d,"annotation":' % index, json.encode(annotation))
        return self._frame("response.output_text.annotation.added", *pieces)

    def _content_fields(self, item: str) -> bytes:
        return self._item_fields(item, b',"content_index":0')

    # Reasoning

    def _open_reasoning(self, event: ReasoningStarted) -> bytes:
        index = self._output.start_item(event)
        fields = self._summary_fields(event.item)
        added = self._item_added(index, _open_item("reasoning", event.item, summary=[]))
        return added + self._frame("response.reasoning_summary_part.added", fields, _EMPTY_SUMMARY_PART)

    def _close_reasoning(self, event: ReasoningEnded) -> bytes:
        fields, index = self._summary_fields(event.item), self._output.index(event.item)
        text, item = _encode_string(event.text), self._output.reasoning(event)
        done = self._frame("response.reasoning_summary_text.done", fields, b',"text":', text)
        part = b',"part":{"type":"summary_text","text":' + text + b"}"
        return done + self._frame("response.reasoning_summary_part.done", fields, part) + self._item_done(index, item)

    def _summary_fields(self, item: str) -> bytes:
        return self._item_fields(item, b',"summary_index":0')

    # Calls

    def _open_call(self, event: ToolStarted) -> bytes:
        self._has_arguments = False
        call = self._output.start_call(event)
        if call.form == "mcp_call":
            return self._start_mcp_call(call)
        if call.form == "omit":
            return b""
        item = _open_item("function_call", call.item, call_id=call.call_id, name=call.name, arguments="")
        return self._item_added(call.index, item)

    def _start_mcp_call(self, call: OutputCall) -> bytes:
        item = {**self._output.mcp_item(call), "arguments": ""}
        added = self._item_added(call.index, json.encode(item))
        return added + self._frame("response.mcp_call.in_progress", _call_fields(call))

    def _arguments(self, event: ToolDelta) -> bytes:
        call = self._output.get_call(event.item)
        if call.form != "function_call":
            return b""  # Clients need them in one piece.
        self._has_arguments = True
        return self._arguments_delta(call, event.delta)

    def _arguments_delta(self, call: OutputCall, delta: str) -> bytes:
        kind = f"response.{call.form}_arguments.delta"
        return self._frame(kind, _call_fields(call), b',"delta":', _encode_string(delta))

    def _close_call(self, event: ToolEnded) -> bytes:
        call = self._output.end_call(event)
        if call.form == "mcp_call":
            return self._mcp_arguments(call)
        if call.form == "omit":
            return b""
        has_delta = self._has_arguments or not event.arguments
        delta = b"" if has_delta else self._arguments_delta(call, event.arguments)
        pieces = (b',"name":', _encode_string(call.name), b',"arguments":', _encode_string(event.arguments))
        done = self._frame("response.function_call_arguments.done", _call_fields(call), *pieces)
        return delta + done + self._item_done(call.index, self._output.items[call.index])

    def _mcp_arguments(self, call: OutputCall) -> bytes:
        delta = self._arguments_delta(call, call.arguments)
        pieces = (_call_fields(call), b',"arguments":', _encode_string(call.arguments))
        return delta + self._frame("response.mcp_call_arguments.done", *pieces)

    def _result(self, event: ToolReturned) -> bytes:
        frames = b""
        if (resumed := self._output.resume_call(event.call_id)) is not None and resumed.form == "mcp_call":
            frames = self._start_mcp_call(resumed) + self._mcp_arguments(resumed)
        call = self._output.result(event)
        if call is None:
            index, item = self._output.separate_result(event)
            fields: dict[str, Any] = {**json.decode(item), "output": ""}
            fields.pop("palaver:is_error", None)
            return self._complete_item((index, item), {**fields, "status": "in_progress"})
        if call.form == "omit":
            return frames
        status = "failed" if event.is_error else "completed"
        ended = self._frame(f"response.mcp_call.{status}", _call_fields(call))
        return b"".join((frames, ended, self._item_done(call.index, self._output.items[call.index])))

    # Complete items

    def _part(self, event: PartAdded) -> bytes:
        added = self._output.part(event)
        transient = {"transient": True} if event.transient else {}
        match event.part:
            case Refusal(text=text) if added is not None:
                return self._refusal(event.item, text, *added)
            case Data(name=name, value=value) if name != APPROVAL_REQUEST and not self._is_open:
                return self._fields_frame("palaver:data", item_id=event.item, name=name, value=value, **transient)
            case File() as file if not self._is_open:
                return self._fields_frame("palaver:file", item_id=event.item, **file_fields(file), **transient)
            case _:
                return self._complete_item(added) if added is not None else b""

    def _refusal(self, item: str, text: str, index: int, encoded_item: bytes) -> bytes:
        fields, encoded = self._item_fields(item, b',"content_index":0', index=index), _encode_string(text)
        added = self._item_added(index, _open_item("message", item, role="assistant", content=[]))
        if self._is_open:
            return b"".join(
                (
                    added,
                    self._frame("response.content_part.added", fields, b',"part":{"type":"refusal","refusal":""}'),
                    self._frame("response.refusal.delta", fields, b',"delta":', encoded),
                    self._frame("response.refusal.done", fields, b',"refusal":', encoded),
                    self._frame(
                        "response.content_part.done", fields, b',"part":{"type":"refusal","refusal":', encoded, b"}"
                    ),
                    self._item_done(index, encoded_item),
                )
            )
        part = b',"part":' + json.encode(text_part(text))
        return b"".join(
            (
                added,
                self._frame("response.content_part.added", fields, _EMPTY_TEXT_PART),
                self._frame("response.output_text.delta", fields, b',"delta":', encoded, b',"logprobs":[]'),
                self._frame("response.output_text.done", fields, b',"text":', encoded, b',"logprobs":[]'),
                self._frame("response.content_part.done", fields, part),
                self._item_done(index, encoded_item),
            )
        )

    def _complete_item(self, indexed_item: tuple[int, bytes], started: Mapping[str, Any] | None = None) -> bytes:
        index, item = indexed_item
        added = item if started is None else json.encode(started)
        return self._item_added(index, added) + self._item_done(index, item)

    # The run

    def _start(self, started: RunStarted) -> bytes:
        self._output.start_run(started)
        self._response = ResponseObject(started, self._request)
        snapshot = self._response.running()
        if self._request.background:
            opening = self.queued(started)
        else:
            opening = self._frame("response.created", b',"response":', snapshot)
        return opening + self._frame("response.in_progress", b',"response":', snapshot)

    def queued(self, started: RunStarted) -> bytes:
        """Return the first two frames of a background response, which depend on nothing but the run's id."""
        snapshot = ResponseObject(started, self._request).running("queued")
        created = self._frame("response.created", b',"response":', snapshot)
        return created + self._frame("response.queued", b',"response":', snapshot)

    def _end(self, terminal: TerminalEvent) -> bytes:
        frames = [self._item_done(call.index, self._output.items[call.index]) for call in self._output.finish_calls()]
        if isinstance(terminal, RunFinished):
            frames += map(self._encode_linear, self._output.value_events(terminal))
        elif isinstance(terminal, RunFailed) and not self._holds_ends:
            frames.append(self._error(terminal))
        end, usage = response_outcome(terminal), self._output.usage(terminal)
        if not self._is_open:
            reason = end.reason or ("failed" if end.status == "failed" else None)
            completed = {
                "id": self._response.id,
                "status": end.status,
                "incomplete_details": {"reason": reason} if reason else None,
                "usage": usage_object(usage or _ZERO_USAGE),  # The Databricks provider raises without usage.
            }
            frames.append(self._fields_frame("responses.completed", response=completed))
        kind = {"completed": "response.completed", "failed": "response.failed"}.get(end.status, "response.incomplete")
        snapshot = self._response.complete(terminal, self._output.items, usage, self._output.custom)
        frames.append(self._frame(kind, b',"response":', snapshot))
        if self._response.trace is not None:
            frames.append(sse.data_event(json.encode({"trace_id": self._response.trace})))
        frames.append(sse.DONE)
        return b"".join(frames)

    def _error(self, failed: RunFailed) -> bytes:
        """Encode both shapes in one frame: MLflow and LangChain need the flat one, OpenAI's SDKs the nested one."""
        error = openai.error_object(failed)
        return self._fields_frame("error", code=failed.code, message=failed.message, param=None, error=error)

    # Frames

    def _frame(self, kind: str, *pieces: bytes) -> bytes:
        number = self._next_number
        self._next_number = number + 1
        return b"".join((self._prefixes[kind], b"%d" % number, *pieces, b"}\n\n"))

    def _fields_frame(self, kind: str, **fields: Any) -> bytes:
        return self._frame(kind, b",", json.encode(fields)[1:-1])

    def _item_fields(self, item: str, extra_fields: bytes = b"", index: int | None = None) -> bytes:
        index = self._output.index(item) if index is None else index
        return b"".join((b',"item_id":', _encode_string(item), b',"output_index":%d' % index, extra_fields))

    def _item_added(self, index: int, item: bytes) -> bytes:
        return self._frame("response.output_item.added", b',"output_index":%d,"item":' % index, item)

    def _item_done(self, index: int, item: bytes) -> bytes:
        return self._frame("response.output_item.done", b',"output_index":%d,"item":' % index, item)


class ResumedStreamEncoder:
    """Encodes the same stream, but drops the frames up to a sequence number that the client already has."""

    def __init__(self, request: ResponsesRequest, after: int) -> None:
        self._encoder = ResponseStreamEncoder(request)
        self._after = after

    def encode(self, event: Event) -> bytes:
        before = self._encoder.number
        frames = self._encoder.encode(event)
        count = self._encoder.number - before
        known_count = min(self._after + 1 - before, count)
        if known_count <= 0:
            return frames
        remaining = frames.split(b"\n\n", known_count)[-1]  # There is no empty line inside a frame.
        # Frames without a number, except for [DONE], belong to the last numbered frame, which the client has.
        return sse.DONE if remaining and known_count == count else remaining


def _open_item(kind: str, item: str, **fields: Any) -> bytes:
    return json.encode({"type": kind, "id": item, **fields, "status": "in_progress"})


def _call_fields(call: OutputCall) -> bytes:
    return b"".join((b',"item_id":', _encode_string(call.item), b',"output_index":%d' % call.index))


def decode(request: HttpRequest, find: WorkflowLookup) -> tuple[Call, ResponsesRequest]:
    return parse_request(request, find)


def response_head(started: RunStarted, request: ResponsesRequest) -> HttpResponse | None:
    return stream_head(started) if request.stream else None


def stream_head(started: RunStarted) -> HttpResponse:
    return HttpResponse(status=200, headers=(*openai.STREAM_HEADERS, *run_headers(started)), keep_alive=sse.KEEP_ALIVE)


def stream_encoder(request: ResponsesRequest) -> EventEncoder:
    return ResponseStreamEncoder(request).encode


def encode_response(events: Sequence[Event], request: ResponsesRequest, *, status: int) -> HttpResponse:
    """Encode the response object, or the error of a failed run."""
    started, last = events[0], events[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(last, TERMINAL_EVENTS)
    if isinstance(last, RunFailed):
        return openai.run_error_response(last, started, status=status, headers=run_headers(started))
    text = _only_text(events, request)
    if text is not None and _is_plain_stop(last) and last.at is not None:
        body = encode_text_response(started, request, json.encode(message_item(text.item, text.text)), last.at)
    else:
        output = OutputCollector(request)
        for event in linearize(events, output.overlaps):
            output.add(event)
        usage = output.usage(last)
        body = ResponseObject(started, request).complete(last, output.items, usage, output.custom)
    return HttpResponse(status=status, headers=(JSON_HEADER, *run_headers(started)), body=body)


# Background runs


def with_queued_at(request: ResponsesRequest, queued_at: datetime) -> ResponsesRequest:
    return replace(request, queued_at=queued_at)


def encode_queued(started: RunStarted, request: ResponsesRequest) -> HttpResponse:
    return HttpResponse(
        status=200,
        headers=(JSON_HEADER, *run_headers(started)),
        body=ResponseObject(started, request).running("queued"),
    )


def queued_stream(started: RunStarted, request: ResponsesRequest) -> tuple[bytes, EventEncoder]:
    """Return the frames before the run starts, and an encoder that is fed all events of the run."""
    encoder = ResponseStreamEncoder(request)
    opening = encoder.queued(started)
    return opening, ResumedStreamEncoder(request, encoder.number - 1).encode


def encode_error(error: PalaverError, request: ResponsesRequest | None, *, status: int) -> HttpResponse:
    return openai.error_response(error, status=status, to_param=request.param if request else openai.pointer_to_param)


def _is_plain_stop(last: TerminalEvent) -> bool:
    return type(last) is RunFinished and last.finish == "stop" and last.usage is None


def _only_text(events: Sequence[Event], request: ResponsesRequest) -> TextEnded | None:
    """Return the text of a run that produced just one, as most do; None for any other run."""
    if len(events) < 5 or type(events[1]) is not TextStarted or request.metadata or request.trace:
        return None
    last = events[-2]
    if type(last) is not TextEnded or last.annotations:
        return None
    if len(events) > 5 and not all(type(event) is TextDelta for event in events[2:-2]):
        return None
    return last
