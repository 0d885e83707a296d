"""Hypothesis strategies for the core data model: output of careful and of hostile producers."""

from datetime import UTC
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

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
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
    UsageAdded,
)
from palaver.core.messages import (
    Annotation,
    Data,
    File,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)

RUN = "run_01k9h6z3v8e4t2m5n7p0q1r2s3"
TAIL = RUN.removeprefix("run_")

texts = st.text(max_size=8)
numbers = st.integers(0, 10**9)
jsons: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


annotations = st.builds(
    Annotation,
    kind=st.sampled_from(["url", "file", "span"]),
    title=maybe(texts),
    url=maybe(texts),
    file_id=maybe(texts),
    start=maybe(numbers),
    end=maybe(numbers),
)
notes = st.lists(annotations, max_size=2).map(tuple)
usages = st.builds(
    Usage,
    input_tokens=numbers,
    output_tokens=numbers,
    cached_input_tokens=maybe(numbers),
    cache_creation_input_tokens=maybe(numbers),
    reasoning_tokens=maybe(numbers),
    cost=maybe(st.floats(0, 100)),
)
files = st.builds(
    File,
    media_type=st.sampled_from(["image/png", "audio/wav", "application/pdf", "text/plain"]),
    url=maybe(st.sampled_from(["https://host/a.png", "http://host/b"])),
    data=maybe(st.sampled_from(["", "AAAA"])),
    file_id=maybe(texts),
    filename=maybe(texts),
    detail=maybe(st.sampled_from(["low", "high"])),
)
datas = st.builds(Data, name=texts, value=jsons)
refusals = st.builds(Refusal, text=texts)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, text=texts, annotations=notes),
    st.builds(Reasoning, text=texts, encrypted=maybe(texts)),
    files,
    st.builds(ToolCall, call_id=texts, name=texts, arguments=texts | jsons.map(repr)),
    st.builds(ToolResult, call_id=texts, output=jsons, is_error=st.booleans()),
    refusals,
    datas,
)
roles: st.SearchStrategy[Role] = st.sampled_from(["system", "developer", "user", "assistant", "tool"])
messages = st.builds(
    Message,
    role=roles,
    parts=st.lists(parts, max_size=5).map(tuple),
    id=maybe(texts),
    name=maybe(texts),
    metadata=st.dictionaries(texts, jsons, max_size=2),
)

times = maybe(st.datetimes(timezones=st.just(UTC)))
finishes: st.SearchStrategy[FinishReason] = st.sampled_from(
    ["stop", "length", "tool-calls", "content-filter", "cancelled", "interrupted", "error"]
)
terminals = st.one_of(
    st.builds(RunFinished, finish=finishes, usage=maybe(usages), value=st.just(UNSET) | jsons, at=times),
    st.builds(
        RunFailed,
        code=texts,
        message=texts,
        status=maybe(st.integers(400, 599)),
        details=st.dictionaries(texts, jsons, max_size=2),
        usage=maybe(usages),
        at=times,
    ),
    st.builds(RunCancelled, usage=maybe(usages), at=times),
)


def events(ids: st.SearchStrategy[str], text_values: st.SearchStrategy[str]) -> st.SearchStrategy[Event]:
    """Every kind of event except terminal ones, with the given ids and texts."""
    item_fields = {"item": ids, "message": ids}
    return st.one_of(
        st.builds(TextDelta, item=ids, delta=text_values),
        st.builds(ReasoningDelta, item=ids, delta=text_values),
        st.builds(ToolDelta, item=ids, delta=text_values),
        st.builds(TextStarted, **item_fields),
        st.builds(ReasoningStarted, **item_fields),
        st.builds(ToolStarted, **item_fields, call_id=ids, name=text_values),
        st.builds(TextEnded, item=ids, text=st.just("") | text_values, annotations=notes),
        st.builds(ReasoningEnded, item=ids, text=st.just("") | text_values, encrypted=maybe(text_values)),
        st.builds(ToolEnded, item=ids, arguments=st.just("") | text_values),
        st.builds(ToolReturned, **item_fields, call_id=ids, output=jsons, is_error=st.booleans()),
        st.builds(PartAdded, **item_fields, part=files | refusals | datas, transient=st.booleans()),
        st.builds(UsageAdded, usage=usages),
        st.builds(RunStarted, run_id=ids),
    )


# What producers give to the grammar. Ids come from a small pool, so that they meet: names of the producer's own, ones
# that the grammar would make itself, ones that are too long or that UTF-8 cannot hold.

