"""Gemini's usual shapes: what Google's SDKs really write has one, and reads as it does the long way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects import gemini
from palaver.core.messages import Message
from palaver.core.parts import File, Reasoning, ToolCall, ToolResult
from tests.core.dialects.usual_laws import ODD, assert_both_ways_agree, lists, shapes_of
from tests.core.values import maybe

_texts = st.sampled_from(["", "a", "b", '{"x": 1}', "ü\ud800"])
_ids = st.sampled_from(["c", "d", "", "call_3_1"])
_names = st.sampled_from(["now", "later", ""])
_anything = st.sampled_from(ODD)
_outputs = st.sampled_from([*ODD, {"output": 1}, {"error": "no"}, {"error": None}, {"output": 1, "error": 2}])
_addresses = st.sampled_from(["", "https://host/a", "files/a", "data:image/gif;base64,AA", "data:,x"])


def some(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


_call = some({"name": _names}, {"args": _anything, "id": maybe(_ids)})
_response = some({"name": _names}, {"response": _outputs, "id": maybe(_ids), "parts": st.sampled_from([None, []])})
_about = {"thought": maybe(st.booleans()), "thoughtSignature": maybe(_texts)}
_wire_answer = some({"functionResponse": _response}, _about)
_wire = st.one_of(
    some({"text": _texts}, _about),
    some({"functionCall": _call}, _about),
    _wire_answer,
    some(
        {"inlineData": some({"data": _texts}, {"mimeType": maybe(_texts), "displayName": maybe(_texts)})},
        {**_about, "fileData": some({"fileUri": _addresses}, {})},
    ),
    some(
        {"fileData": some({"fileUri": _addresses}, {"mimeType": maybe(_texts), "displayName": maybe(_texts)})}, _about
    ),
)
_DUMPED = dict.fromkeys(
    "video_metadata thought inline_data file_data thought_signature function_call code_execution_result"
    " executable_code function_response text media_resolution part_metadata".split()
)
_about_dumped = {"thought": maybe(st.booleans()), "thought_signature": maybe(_texts)}
_dumped_answer = some({"function_response": _response}, _about_dumped).map(lambda part: _DUMPED | part)
_dumped = (
    st.one_of(
        some({"text": _texts}, _about_dumped),
        some({"function_call": _call}, _about_dumped),
        some({"function_response": _response}, _about_dumped),
        some(
            {"inline_data": some({"data": _texts}, {"mime_type": maybe(_texts), "display_name": maybe(_texts)})},
            _about_dumped,
        ),
        some({"file_data": some({"file_uri": _addresses}, {"mime_type": maybe(_texts)})}, _about_dumped),
    )
    .map(lambda part: _DUMPED | part)
    .filter(lambda part: part != _DUMPED)
)
_speakers = st.sampled_from(["user", "model", "system", "assistant"])
_tools = st.sampled_from(["tool", "function"])


def contents(parts: st.SearchStrategy[Any], answers: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return some({"role": _speakers, "parts": st.lists(parts, min_size=1, max_size=4)}, {}) | some(
        {"role": _tools, "parts": st.lists(answers, min_size=1, max_size=3)}, {}
    )


_on_the_wire, _as_dumped = contents(_wire, _wire_answer), contents(_dumped, _dumped_answer)
_keys = st.sampled_from(
    "role sender name id type content parts text thought thoughtSignature functionCall functionResponse inlineData"
    " fileData function_call executableCode partMetadata data response args output".split()
)


@pytest.mark.parametrize("elements", [_on_the_wire, _as_dumped], ids=["on the wire", "as dumped"])
def test_what_is_usual_has_a_shape(elements: st.SearchStrategy[Any]) -> None:
    @given(st.lists(elements, min_size=1, max_size=10))
    def check(usual: list[Any]) -> None:
        assert all(gemini.shapes(usual))
        assert_both_ways_agree("gemini", usual)

    check()


@given(lists(_on_the_wire, _keys) | lists(_as_dumped, _keys) | lists(_on_the_wire | _as_dumped, _keys))
def test_both_ways_of_reading_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree("gemini", elements)


SAID = [
    {"role": "user", "parts": [{"text": "Time?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True},
            {"functionCall": {"name": "now", "args": {"tz": 1}}, "thoughtSignature": "s"},
        ],
    },
    {"role": "tool", "parts": [{"functionResponse": {"name": "now", "response": {"output": "noon"}}}]},
    {"role": "model", "parts": [{"text": "Noon."}]},
]
READ = [
    Message.user("Time?"),
    Message.assistant(Reasoning("hm"), Reasoning("", "s"), ToolCall("call_1_1", "now", '{"tz":1}')),
    Message("tool", (ToolResult("call_1_1", "noon"),)),
    Message.assistant("Noon."),
]
DUMPED = [
    {"role": "user", "parts": [_DUMPED | {"text": "Time?"}]},
    {
        "role": "model",
        "parts": [
            _DUMPED | {"text": "hm", "thought": True},
            _DUMPED | {"function_call": {"id": None, "args": {"tz": 1}, "name": "now"}, "thought_signature": "s"},
        ],
    },
    {
        "role": "tool",
        "parts": [
            _DUMPED
            | {
                "function_response": {
                    "will_continue": None,
                    "scheduling": None,
                    "parts": None,
                    "id": None,
                    "name": "now",
                    "response": {"output": "noon"},
                }
            }
        ],
    },
    {"role": "model", "parts": [_DUMPED | {"text": "Noon."}]},
]


@pytest.mark.parametrize("elements", [SAID, DUMPED], ids=["on the wire", "as dumped"])
def test_what_is_sent_is_read(elements: list[Any]) -> None:
    shapes = shapes_of(gemini, elements)

    assert all(shapes)
    assert gemini.read(elements, 0, shapes) == READ


def test_a_result_finds_its_call_whichever_way_each_was_read() -> None:
    odd = {"role": "model", "parts": [{"executableCode": {"code": "1"}}, {"functionCall": {"name": "now"}}]}
    elements = [*SAID[:2], odd, SAID[2], SAID[2]]
    found = dialects.recognised(elements)

    assert found is not None
    assert [[bool(shape) for shape in stretch.shapes] for stretch in found] == [[True, True, False, True, True]]
    assert [result.call_id for message in dialects.read(elements) for result in message.tool_results] == [
        "call_2_1",
        "call_1_1",
    ]


def test_calls_of_one_message_may_be_answered_out_of_their_order_before_it_makes_more() -> None:
    def call(name: str) -> Any:
        return {"functionCall": {"name": name}}

    def answer(name: str, **fields: Any) -> Any:
        return {"functionResponse": {"name": name, **fields}}

    parts = [call("now"), call("later"), answer("later"), call("now"), answer("now"), answer("now"), answer("now")]
    elements = [
        {"role": "model", "parts": [call("now")]},
        {"role": "model", "parts": parts},
        {"role": "model", "parts": [call("now")]},
        {"role": "user", "parts": [answer("now", id="call_2_0")]},
        {"role": "user", "parts": [answer("now")]},
    ]
    shapes = gemini.shapes(elements)
    said = gemini.read(elements, 0, shapes)

    assert all(shapes)
    assert said == gemini.read(elements)
    assert [result.call_id for message in said for result in message.tool_results] == [
        "call_1_1",
        "call_1_0",
        "call_1_3",
        "call_0_0",
        "call_2_0",
        "",
    ]


def test_a_call_that_is_answered_at_once_leaves_those_before_it_open() -> None:
    call: Any = {"role": "model", "parts": [{"functionCall": {"name": "now"}}]}
    elements = [call, call, SAID[2], call, SAID[2], SAID[2], SAID[2]]
    shapes = gemini.shapes(elements)
    said = gemini.read(elements, 0, shapes)

    assert all(shapes)
    assert said == gemini.read(elements)
    assert [result.call_id for message in said for result in message.tool_results] == [
        "call_1_0",
        "call_3_0",
        "call_0_0",
        "",
    ]


def test_a_result_of_many_brackets_has_a_shape_unless_they_stand_too_deep() -> None:
    flat: Any = [{"at": "noon"}] * 300
    deep: Any = "noon"
    for _ in range(300):
        deep = [deep]
    elements = [
        {"role": "user", "parts": [{"functionResponse": {"name": "now", "response": {"output": output}}}]}
        for output in (flat, deep)
    ]

    assert [bool(shape) for shape in gemini.shapes(elements)] == [True, False]
    assert gemini.read(elements[:1], 0, gemini.shapes(elements[:1])) == gemini.read(elements[:1])


@pytest.mark.parametrize(
    "element",
    [
        {"role": "model", "parts": [{"thought": True}]},
        {"role": "model", "parts": [{"text": None}]},
        {"role": "model", "parts": []},
        {"role": "model", "parts": ["noon"]},
        {"role": "tool", "parts": [{"text": "noon"}]},
        {"role": "tool", "parts": [{"fileData": {"fileUri": "a"}}]},
    ],
)
def test_what_says_nothing_and_a_tool_that_speaks_have_none(element: dict[str, Any]) -> None:
    assert gemini.shapes([SAID[0], element]) == [*gemini.shapes(SAID[:1]), None]


@pytest.mark.parametrize(
    "part",
    [
        {"text": "a", "type": "text"},
        {"text": "a", "partMetadata": {}},
        {"text": "a", "thoughtSignature": 5},
        {"functionCall": {"name": 5}},
        {"functionCall": {"name": "now", "id": 5}},
        {"functionResponse": {"name": "now", "parts": [{}]}},
        {"functionResponse": {"name": "now", "response": ()}},
        {"fileData": 5},
        {"inlineData": {"data": 5}},
        {"fileData": {"fileUri": "a", "mimeType": 5}},
    ],
)
def test_a_part_with_anything_odd_has_none(part: dict[str, Any]) -> None:
    elements = [SAID[0], {"role": "model", "parts": [part]}]

    assert gemini.shapes(elements) == [Message.user("Time?"), None]
    assert_both_ways_agree("gemini", elements)


def test_what_we_write_has_shapes() -> None:
    said = [
        Message.system("Be brief."),
        Message.user("Time?", File(media_type="image/png", data="AAAA", filename="a.png")),
        Message.user(File(media_type="image/png", url="https://host/a"), File(media_type="a/b", file_id="f")),
        Message.assistant(Reasoning("hm", "s"), Reasoning("", "x"), "Let me see.", ToolCall("c", "now", '{"tz":1}')),
        Message.tool("c", "noon"),
        Message("tool", (ToolResult("d", {"no": 1}, is_error=True),), None, "later"),
        Message.user("And?"),
        Message.assistant("Noon."),
    ]
    written = gemini.write(said)
    shapes = gemini.shapes(written)

    assert all(shapes)
    assert gemini.read(written, 0, shapes) == said
