"""Convert the output of a Pydantic AI run to events.

Model output comes as parts that start, grow and end, tool results as separate events. A model gives a structured
answer by calling an output tool: that is emitted as the answer, not as a call.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from palaver.core import json
from palaver.core.events import (
    FinishReason,
    PartAdded,
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
from palaver.core.messages import APPROVAL_REQUEST, Annotation, Data, File, Message, Text, ToolResult, Usage
from palaver.frameworks.base import AgentReader, approval_request

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        BaseToolCallPart,
        BaseToolReturnPart,
        Citation,
        ModelMessage,
        ModelResponsePart,
        ModelResponsePartDelta,
        TextPart,
    )
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import DeferredToolRequests
    from pydantic_ai.usage import RequestUsage, RunUsage

_FINISH_REASONS: dict[str | None, FinishReason] = {"length": "length", "content_filter": "content-filter"}


class Reader(AgentReader):
    """Converts the objects of one run to events."""

    def __init__(self, history: Sequence[Message] = ()) -> None:
        super().__init__(history)
        # Held back until the next event shows whether it is an answer.
        self._pending_call: tuple[int, BaseToolCallPart[Any]] | None = None
        self._output_call_ids: set[str] = set()  # Calls that are answers.
        self._emitted_call_ids: dict[str, str] = {}  # By the framework's call id; the newest if it was reused.
        self._id_counts: dict[str, int] = {}  # How often a call id was used.
        self._output_tool: str | None = None
        self._open_calls: dict[int, str] = {}  # The calls of this response, by the index of their part.

    def feed(self, value: object) -> Iterator[OutputValue] | None:
        """Convert an object of the framework, or a list of them; None for other values."""
        from pydantic_ai import messages as sdk
        from pydantic_ai.run import AgentRunResult, AgentRunResultEvent

        match value:
            case sdk.FinalResultEvent():
                return self._emit_pending_call(output_call_id=value.tool_call_id)
            case AgentRunResultEvent():
                return chain(
                    self._emit_pending_call(), self._read_result(cast("AgentRunResultEvent[Any]", value).result)
                )
            case AgentRunResult():
                return self._read_result(cast("AgentRunResult[Any]", value))
            case sdk.ModelResponse() | sdk.ModelRequest():
                return self._read_message(value)
            case list():
                outputs = [self.feed(item) for item in cast("list[object]", value)]
                return None if None in outputs else chain.from_iterable(item for item in outputs if item)
            case _ if isinstance(kind := getattr(value, "event_kind", None), str):
                return chain(self._emit_pending_call(), self._read_event(kind, value))
            case _:
                return None

    def report_usage(self, total: "RunUsage") -> Iterator[OutputValue]:
        return self._add_total_usage(agent_usage(total))

    def _read_event(self, kind: str, event: Any) -> Iterator[OutputValue]:
        self._has_started = True
        match kind:
            case "part_start":
                yield from self._start_part(event.index, event.part)
            case "part_delta":
                yield from self._extend_part(event.index, event.delta)
            case "part_end":
                yield from self._end_part(event.index, event.part)
            case "function_tool_call" | "output_tool_call":
                yield from self._end_call(event.part)
            case "function_tool_result" | "output_tool_result":
                yield from self._add_result(event.part)
            case "custom" if event.ui:
                yield PartAdded(part=Data(name=event.name, value=to_json_value(event.to_payload())), transient=True)
            case _:
                pass  # Between the framework and its model.

    # Streamed output

    def _start_part(self, index: int, part: "ModelResponsePart") -> Iterator[OutputValue]:
        if index == 0:
            self._open_calls = {}
        match part.part_kind:
            case "text":
                # The first text of a response may name its message; later ones belong to the open one.
                yield TextStarted(message=part.id or "" if index == 0 else "")
                yield from self._add_text(part.content)
            case "thinking":
                yield ReasoningStarted()
                yield ReasoningDelta(delta=part.content)
            case "tool-call":
                self._pending_call = index, part
            case "builtin-tool-call":
                yield from self._start_call(index, part)
            case "builtin-tool-return":
                yield from self._add_result(part)
            case "file":
                self._no_text = False
                yield File(media_type=part.content.media_type, data=part.content.base64)
            case "compaction" | "speech":
                pass

    def _extend_part(self, index: int, delta: "ModelResponsePartDelta") -> Iterator[OutputValue]:
        match delta.part_delta_kind:
            case "text":
                yield from self._add_text(delta.content_delta)
            case "thinking":
                yield ReasoningDelta(delta=delta.content_delta or "")
            case "tool_call":
                if isinstance(delta.args_delta, str) and index in self._open_calls:
                    yield ToolDelta(item=self._open_calls[index], delta=delta.args_delta)
            case "speech":
                pass

    def _end_part(self, index: int, part: "ModelResponsePart") -> Iterator[OutputValue]:
        """End a part. Arguments of a call may still come if calls are interleaved: it ends when it is executed."""
        match part.part_kind:
            case "text" if notes := _annotations(part):
                yield TextEnded(annotations=notes)
            case "thinking" if part.signature:
                yield ReasoningEnded(encrypted=part.signature)
            case "tool-call" | "builtin-tool-call" if isinstance(part.args, dict) and index in self._open_calls:
                yield ToolEnded(item=self._open_calls[index], arguments=json.encode(to_json_value(part.args)).decode())
            case _:
                pass

    def _add_text(self, text: str) -> Iterator[OutputValue]:
        if text:
            self._no_text = False
            yield TextDelta(delta=text)

    def _emit_pending_call(self, output_call_id: str | None = None) -> Iterator[OutputValue]:
        """Emit the pending call, unless it is the output tool's."""
        pending, self._pending_call = self._pending_call, None
        if pending is None:
            return
        index, part = pending
        if part.tool_call_id == output_call_id:
            self._output_call_ids.add(part.tool_call_id)
        else:
            yield from self._start_call(index, part)

    def _start_call(self, index: int, part: "BaseToolCallPart[Any]") -> Iterator[OutputValue]:
        framework_id = part.tool_call_id
        # Some models reuse ids in every response.
        self._id_counts[framework_id] = use_count = self._id_counts.get(framework_id, 0) + 1
        call_id = framework_id if use_count == 1 else f"{framework_id}.{use_count}"
        self._emitted_call_ids[framework_id] = self._open_calls[index] = call_id
        yield ToolStarted(item=call_id, call_id=call_id, name=part.tool_name)
        if isinstance(part.args, str):
            yield ToolDelta(item=call_id, delta=part.args)

    # Results

    def _end_call(self, part: "BaseToolCallPart[Any]") -> Iterator[OutputValue]:
        if (call_id := self._emitted_call_ids.get(part.tool_call_id)) is not None:
            yield ToolEnded(item=call_id)

    def _add_result(self, part: "BaseToolReturnPart[Any]") -> Iterator[OutputValue]:
        from pydantic_ai.messages import ERROR_OUTCOMES

        if part.tool_call_id in self._output_call_ids:
            return
        failed = part.outcome in ERROR_OUTCOMES
        # Details of a validation error may contain private values: use the text that the model sees.
        output = (
            part.model_response_str() if failed and not isinstance(part.content, str) else to_json_value(part.content)
        )
        self._no_text = True
        call_id = self._emitted_call_ids.get(part.tool_call_id, part.tool_call_id)
        yield ToolResult(call_id=call_id, output=output, is_error=failed)

    def _read_message(self, message: "ModelMessage") -> Iterator[OutputValue]:
        """Emit a message that was not streamed: all of a response, the tool results of a request."""
        if message.kind == "request":
            for part in message.parts:
                if part.part_kind == "tool-return":
                    yield from self._add_result(part)
            return
        for index, part in enumerate(message.parts):
            yield from self._start_part(index, part)
            if part.part_kind == "tool-call" and part.tool_name == self._output_tool:
                self._output_call_ids.add(part.tool_call_id)
                self._pending_call = None
            yield from self._emit_pending_call()
            yield from self._end_part(index, part)
        self.finish = _FINISH_REASONS.get(message.finish_reason, "stop")
        yield Message.assistant()  # Ends the message.

    def _read_result(self, result: "AgentRunResult[Any]") -> Iterator[OutputValue]:
        """Emit the parts of the result that were not streamed."""
        from pydantic_ai.messages import ModelResponse
        from pydantic_ai.tools import DeferredToolRequests

        new_messages = result.new_messages()
        if not self._has_started:
            self._output_tool = getattr(result, "_output_tool_name", None)  # Not in any message.
            for message in new_messages:
                yield from self._read_message(message)
        yield from self.report_usage(result.usage)
        last = next((message for message in reversed(new_messages) if isinstance(message, ModelResponse)), None)
        self.finish = _FINISH_REASONS.get(last.finish_reason if last else None, "stop")
        if isinstance(result.output, DeferredToolRequests):
            yield from self._request_approvals(result.output)
        elif result.output is not None:
            yield from self._add_output(to_json_value(result.output))

    def _add_output(self, output: Any) -> Iterator[OutputValue]:
        data = [] if isinstance(output, str) else [Data(name="output", value=output)]
        if self._no_text or self._output_call_ids:
            text = output if isinstance(output, str) else json.encode(output).decode()
            yield Message.assistant(Text(text=text), *data)
        else:
            yield from data

    def _request_approvals(self, pending: "DeferredToolRequests") -> Iterator[OutputValue]:
        """Emit approval requests. Calls that the client has to run stay open."""
        for call in pending.approvals:
            call_id = self._emitted_call_ids.get(call.tool_call_id, call.tool_call_id)
            arguments = (
                call.args if isinstance(call.args, str) else json.encode(to_json_value(call.args or {})).decode()
            )
            yield Data(APPROVAL_REQUEST, approval_request(call_id, call_id, call.tool_name, arguments))
        self.finish = "tool-calls"


def agent_usage(usage: "RunUsage | RequestUsage") -> Usage:
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=usage.cache_read_tokens or None,
        cache_creation_input_tokens=usage.cache_write_tokens or None,
        reasoning_tokens=usage.output_reasoning_tokens or None,
        cost=None if usage.cost is None else float(usage.cost),
    )


def _annotations(part: "TextPart") -> tuple[Annotation, ...]:
    return tuple(note for citation in part.citations or () for note in _citation_annotations(citation))


def _citation_annotations(citation: "Citation") -> Iterator[Annotation]:
    start, end = (citation.anchor.start, citation.anchor.end) if citation.anchor else (None, None)
    for source in citation.sources:
        if source.kind == "web":
            yield Annotation(kind="url", title=source.title, url=source.url, start=start, end=end)
        else:
            yield Annotation(kind="file", title=source.title, file_id=source.document_id, start=start, end=end)


def to_json_value(value: object) -> Any:
    """Convert to JSON as Pydantic does."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, bytes_mode="base64", fallback=str)