_USUAL_IDS = ("", "", "", "a", "b", "c1", "c2", "h1", "h2")
_HOSTILE_IDS = (
    *(f"{prefix}_{TAIL}_{number}" for prefix in ("msg", "rs", "dat", "call") for number in (1, 2, 3)),
    *("fc_c1", "fco_c1", "fco_c2", "fc_fc_c1", "x" * 64, "x" * 70, "x" * 71, "\ud800", "é\udfff"),
)
ids = st.sampled_from(_USUAL_IDS)
hostile_ids = st.sampled_from((*_USUAL_IDS, *_USUAL_IDS, *_HOSTILE_IDS))
pieces = st.sampled_from(["", "a", "ab", "b", "{}", "ünï"])
hostile_pieces = pieces | st.text(st.characters(exclude_categories=[]), max_size=3)


def output_parts(names: st.SearchStrategy[str], text_values: st.SearchStrategy[str]) -> st.SearchStrategy[Part]:
    return st.one_of(
        st.builds(Text, text=text_values, annotations=notes),
        st.builds(Reasoning, text=text_values, encrypted=maybe(text_values)),
        files,
        st.builds(ToolCall, call_id=names, name=text_values, arguments=text_values),
        st.builds(ToolResult, call_id=names, output=jsons),
        refusals,
        datas,
    )


def output_values(names: st.SearchStrategy[str], text_values: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Output of a producer: bare text (`str`), parts, messages, usage, events."""
    part = output_parts(names, text_values)
    message = st.builds(Message, role=roles, parts=st.lists(part, max_size=3), id=maybe(names))
    event = events(names, text_values)
    return st.one_of(text_values, text_values, event, event, event, part, message, usages)


class Unwritable:
    """An object that no encoder accepts."""


_broken: st.SearchStrategy[Any] = st.sampled_from(
    [
        TextDelta(delta=5),  # type: ignore[arg-type]
        TextDelta(item=None, delta="x"),  # type: ignore[arg-type]
        ReasoningStarted(item=["a"]),  # type: ignore[arg-type]
        ToolStarted(name=7),  # type: ignore[arg-type]
        TextEnded(text="a", annotations="x"),  # type: ignore[arg-type]
        PartAdded(part=None),
        PartAdded(part=Text(text="no")),  # type: ignore[arg-type]
        UsageAdded(usage=None),  # type: ignore[arg-type]
        Usage(input_tokens="x", output_tokens=1),  # type: ignore[arg-type]
        Data(name="x", value=Unwritable()),
        Data(name="x", value=["\ud800", Unwritable()]),
        File(media_type=None),  # type: ignore[arg-type]
        Message(role="assistant", parts="hi"),  # type: ignore[arg-type]
        Message(role="assistant", parts=[Text(text="said"), {"type": "text"}]),  # type: ignore[list-item]
        RunFinished(value=Unwritable()),
        RunFinished(finish="why"),  # type: ignore[arg-type]
        RunFailed(details={"x": Unwritable()}),
    ]
)


@st.composite
def exchanges(draw: st.DrawFn, names: st.SearchStrategy[str], text_values: st.SearchStrategy[str]) -> list[Any]:
    """A tool call, whole or in pieces, other output, and its result: random ids alone would rarely match."""
    call_id, between = f"c{draw(st.integers(1, 12))}", st.lists(output_values(names, text_values), max_size=2)
    item = draw(st.sampled_from(["", f"call {call_id}"]))
    complete: list[Any] = [ToolCall(call_id=call_id, name="now", arguments=draw(text_values))]
    open_call: list[Any] = [ToolStarted(item=item, call_id=call_id), ToolDelta(item=item, delta=draw(text_values))]
    call = draw(st.sampled_from([complete, open_call, [*open_call, ToolEnded(item=item)]]))
    return [*call, *draw(between), ToolResult(call_id=call_id, output=draw(jsons))]


def speech(names: st.SearchStrategy[str], text_values: st.SearchStrategy[str]) -> st.SearchStrategy[list[Any]]:
    """Pieces of text, reasoning and data, as from most producers."""
    piece = st.one_of(
        text_values,
        st.builds(ReasoningDelta, delta=text_values),
        datas,
        st.builds(TextDelta, item=names, delta=text_values),
    )
    return st.lists(piece, max_size=4)


def _flatten(chunks: list[list[Any]]) -> list[Any]:
    return [value for chunk in chunks for value in chunk]


def _chunks(names: st.SearchStrategy[str], text_values: st.SearchStrategy[str]) -> st.SearchStrategy[list[Any]]:
    return (
        speech(names, text_values)
        | exchanges(names, text_values)
        | st.lists(output_values(names, text_values), max_size=2)
    )


sloppy = st.lists(_chunks(ids, pieces), max_size=6).map(_flatten)
hostile = st.lists(_chunks(hostile_ids, hostile_pieces) | st.lists(terminals | _broken, max_size=1), max_size=6).map(
    _flatten
)
