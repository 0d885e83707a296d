"""The usual shapes of gen_ai: what instrumentations record has one, and reads as it does the long way."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects import gen_ai
from palaver.core.elements import KNOWN_ROLES
from palaver.core.messages import Message
from palaver.core.parts import File, Reasoning, Text, ToolCall, ToolResult
from palaver.core.recognition import Stretch
from tests.core.dialects.usual_laws import ODD, assert_both_ways_agree, lists
from tests.core.values import maybe

_texts = st.sampled_from(["", "a", "b", "ü\ud800"])
_ids = st.sampled_from([None, "", "c", "d"])
_anything = st.sampled_from([*ODD, [{"type": "text", "content": "a"}, {"text": "b"}]])
_kinds = maybe(st.sampled_from(["image", "audio", "video", "document", "", "image/png"]))
_about = {"modality": _kinds, "mime_type": _kinds}


def part(kind: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(kind), **required}, optional=optional or {})


_parts = st.one_of(
    part("text", {"content": _texts}),
    part("reasoning", {"content": _texts}),
    part("tool_call", {"name": _texts}, {"id": _ids, "arguments": _anything, "builtin": _anything}),
    part(
        "tool_call_response",
        {},
        {
            "id": _ids,
            "response": _anything,
            "result": _anything,
            "name": _anything,
            "palaver": maybe(st.just({"is_error": True})),
        },
    ),
    part("blob", {"content": _texts}, _about),
    part("uri", {"uri": _texts | st.just("data:image/gif;base64,AAAA")}, _about),
    part("file", {"file_id": _texts, "modality": _kinds.filter(lambda kind: kind is not None)}, {"mime_type": _kinds}),
)
_messages = st.fixed_dictionaries(
    {"role": st.sampled_from(sorted(KNOWN_ROLES)), "parts": st.lists(_parts, min_size=1, max_size=4)},
    optional={"name": maybe(_texts), "id": maybe(_texts), "finish_reason": _anything},
)
_keys = st.sampled_from("role sender type content text parts message media_type call_id thought palaver".split())


@given(st.lists(_messages, min_size=1, max_size=6))
def test_what_is_usual_has_a_shape(usual: list[Any]) -> None:
    assert all(gen_ai.shapes(usual))
    assert_both_ways_agree("gen-ai", usual)


@given(lists(_messages, _keys))
def test_both_ways_of_reading_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree("gen-ai", elements)


RECORDED: list[Any] = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {
        "role": "user",
        "parts": [
            {"type": "text", "content": "What is this?"},
            {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://host/a.png"},
            {"type": "blob", "modality": "audio", "content": "AAAA"},
            {"type": "file", "modality": "image", "file_id": "f"},
        ],
    },
    {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "Hm."},
            {"type": "tool_call", "id": "c", "name": "look", "arguments": {"at": 1}},
        ],
        "finish_reason": "tool_call",
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": {"is": "harbour"}}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": None, "name": "look", "arguments": '{"at": 2}'}]},
    {
        "role": "user",
        "parts": [
            {"type": "tool_call_response", "id": None, "name": "look", "result": "Oslo"},
            {"type": "text", "content": "And?"},
        ],
    },
    {"role": "assistant", "parts": [{"type": "text", "content": "The harbour."}], "finish_reason": "stop"},
]
READ = [
    Message.system("Be brief."),
    Message.user(
        "What is this?",
        File(media_type="image/png", url="https://host/a.png"),
        File(media_type="audio/*", data="AAAA"),
        File(media_type="image/*", file_id="f"),
    ),
    Message.assistant(Reasoning(text="Hm."), ToolCall(call_id="c", name="look", arguments='{"at":1}')),
    Message.tool("c", {"is": "harbour"}),
    Message.assistant(ToolCall(call_id="call_4_0", name="look", arguments='{"at": 2}')),
    Message.tool("call_4_0", "Oslo"),
    Message.user("And?"),
    Message.assistant("The harbour."),
]


def test_what_instrumentations_record_has_a_shape() -> None:
    shapes = gen_ai.shapes(RECORDED)

    assert all(shapes)
    assert gen_ai.read(RECORDED, 0, shapes) == gen_ai.read(RECORDED) == READ
    assert dialects.recognised(RECORDED) == [Stretch("gen-ai", RECORDED, 0, shapes)]


def test_what_we_write_has_a_shape() -> None:
    said = [*READ, Message.tool("c", "no", is_error=True), Message.assistant()]

    assert all(gen_ai.shapes(gen_ai.write(said)))


def test_a_result_without_an_id_finds_its_call_whichever_way_either_is_read() -> None:
    call = {"role": "assistant", "parts": [{"type": "tool_call", "name": "look"}]}
    answer = {"role": "tool", "parts": [{"type": "tool_call_response", "response": 1}]}
    said = [
        Message(role="assistant", parts=(ToolCall(call_id="call_5_0", name="look"),)),
        Message(role="tool", parts=(ToolResult(call_id="call_5_0", output=1),)),
        Message(role="user", parts=(Text(text="a"),)),
    ]
    last = {"role": "user", "parts": [{"type": "text", "content": "a"}]}

    for elements in (
        [call, answer, last],
        [{**call, "of_mine": 1}, answer, last],
        [call, {**answer, "of_mine": 1}, last],
    ):
        shapes = [gen_ai.shapes([element])[0] for element in elements]

        assert gen_ai.read(elements, 5, shapes) == said
