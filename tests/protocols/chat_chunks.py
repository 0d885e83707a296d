"""Expected chunks of Chat Completions, and a Hypothesis strategy for valid runs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import strategies as st

from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    RunFinished,
    TerminalEvent,
    TextDelta,
    TextEnded,
    ToolDelta,
    ToolStarted,
)
from palaver.core.grammar import Grammar, OutputValue
from palaver.core.messages import Annotation, Data, File, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.errors import BadStream
from palaver.protocols.chat_completions import adapter as chat_completions
from palaver.protocols.chat_completions.adapter import ChatRequest
from tests.protocols.fixed_run import RUN, STARTED

AT = datetime(2025, 11, 15, 7, 0, tzinfo=UTC)
COMPLETION_FIELDS = {"id": f"chatcmpl-{RUN}", "created": 1763190000, "model": "tutor"}
FIRST = {"role": "assistant", "content": ""}
DONE = "[DONE]"
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


def chat_request(*tools: str, model: str = "tutor", **values: Any) -> ChatRequest:
    return ChatRequest(model=model, client_tools=frozenset(tools), **values)


def run(*values: OutputValue | str, end: TerminalEvent | None = None) -> list[Event]:
    """Return the events of a run that yields these values; values after a broken stream are dropped."""
    grammar = Grammar(RUN)
    events = [*grammar.start(msgspec.structs.replace(STARTED, at=AT))]
    try:
        for value in values:
            events += grammar.text(value) if isinstance(value, str) else grammar.feed(value)
    except BadStream:
        return [*events, *grammar.end(end or RunFinished())]
    return [*events, *grammar.end(end or grammar.ending or RunFinished())]


def data_of(frames: bytes) -> list[Any]:
    """Decode server-sent events that have only data."""
    *output, remaining = frames.split(b"\n\n")
    assert remaining == b""
    assert all(frame.startswith(b"data: ") and b"\n" not in frame for frame in output)
    raw = [frame.removeprefix(b"data: ") for frame in output]
    return [DONE if data == b"[DONE]" else msgspec.json.decode(data) for data in raw]


def encode_stream(events: Sequence[Event], request: ChatRequest) -> list[Any]:
    encode = chat_completions.stream_encoder(request)
    return data_of(b"".join(encode(event) for event in events))


def chunk(delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**COMPLETION_FIELDS, "object": "chat.completion.chunk", "choices": [choice]}


def call(index: int, call_id: str, name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}


def piece(index: int, arguments: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}


def citation(url: str, start: int, end: int, title: str = "") -> dict[str, Any]:
    document = {"url": url, "title": title, "start_index": start, "end_index": end}
    return {"type": "url_citation", "url_citation": document}


# Valid runs of all kinds: some producers name and interleave their items, some only yield text

_texts = st.text(st.characters(codec="utf-8"), max_size=5)
_items = st.sampled_from(["a", "b", "c"])
_messages = st.sampled_from(["", "m1", "m2"])
_names = st.sampled_from(["mine", "yours"])
_ids = st.sampled_from(["c1", "c2", "c3"])
_notes = st.lists(
    st.builds(
        Annotation,
        kind=st.sampled_from(["url", "span"]),
        url=st.just("https://example.org"),
        start=st.none() | st.integers(0, 3),
        end=st.none() | st.integers(3, 5),
    ),
    max_size=2,
).map(tuple)
_usages = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
_output_values: st.SearchStrategy[Any] = st.one_of(
    _texts,
    st.builds(TextDelta, item=_items, delta=_texts),
    st.builds(TextEnded, item=_items, annotations=_notes),
    st.builds(ReasoningDelta, item=_items.map("r".__add__), delta=_texts),
    st.builds(ReasoningEnded, item=_items.map("r".__add__)),
    st.builds(Text, text=_texts, annotations=_notes),
    st.builds(Reasoning, text=_texts),
    st.builds(ToolStarted, item=_ids, call_id=_ids, name=_names, message=_messages),
    st.builds(ToolDelta, item=_ids, delta=_texts),
    st.builds(ToolCall, call_id=_ids, name=_names, arguments=_texts),
    st.builds(ToolResult, call_id=_ids, output=_texts),
    st.builds(Refusal, text=_texts),
    st.builds(Data, name=st.just("approval-request"), value=st.builds(dict, call_id=_ids)),
    st.just(File(media_type="image/png", data="AA==")),
    st.just(PartAdded(part=Data(name="status", value="…"), transient=True)),
    _usages,
)
_ends = st.builds(
    RunFinished,
    finish=st.sampled_from(["stop", "length", "content-filter", "tool-calls"]),
    usage=st.none() | _usages,
    value=st.just(msgspec.UNSET) | st.sampled_from([None, "", "so", 7, {"a": [1]}]),
)
valid_runs = st.builds(lambda values, end: run(*values, end=end), st.lists(_output_values, max_size=14), _ends)
"""Runs that finished."""
