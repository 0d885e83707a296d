"""Convert the output of an OpenAI Agents run to events.

Model output comes as raw events of the Responses API, tool results as run items. Items are emitted once: as they are
streamed, or complete if the model does not stream.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from palaver.core import json
from palaver.core.events import (
    FinishReason,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolStarted,
)
from palaver.core.grammar import OutputValue
from palaver.core.messages import (
    APPROVAL_REQUEST,
    Annotation,
    Data,
    File,
    Message,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from palaver.errors import BadStream
from palaver.frameworks.base import AgentReader, approval_request

if TYPE_CHECKING:
    from agents import RunResultStreaming
    from agents import Usage as SdkUsage
    from agents.items import TResponseStreamEvent
    from agents.result import RunResultBase
    from openai.types.responses import Response, ResponseOutputMessage, ResponseUsage

_NO_ID = "__fake_id__"  # Written by the SDK for models without ids.
_CALL_TYPES = ("function_call", "custom_tool_call")
_IGNORED_ITEMS = ("mcp_list_tools", "mcp_approval_request", "compaction", "tool_search_call", "tool_search_output")
_FINISH_REASONS: dict[str | None, FinishReason] = {"max_output_tokens": "length", "content_filter": "content-filter"}


class Reader(AgentReader):
    """Converts the objects of one run to events."""

    def __init__(self, history: Sequence[Message] = ()) -> None:
        super().__init__(history)
        self.refused = False
        self._is_streamed = False
        self._call_ids: set[str] = set()
        self._requested_approvals: set[str] = set()
        self._start_response()

    def feed(self, value: object) -> Iterator[OutputValue] | None:
        """Convert an object of the SDK, or a list of them; None for other values."""
        import agents
        from agents.result import RunResultBase

        match value:
            case agents.RawResponsesStreamEvent():
                self._has_started = self._is_streamed = True
                return self._read_raw(value.data)
            case agents.RunItemStreamEvent():
                self._has_started = True
                return self._read_item(value.item)
            case agents.AgentUpdatedStreamEvent():
                return iter(())
            case RunResultBase():
                return self._read_result(value)
            case agents.MessageOutputItem() | agents.ReasoningItem() | agents.ToolCallItem() | agents.HandoffCallItem():
                return self._read_item(value)
            case agents.ToolCallOutputItem() | agents.HandoffOutputItem() | agents.ToolApprovalItem():
                return self._read_item(cast("Any", value))
            case list():
                outputs = [self.feed(item) for item in cast("list[object]", value)]
                return None if None in outputs else chain.from_iterable(item for item in outputs if item)
            case _:
                return None

    # Streamed output

    def _start_response(self) -> None:
        self._call_ids_by_index: dict[int, str] = {}  # By item index; empty for items that are not calls.
        self._texts: set[tuple[int, int]] = set()
        self._reasoning_kinds: dict[int, str] = {}  # Which text of a reasoning item is shown: `summary` or `content`.
        self._message = ""

    def _read_raw(self, event: "TResponseStreamEvent") -> Iterator[OutputValue]:
        match event.type:
            case "response.created":
                self._start_response()
                self.finish = "stop"
            case "response.output_item.added":
                yield from self._open_item(event.output_index, event.item)
            case "response.output_text.delta":
                yield from self._add_text((event.output_index, event.content_index), event.delta)
            case "response.content_part.done" if event.part.type == "output_text":
                key = (event.output_index, event.content_index)
                yield from self._finish_text(key, event.part.text, event.part.annotations)
            case "response.content_part.done" if event.part.type == "refusal":
                yield from self._add_refusal((event.output_index, event.content_index), event.part.refusal)
            case "response.reasoning_summary_part.added" if event.summary_index > 0:
                yield from self._add_reasoning(event.output_index, "summary", "\n\n")
            case "response.reasoning_summary_text.delta":
                yield from self._add_reasoning(event.output_index, "summary", event.delta)
            case "response.reasoning_text.delta":
                yield from self._add_reasoning(event.output_index, "content", event.delta)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                if call_id := self._call_ids_by_index.get(event.output_index):
                    yield ToolDelta(item=call_id, delta=event.delta)
            case "response.output_item.done":
                yield from self._close_item(event.output_index, event.item)
            case "response.completed" | "response.incomplete":
                yield from self._end_response(event.response)
            case _:
                pass  # Progress of hosted tools, and ends that another event reports too.

    def _open_item(self, index: int, item: Any) -> Iterator[OutputValue]:
        if index in self._call_ids_by_index:
            return
        self._call_ids_by_index[index] = ""
        if item.type == "message":
            # Reasoning before it has started the message already.
            is_started = bool(self._reasoning_kinds) and len(self._call_ids_by_index) == len(self._reasoning_kinds) + 1
            self._message = "" if is_started or item.id == _NO_ID else item.id
        elif item.type == "reasoning":
            self._reasoning_kinds[index] = ""
            yield ReasoningStarted()
        elif item.type in _CALL_TYPES and item.call_id not in self._call_ids:
            self._call_ids.add(item.call_id)
            self._call_ids_by_index[index] = item.call_id
            yield ToolStarted(item=item.call_id, call_id=item.call_id, name=item.name)

    def _add_text(self, key: tuple[int, int], text: str) -> Iterator[OutputValue]:
        if key not in self._texts:
            self._texts.add(key)
            yield TextStarted(message=self._message)
        self._no_text = False
        yield TextDelta(delta=text)

    def _finish_text(self, key: tuple[int, int], text: str, annotations: Sequence[Any]) -> Iterator[OutputValue]:
        if key not in self._texts:
            yield from self._add_text(key, text)
        notes = tuple(note for annotation in annotations if (note := _read_annotation(annotation)) is not None)
        if notes:
            yield TextEnded(annotations=notes)

    def _add_refusal(self, key: tuple[int, int], text: str) -> Iterator[OutputValue]:
        if key not in self._texts:
            self._texts.add(key)
            self.refused, self._no_text = True, False
            yield Refusal(text=text)

    def _add_reasoning(self, index: int, kind: str, text: str) -> Iterator[OutputValue]:
        if self._reasoning_kinds.get(index) in ("", None):
            self._reasoning_kinds[index] = kind
        if self._reasoning_kinds[index] == kind:
            yield ReasoningDelta(delta=text)

    def _close_item(self, index: int, item: Any) -> Iterator[OutputValue]:
        """Emit the rest of an item, and its end."""
        yield from self._open_item(index, item)
        match item.type:
            case "message":
                for position, part in enumerate(cast("ResponseOutputMessage", item).content):
                    if part.type == "refusal":
                        yield from self._add_refusal((index, position), part.refusal)
                    elif (index, position) not in self._texts:
                        yield from self._finish_text((index, position), part.text, part.annotations)
            case "reasoning":
                parts = () if self._reasoning_kinds[index] else item.summary or item.content or ()
                text = "\n\n".join(part.text for part in parts)
                yield ReasoningEnded(text=text, encrypted=item.encrypted_content)
            case "function_call" | "custom_tool_call":
                if call_id := self._call_ids_by_index[index]:
                    arguments = item.arguments if item.type == "function_call" else item.input
                    yield ToolEnded(item=call_id, arguments=arguments)
            case _:
                yield from self._read_hosted(item)

    def _end_response(self, response: "Response") -> Iterator[OutputValue]:
        if not self._call_ids_by_index:  # A model that does not stream.
            for index, item in enumerate(response.output):
                yield from self._close_item(index, item)
        details = response.incomplete_details
        self.finish = _FINISH_REASONS.get(details.reason, "stop") if details else "stop"
        if response.usage is not None:
            yield from self._add_usage(sdk_usage(cast("Any", response.usage)))
        self._start_response()

    def _read_hosted(self, item: Any) -> Iterator[OutputValue]:
        """Emit an item of a hosted tool, or of a local tool that is not a function."""
        if item.type in _IGNORED_ITEMS:
            return
        fields = cast("dict[str, Any]", item.model_dump(mode="json", exclude_none=True))
        if item.type == "image_generation_call" and fields.get("result"):
            yield File(media_type=f"image/{fields.get('output_format', 'png')}", data=fields["result"])
        elif call_id := fields.get("call_id"):
            if call_id not in self._call_ids:
                self._call_ids.add(call_id)
                arguments = {
                    key: value for key, value in fields.items() if key not in ("id", "call_id", "type", "status")
                }
                name = item.type.removesuffix("_call")
                yield ToolCall(call_id=call_id, name=name, arguments=json.encode(arguments).decode())
        else:
            yield Data(name=f"responses:{item.type}", value=fields)

    # Results

    def _read_item(self, item: Any) -> Iterator[OutputValue]:
        match item.type:
            case "message_output_item" | "reasoning_item" | "tool_call_item" | "handoff_call_item":
                if not self._is_streamed:
                    self._start_response()
                    yield from self._close_item(0, item.raw_item)
            case "tool_call_output_item":
                yield from self._add_result(item.raw_item, item.output)
            case "handoff_output_item":
                yield from self._add_result(item.raw_item, item.raw_item["output"])
            case "tool_approval_item":
                yield from self._request_approval(item)
            case "mcp_approval_request_item":
                yield from self._request_approval(item.raw_item)
            case _:
                pass  # Between the SDK and its model.

    def _add_result(self, raw: Any, output: object) -> Iterator[OutputValue]:
        call_id: object = cast("dict[str, Any]", raw).get("call_id") if isinstance(raw, dict) else raw.call_id
        if call_id is None:
            return  # A hosted tool: its item has the result.
        from agents import default_tool_error_function

        # The SDK does not mark errors; only its default error text can be recognized.
        is_error = output == default_tool_error_function(cast("Any", None), Exception())
        self._no_text = True
        yield ToolResult(call_id=str(call_id), output=to_json_value(output), is_error=is_error)

    def _request_approval(self, item: Any) -> Iterator[OutputValue]:
        request_id = str(getattr(item, "call_id", None) or item.id)
        if request_id in self._requested_approvals:
            return
        self._requested_approvals.add(request_id)
        call_id = request_id if request_id in self._call_ids else None
        yield Data(APPROVAL_REQUEST, approval_request(request_id, call_id, item.name, item.arguments or ""))
        self.finish = "tool-calls"

    def _read_result(self, result: "RunResultBase") -> Iterator[OutputValue]:
        """Emit the parts of the result that were not streamed."""
        if not self._has_started:
            if not getattr(result, "is_complete", True):
                raise BadStream(
                    "The workflow yielded a RunResultStreaming. Yield the events of its stream_events() instead."
                )
            for item in result.new_items:
                yield from self._read_item(item)
        # Only the total includes agents that run as tools.
        yield from self._add_total_usage(sdk_usage(result.context_wrapper.usage))
        for interruption in cast("RunResultStreaming", result).interruptions:
            yield from self._request_approval(interruption)
        if (output := result.final_output) is None:
            return
        value = to_json_value(output)
        if self._no_text:  # The result of a tool is the answer.
            yield Text(text=json.result_text(value))
        if not isinstance(value, str):
            yield Data(name="output", value=value)


def sdk_usage(usage: "ResponseUsage | SdkUsage") -> Usage:
    input_details, output_details = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cached_input_tokens=getattr(input_details, "cached_tokens", None) or None,
        cache_creation_input_tokens=getattr(input_details, "cache_write_tokens", None) or None,
        reasoning_tokens=getattr(output_details, "reasoning_tokens", None) or None,
    )


def _read_annotation(annotation: Any) -> Annotation | None:
    match annotation.type:
        case "url_citation":
            return Annotation(
                kind="url",
                title=annotation.title,
                url=annotation.url,
                start=annotation.start_index,
                end=annotation.end_index,
            )
        case "file_citation" | "container_file_citation":
            return Annotation(kind="file", title=annotation.filename, file_id=annotation.file_id)
        case _:
            return None


def to_json_value(value: object) -> Any:
    """Convert to JSON; other values become their `str()`, which the model gets too."""
    try:
        return json.to_builtins(value)
    except json.NotJson:
        return str(value)
