"""LangChain's usual shapes: what it really writes has one, and reads as it does the long way."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects import langchain
from palaver.core.messages import Message
from palaver.core.parts import File, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.core.recognition import Stretch
from tests.core.dialects.usual_laws import ODD, assert_both_ways_agree, lists, shapes_of
from tests.core.values import maybe

_texts = st.sampled_from(["", "a", "b", '{"x": 1}', "ü\ud800"])
_ids = st.sampled_from(["c", "d", "e"])
_names = st.sampled_from(["now", "later"])
_anything = st.sampled_from(ODD)
_empty = st.just([]) | st.none()


def some(required: dict[str, st.SearchStrategy[Any]], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


def block(kind: str, *, more: dict[str, Any] | None = None, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return some({"type": st.just(kind), **fields}, more or {})


_blocks = st.one_of(
    _texts,
    block("text", text=_texts, more={"annotations": _empty, "citations": _empty, "index": _anything}),
    block("image_url", image_url=some({"url": _texts}, {"detail": maybe(_texts)})),
    block("thinking", thinking=_texts, more={"signature": maybe(_texts), "index": _anything}),
    block(
        "reasoning",
        more={
            "reasoning": maybe(_texts),
            "summary": maybe(st.lists(some({"text": _texts}, {"type": _anything}), max_size=2)),
            "encrypted_content": maybe(_texts),
            "extras": maybe(some({}, {"signature": maybe(_texts), "other": _anything})),
            "id": _anything,
        },
    ),
    block("tool_use", id=_ids, name=_names, input=_anything),
    block("tool_call", id=_ids, name=_names, args=_anything),
    block("function_call", call_id=_ids, name=_names, arguments=_texts, more={"id": _anything}),
)
_calls = st.lists(
    some({"id": _ids, "name": _names, "args": _anything}, {"type": _anything, "error": _anything}), max_size=3
)
_exact = some({"id": _ids, "function": some({"name": _names, "arguments": _texts}, {})}, {"type": _anything})
_extra = some(
    {},
    {
        "tool_calls": maybe(st.lists(_exact, max_size=2)),
        "refusal": maybe(_texts),
        "reasoning_content": maybe(_texts),
        "__openai_role__": maybe(st.sampled_from(["developer", "system"])),
        "parsed": _anything,
    },
)
_chunks = st.lists(some({}, {"id": maybe(_ids), "args": maybe(_texts), "name": _anything}), max_size=2)
_fields: dict[str, st.SearchStrategy[Any]] = {
    "response_metadata": _anything,
    "name": maybe(_names),
    "id": maybe(_texts),
    "example": _anything,
    "tool_calls": maybe(_calls),
    "invalid_tool_calls": maybe(_calls),
    "usage_metadata": _anything,
    "tool_call_chunks": maybe(_chunks),
    "chunk_position": _anything,
    "tool_call_id": maybe(_ids),
    "status": maybe(st.sampled_from(["success", "error"])),
    "artifact": _anything,
}
_said: dict[str, st.SearchStrategy[Any]] = {"content": _texts | st.lists(_blocks, max_size=4)}
_chunked = st.sampled_from(["HumanMessageChunk", "AIMessageChunk", "SystemMessageChunk", "ToolMessageChunk"])
_kinds = st.sampled_from(["human", "ai", "system", "tool", "function"]) | _chunked
_classes = st.sampled_from([f"{kind}Message" for kind in ("Human", "AI", "System", "Tool", "Function")]) | _chunked
_inner = some(_said, {**_fields, "additional_kwargs": maybe(_extra), "type": _anything})

_plain = some(
    {"type": st.sampled_from(["human", "ai", "system"]), "content": _texts, "additional_kwargs": st.just({})},
    {"response_metadata": _anything, "name": maybe(_names), "id": maybe(_texts), "tool_calls": _empty},
)
_flat = some({**_said, "type": _kinds, "additional_kwargs": _extra}, _fields)
_bare = some({**_said, "type": st.sampled_from(["human", "ai", "HumanMessageChunk", "AIMessageChunk"])}, _fields)
_inside = some({"type": _kinds, "data": _inner}, {})
_serialised = some(
    {"lc": st.just(1), "id": st.tuples(*[_texts] * 3, _classes).map(list), "kwargs": _inner}, {"type": _anything}
)
_forms = [_plain, _flat, _bare, _inside, _serialised]
_keys = st.sampled_from("role sender lc data kwargs content parts type function source message text call_id".split())


@pytest.mark.parametrize("elements", _forms, ids=["plain", "flat", "bare", "inside data", "serialised"])
def test_what_is_usual_has_a_shape(elements: st.SearchStrategy[Any]) -> None:
    @given(st.lists(elements, min_size=1, max_size=10))
    def check(usual: list[Any]) -> None:
        assert all(langchain.shapes(usual))
        assert_both_ways_agree("langchain", usual)

    check()


@given(st.one_of([lists(form, _keys) for form in _forms] + [lists(st.one_of(_forms), _keys)]))
def test_both_ways_of_reading_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree("langchain", elements)


def _real() -> list[Any]:
    core = pytest.importorskip("langchain_core.messages")
    call = {"name": "now", "args": {"tz": 1}, "id": "c"}
    exact = {"id": "c", "type": "function", "function": {"name": "now", "arguments": '{"tz": 1}'}}
    return [
        core.SystemMessage("Be brief."),
        core.SystemMessage("Be kind.", additional_kwargs={"__openai_role__": "developer"}),
        core.HumanMessage("When?", name="Ann", id="h1"),
        core.HumanMessage(
            [{"type": "text", "text": "This?"}, {"type": "image_url", "image_url": {"url": "https://host/a"}}]
        ),
        core.AIMessage(
            "Let me see.",
            id="run-1",
            tool_calls=[call],
            invalid_tool_calls=[{"name": "now", "args": "{tz", "id": "d", "error": "?"}],
            additional_kwargs={"tool_calls": [exact], "refusal": None},
            response_metadata={"model_name": "m", "finish_reason": "tool_calls"},
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        ),
        core.ToolMessage("12:00", tool_call_id="c", name="now", artifact={"raw": 12}),
        core.ToolMessage([{"type": "text", "text": "no"}], tool_call_id="d", status="error"),
        core.AIMessage(
            [
                {"type": "thinking", "thinking": "Noon.", "signature": "s"},
                {"type": "text", "text": "It is"},
                {"type": "tool_use", "id": "e", "name": "now", "input": {}},
            ],
            tool_calls=[{"name": "now", "args": {}, "id": "e"}],
        ),
        core.FunctionMessage("12", name="now"),
        core.AIMessage("Noon.", additional_kwargs={"reasoning_content": "r", "refusal": "no"}),
        core.AIMessageChunk(
            "", tool_call_chunks=[{"name": "now", "args": '{"tz": 2}', "id": "f", "index": 0}], chunk_position="last"
        ),
        core.HumanMessageChunk("Thanks."),
    ]


READ = [
    Message.system("Be brief."),
    Message(role="developer", parts=(Text(text="Be kind."),)),
    Message(role="user", parts=(Text(text="When?"),), id="h1", name="Ann"),
    Message.user("This?", File(media_type="image/*", url="https://host/a")),
    Message(
        role="assistant",
        id="run-1",
        parts=(
            Text(text="Let me see."),
            ToolCall(call_id="c", name="now", arguments='{"tz": 1}'),
            ToolCall(call_id="d", name="now", arguments="{tz"),
        ),
    ),
    Message(role="tool", name="now", parts=(ToolResult(call_id="c", output="12:00"),)),
    Message.tool("d", "no", is_error=True),
    Message.assistant(
        Reasoning(text="Noon.", encrypted="s"), "It is", ToolCall(call_id="e", name="now", arguments="{}")
    ),
    Message(role="tool", name="now", parts=(ToolResult(call_id="e", output="12"),)),
    Message.assistant(Reasoning(text="r"), "Noon.", Refusal(text="no")),
    Message.assistant(ToolCall(call_id="f", name="now", arguments='{"tz": 2}')),
    Message.user("Thanks."),
]


@pytest.mark.parametrize("form", ["model_dump", "messages_to_dict", "dumpd"])
def test_what_langchain_writes_has_a_shape(form: str) -> None:
    core = pytest.importorskip("langchain_core.messages")
    load = pytest.importorskip("langchain_core.load")
    written: Any = {
        "model_dump": lambda: [message.model_dump() for message in _real()],
        "messages_to_dict": lambda: core.messages_to_dict(_real()),
        "dumpd": lambda: [load.dumpd(message) for message in _real()],
    }[form]()
    elements = msgspec.json.decode(msgspec.json.encode(written))

    shapes = shapes_of(langchain, elements)

    assert all(shapes)
    assert langchain.read(elements, 0, shapes) == langchain.read(elements) == READ


def test_what_we_write_has_a_shape() -> None:
    said = [message for message in READ if not any(isinstance(part, File | Reasoning) for part in message.parts)]
    written = langchain.write(said)

    assert all(langchain.shapes(written))
    assert dialects.recognised(written) == [Stretch("langchain", written, 0, langchain.shapes(written))]


def test_a_result_of_other_blocks_is_kept_as_it_stands() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://host/a"}}
    element = {"type": "tool", "content": [image], "tool_call_id": "c", "additional_kwargs": {}}

    (message,) = langchain.read([element], 0, langchain.shapes([element]))

    assert message == Message.tool("c", [image])


def test_a_legacy_answer_finds_its_call_by_name_whichever_way_either_is_read() -> None:
    call = {
        "type": "ai",
        "content": "",
        "tool_calls": [{"id": "c", "name": "now", "args": {}}],
        "additional_kwargs": {},
    }
    odd = {**call, "of_mine": 1}
    answer = {"type": "function", "content": "12", "name": "now", "additional_kwargs": {}}
    said = [
        Message.assistant(ToolCall(call_id="c", name="now", arguments="{}")),
        Message(role="tool", name="now", parts=(ToolResult(call_id="c", output="12"),)),
    ]

    for elements in ([call, answer], [odd, answer], [call, {**answer, "of_mine": 1}]):
        shapes = [langchain.shapes([element])[0] for element in elements]

        assert langchain.read(elements, 0, shapes) == said


def test_a_removal_among_others_is_no_message() -> None:
    said = {"lc": 1, "id": ["a", "b", "c", "HumanMessage"], "kwargs": {"content": "hi"}}
    removed = {"lc": 1, "id": ["a", "b", "c", "RemoveMessage"], "kwargs": {"content": "", "id": "m"}}
    elements = [said, removed]

    assert langchain.read(elements, 0, langchain.shapes(elements)) == [Message.user("hi")]


@pytest.mark.parametrize("elements", [[], [5]], ids=["nothing", "no object"])
def test_what_is_no_message_has_no_shape(elements: list[Any]) -> None:
    assert langchain.shapes(elements) == []
