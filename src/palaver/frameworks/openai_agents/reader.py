"""What the OpenAI Agents SDK says while an agent runs, as our events.

A sync machine, one per run. The model's words come as raw events of the Responses API, what tools answered as run
items. Items that were streamed are not said again; those of a model that does not stream are said whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from palaver.core import json
from palaver.core.events import (
    FinishReason,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
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

if TYPE_CHECKING:
    from agents import RunResultStreaming
    from agents import Usage as SdkUsage
    from agents.items import TResponseStreamEvent
    from agents.result import RunResultBase
    from openai.types.responses import Response, ResponseOutputMessage, ResponseReasoningItem, ResponseUsage

_NO_ID = "__fake_id__"  # What the SDK writes where a model has no ids of its own.
_CALLS = ("function_call", "custom_tool_call")
_SILENT = ("mcp_list_tools", "mcp_approval_request", "compaction", "tool_search_call", "tool_search_output")
"""Between a model and its provider: nothing that was said."""
_FINISHES: dict[str | None, FinishReason] = {"max_output_tokens": "length", "content_filter": "content-filter"}


class Reader:
    """Understands what one run of an agent gives."""

    def __init__(self, _history: Sequence[Message] = ()) -> None:
        self.finish: FinishReason = "stop"
        """How the last response of the model ended."""
        self.refused = False
        """Did the model decline?"""
        self._began = False
        self._streamed = False
        self._silent = True  # No text since the last result of a tool.
        self._calls: set[str] = set()
        self._asked: set[str] = set()  # For approval.
        self._spent = Usage(input_tokens=0, output_tokens=0)
        self._reset()

    def feed(self, value: object) -> Iterator[OutputValue] | None:
        """What one object of the SDK amounts to, or a list of them; None for what is not said in a run."""
        import agents
        from agents.result import RunResultBase

        match value:
            case agents.RawResponsesStreamEvent():
                self._began = self._streamed = True
                return self._raw(value.data)
            case agents.RunItemStreamEvent():
                self._began = True
                return self._item(value.item)
            case agents.AgentUpdatedStreamEvent():
                return iter(())
            case RunResultBase():
                return self._result(value)
            case agents.MessageOutputItem() | agents.ReasoningItem() | agents.ToolCallItem() | agents.HandoffCallItem():
                return self._item(value)
            case agents.ToolCallOutputItem() | agents.HandoffOutputItem() | agents.ToolApprovalItem():
                return self._item(cast("Any", value))
            case list():
                said = [self.feed(each) for each in cast("list[object]", value)]
                return None if None in said else chain.from_iterable(each for each in said if each)
            case _:
                return None

    def end(self) -> Iterable[OutputValue]:
        """How the run ends, where the model did not come to its own end."""
        return [] if self.finish == "stop" else [RunFinished(finish=self.finish)]

    # The model's words, as they come

    def _reset(self) -> None:
        """A response begins."""
        self._opened: dict[int, str] = {}  # Its items, and of calls their ids.
        self._texts: set[tuple[int, int]] = set()
        self._thoughts: dict[int, str] = {}  # Which of its two kinds of text an item of reasoning shows.
        self._message = ""

    def _raw(self, event: "TResponseStreamEvent") -> Iterator[OutputValue]:
        match event.type:
            case "response.created":
                self._reset()
                self.finish = "stop"
            case "response.output_item.added":
                yield from self._open(event.output_index, event.item)
            case "response.output_text.delta":
                yield from self._say((event.output_index, event.content_index), event.delta)
            case "response.content_part.done" if event.part.type == "output_text":
                key = (event.output_index, event.content_index)
                yield from self._said(key, event.part.text, event.part.annotations)
            case "response.content_part.done" if event.part.type == "refusal":
                yield from self._refuse((event.output_index, event.content_index), event.part.refusal)
            case "response.reasoning_summary_part.added" if event.summary_index > 0:
                yield from self._think(event.output_index, "summary", "\n\n")
            case "response.reasoning_summary_text.delta":
                yield from self._think(event.output_index, "summary", event.delta)
            case "response.reasoning_text.delta":
                yield from self._think(event.output_index, "content", event.delta)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                if call_id := self._opened.get(event.output_index):
                    yield ToolDelta(item=call_id, delta=event.delta)
            case "response.output_item.done":
                yield from self._close(event.output_index, event.item)
            case "response.completed" | "response.incomplete":
                yield from self._end(event.response)
            case _:
                pass  # Progress of hosted tools, and ends that another event says too.

    def _open(self, index: int, item: Any) -> Iterator[OutputValue]:
        if index in self._opened:
            return
        self._opened[index] = ""
        if item.type == "message":
            # Reasoning that came first has begun a message already, and this one belongs to it.
            begun = bool(self._thoughts) and len(self._opened) == len(self._thoughts) + 1
            self._message = "" if begun or item.id == _NO_ID else item.id
        elif item.type == "reasoning":
            self._thoughts[index] = ""
            yield ReasoningStarted()
        elif item.type in _CALLS and item.call_id not in self._calls:
            self._calls.add(item.call_id)
            self._opened[index] = item.call_id
            yield ToolStarted(item=item.call_id, call_id=item.call_id, name=item.name)

    def _say(self, key: tuple[int, int], text: str) -> Iterator[OutputValue]:
        if key not in self._texts:
            self._texts.add(key)
            yield TextStarted(message=self._message)
        self._silent = False
        yield TextDelta(delta=text)

    def _said(self, key: tuple[int, int], text: str, annotations: Sequence[Any]) -> Iterator[OutputValue]:
        if key not in self._texts:
            yield from self._say(key, text)
        if notes := _annotations(annotations):
            yield TextEnded(annotations=notes)

    def _refuse(self, key: tuple[int, int], text: str) -> Iterator[OutputValue]:
        if key not in self._texts:
            self._texts.add(key)
            self.refused, self._silent = True, False
            yield Refusal(text=text)

    def _think(self, index: int, kind: str, text: str) -> Iterator[OutputValue]:
        if self._thoughts.get(index) in ("", None):
            self._thoughts[index] = kind
        if self._thoughts[index] == kind:
            yield ReasoningDelta(delta=text)

    def _close(self, index: int, item: Any) -> Iterator[OutputValue]:
        """An item, as far as it has not been said."""
        yield from self._open(index, item)
        match item.type:
            case "message":
                for place, part in enumerate(cast("ResponseOutputMessage", item).content):
                    if part.type == "refusal":
                        yield from self._refuse((index, place), part.refusal)
                    elif (index, place) not in self._texts:
                        yield from self._said((index, place), part.text, part.annotations)
            case "reasoning":
                text = "" if self._thoughts[index] else _reasoning_text(item)
                yield ReasoningEnded(text=text, encrypted=item.encrypted_content)
            case "function_call" | "custom_tool_call":
                if call_id := self._opened[index]:
                    arguments = item.arguments if item.type == "function_call" else item.input
                    yield ToolEnded(item=call_id, arguments=arguments)
            case _:
                yield from self._hosted(item)

    def _end(self, response: "Response") -> Iterator[OutputValue]:
        if not self._opened:  # A model that does not stream.
            for index, item in enumerate(response.output):
                yield from self._close(index, item)
        details = response.incomplete_details
        self.finish = _FINISHES.get(details.reason, "stop") if details else "stop"
        if response.usage is not None:
            yield from self._spend(sdk_usage(cast("Any", response.usage)))
        self._reset()

    def _hosted(self, item: Any) -> Iterator[OutputValue]:
        """A tool that the model's provider runs, or one of ours that is no function."""
        if item.type in _SILENT:
            return
        plain = cast("dict[str, Any]", item.model_dump(mode="json", exclude_none=True))
        if item.type == "image_generation_call" and plain.get("result"):
            yield File(media_type=f"image/{plain.get('output_format', 'png')}", data=plain["result"])
        elif call_id := plain.get("call_id"):
            if call_id not in self._calls:
                self._calls.add(call_id)
                asked = {key: value for key, value in plain.items() if key not in ("id", "call_id", "type", "status")}
                name = item.type.removesuffix("_call")
                yield ToolCall(call_id=call_id, name=name, arguments=json.encode(asked).decode())
        else:
            yield Data(name=f"responses:{item.type}", value=plain)

    # What became of it

    def _item(self, item: Any) -> Iterator[OutputValue]:
        match item.type:
            case "message_output_item" | "reasoning_item" | "tool_call_item" | "handoff_call_item":
                if not self._streamed:
                    self._reset()
                    yield from self._close(0, item.raw_item)
            case "tool_call_output_item":
                yield from self._answer(item.raw_item, item.output)
            case "handoff_output_item":
                yield from self._answer(item.raw_item, item.raw_item["output"])
            case "tool_approval_item":
                yield from self._ask(item)
            case "mcp_approval_request_item":
                yield from self._ask(item.raw_item)
            case _:
                pass  # Between the SDK and its model.

    def _answer(self, raw: Any, output: object) -> Iterator[OutputValue]:
        call_id: object = cast("dict[str, Any]", raw).get("call_id") if isinstance(raw, dict) else raw.call_id
        if call_id is None:
            return  # Of a hosted tool: its item holds the result.
        from agents import default_tool_error_function

        # The SDK marks no result as an error. Its own sentence for one is fixed; an author's may say anything.
        failed = output == default_tool_error_function(cast("Any", None), Exception())
        self._silent = True
        yield ToolResult(call_id=str(call_id), output=to_json_value(output), is_error=failed)

    def _ask(self, item: Any) -> Iterator[OutputValue]:
        """A call that waits for a person's word."""
        waiting = str(getattr(item, "call_id", None) or item.id)
        if waiting in self._asked:
            return
        self._asked.add(waiting)
        yield Data(
            name=APPROVAL_REQUEST,
            value={
                "id": waiting,
                "call_id": waiting if waiting in self._calls else None,
                "name": item.name,
                "arguments": item.arguments or "",
                "message": None,
                "decisions": ["approve", "reject"],
                "interrupt": None,
            },
        )
        self.finish = "tool-calls"

    def _result(self, result: "RunResultBase") -> Iterator[OutputValue]:
        """What the whole result says beyond what was streamed."""
        if not self._began:
            if not getattr(result, "is_complete", True):
                raise BadStream("The workflow gave a RunResultStreaming: yield what its stream_events() gives instead.")
            for item in result.new_items:
                yield from self._item(item)
        yield from self._spend(sdk_usage(result.context_wrapper.usage), total=True)
        for pending in cast("RunResultStreaming", result).interruptions:
            yield from self._ask(pending)
        if (output := result.final_output) is None:
            return
        came = to_json_value(output)
        if self._silent:  # The result of a tool is the answer.
            yield Text(text=came if isinstance(came, str) else json.encode(came).decode())
        if not isinstance(came, str):
            yield Data(name="output", value=came)

    def _spend(self, usage: Usage, *, total: bool = False) -> Iterator[OutputValue]:
        """Say what was not said yet: agents that are tools spend too, and only the total knows of them."""
        more = _usage_difference(usage, self._spent) if total else usage
        if more.total_tokens > 0:
            self._spent += more
            yield more


def sdk_usage(usage: "ResponseUsage | SdkUsage") -> Usage:
    """What was spent, of one response or of a whole run."""
    given, made = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cached_input_tokens=getattr(given, "cached_tokens", None) or None,
        cache_creation_input_tokens=getattr(given, "cache_write_tokens", None) or None,
        reasoning_tokens=getattr(made, "reasoning_tokens", None) or None,
    )


def _usage_difference(total: Usage, told: Usage) -> Usage:
    def rest(one: int | None, other: int | None) -> int | None:
        return (one or 0) - (other or 0) or None

    return Usage(
        input_tokens=total.input_tokens - told.input_tokens,
        output_tokens=total.output_tokens - told.output_tokens,
        cached_input_tokens=rest(total.cached_input_tokens, told.cached_input_tokens),
        cache_creation_input_tokens=rest(total.cache_creation_input_tokens, told.cache_creation_input_tokens),
        reasoning_tokens=rest(total.reasoning_tokens, told.reasoning_tokens),
    )


def _annotations(given: Iterable[Any]) -> tuple[Annotation, ...]:
    return tuple(note for annotation in given if (note := _annotation(annotation)) is not None)


def _annotation(given: Any) -> Annotation | None:
    match given.type:
        case "url_citation":
            return Annotation(
                kind="url", title=given.title, url=given.url, start=given.start_index, end=given.end_index
            )
        case "file_citation" | "container_file_citation":
            return Annotation(kind="file", title=given.filename, file_id=given.file_id)
        case _:
            return None


def _reasoning_text(item: "ResponseReasoningItem") -> str:
    return "\n\n".join(part.text for part in item.summary or item.content or ())


def to_json_value(value: object) -> Any:
    """The value as JSON; where it has no such form, the text that the model was given."""
    try:
        return json.to_builtins(value)
    except json.NotJson:
        return str(value)
