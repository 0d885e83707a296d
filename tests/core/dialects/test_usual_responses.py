"""The usual shapes of Responses: what the SDKs write has one, and reads as it does the long way."""

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.dialects import responses
from palaver.core.elements import DIALECTS
from palaver.core.messages import Message
from palaver.core.parts import Annotation, Data, File, Reasoning, Refusal, Text, ToolCall
from palaver.core.recognition import Stretch, dialect_of, name_of, stretches
from tests.core.dialects.usual_laws import ODD, lists, shapes_of
from tests.core.values import maybe

_texts = st.sampled_from(["", "a", "b", "ü\ud800"])
_words = st.sampled_from(["a", "b", "ü\ud800"])
_ids = maybe(st.sampled_from(["", "c", "d"]))
_places = st.sampled_from(["https://host/a", "data:image/gif;base64,AAAA", "AAAA", ""])
_anything = st.sampled_from(ODD)
_about = {"id": _anything, "status": _anything}
_speakers = st.sampled_from("system developer user human assistant ai model bot chatbot agent".split())


def item(kind: str, required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(kind), **required}, optional=optional or {})


_notes = st.one_of(
    item(
        "url_citation",
        {"url": _texts},
        {"title": _ids, "start_index": maybe(st.integers(0, 3)), "end_index": st.none()},
    ),
    item("file_citation", {"file_id": _texts}, {"filename": _ids, "index": maybe(st.integers(0, 3))}),
)
_own = st.one_of(
    item("input_text", {"text": _words}),
    item("output_text", {"text": _words}, {"annotations": maybe(st.lists(_notes, max_size=2)), "logprobs": _anything}),
    item("input_image", {"image_url": _places}, {"detail": _ids, "file_id": _ids}),
    item("input_file", {}, dict.fromkeys(["file_data", "file_url", "file_id", "filename"], maybe(_places))),
)
_pieces = _own | item("text", {"text": _words}) | item("refusal", {"refusal": _texts})
_thoughts = st.lists(st.fixed_dictionaries({"text": _texts}, optional={"type": st.just("summary_text")}), max_size=3)
_failed = {"palaver:is_error": st.booleans()}
_named = {"id": _ids, "name": _ids, "status": _anything}
_items = st.one_of(
    item("message", {"role": _speakers, "content": _texts | st.lists(_pieces, max_size=3)}, {**_named, "phase": _ids}),
    item("function_call", {"call_id": _texts, "name": _texts, "arguments": _texts}, _about),
    item("function_call_output", {"call_id": _texts, "output": _anything}, {**_about, **_failed}),
    item("custom_tool_call", {"call_id": _texts, "name": _texts, "input": _texts}, _about),
    item("custom_tool_call_output", {"call_id": _texts, "output": _anything}, _about),
    item("palaver:data", {"name": _texts}, {"value": _anything, **_about}),
)
_tools = st.sampled_from(["web_search_call", "mcp_call", "mcp_list_tools", "file_search_call", "item_reference"])
_odd_fields = st.dictionaries(st.sampled_from(["action", "output", "error", "name", "arguments", "content"]), _anything)
_kept = st.builds(lambda kind, own_id, rest: {"type": kind, "id": own_id, **rest}, _tools, _texts, _odd_fields)
_reasoning = item(
    "reasoning", {"summary": _thoughts}, {"content": maybe(_thoughts), "encrypted_content": _ids, **_about}
)
_untyped = st.fixed_dictionaries(
    {"role": _speakers, "content": st.lists(_own, min_size=1, max_size=3)}, optional=_named
)
_plain = st.fixed_dictionaries({"role": _speakers, "content": _texts}, optional=_named)
_usual = _items | _reasoning | _kept | _untyped | _plain
_keys = st.sampled_from(
    "role sender author type content text parts tool_calls tool_call_id refusal stop_reason palaver annotations summary"
    " encrypted_content output input name lc data".split()
)
_others: list[Any] = [
    {"type": "new_call", "id": "w"},
    {"type": "mcp_approval_response", "approval_request_id": "c", "approve": True},
    {"type": "palaver:file", "media_type": "image/png", "url": "u"},
    {"type": "message", "role": "tool", "content": "a"},
    {"type": "message", "role": "USER", "content": "a"},
    {"role": "assistant", "content": "a"},
    {"role": "user", "content": [{"type": "text", "text": "a"}]},
]


@given(_items, st.lists(_items | _reasoning | _kept, max_size=6), st.randoms())
def test_what_is_usual_has_a_shape(certain: Any, others: list[Any], chance: Any) -> None:
    usual = [certain, *others]
    chance.shuffle(usual)

    assert all(responses.shapes(usual))
    assert_both_ways_agree(usual)


@given(st.lists(_items | _untyped | _plain, min_size=1, max_size=8))
def test_so_has_a_message_without_a_type_between_the_others(usual: list[Any]) -> None:
    assert all(responses.shapes(usual))
    assert_both_ways_agree(usual)


@given(lists(_usual | st.sampled_from(_others), _keys))
def test_both_ways_of_reading_agree_whatever_the_elements(elements: list[Any]) -> None:
    assert_both_ways_agree(elements)


def assert_both_ways_agree(elements: list[Any]) -> None:
    """What has a shape is of the dialect, or is plain text that is taken along; and all is read alike."""
    shapes = shapes_of(responses, elements)
    shaped = [element for element, shape in zip(elements, shapes, strict=False) if shape]
    recognised, judged = dialects.recognised(elements), stretches(elements)

    assert {_dialect_of(element) for element in shaped} <= {"responses", "plain"}
    assert not shaped or any(dialect_of([element]) for element in shaped)
    assert responses.read(elements, 3, shapes) == responses.read(elements, 3)
    assert (recognised is None, (recognised and name_of(recognised))) == (judged is None, (judged and name_of(judged)))
    assert _elements(recognised) == _elements(judged)
    assert dialects.read_stretches(recognised or []) == dialects.read_stretches(judged or [])


def _dialect_of(element: Any) -> str | None:
    """Reasoning and what tools did are of the dialect only among others."""
    if dialect_of([element]) == "chat-completions" and isinstance(element["content"], str):
        return "plain"
    return dialect_of([element]) or dialect_of([element, {"type": "function_call", "name": "f", "arguments": ""}])


def _elements(found: list[Stretch] | None) -> list[Any]:
    return [element for stretch in found or [] for element in stretch.elements]


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": [], **fields}


SENT: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": "https://host/a.png", "detail": "auto"},
            {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
        ],
    },
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "status": None},
    {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "A harbour."},
    {"id": "ctc_1", "type": "custom_tool_call", "call_id": "d", "name": "sql", "input": "select 1"},
    {"type": "custom_tool_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "1"}]},
    {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [
            text(
                "A harbour.",
                annotations=[
                    {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2},
                    {"type": "file_citation", "file_id": "f", "filename": "a.txt", "index": 3},
                ],
            ),
            {"type": "refusal", "refusal": "No more."},
        ],
    },
    {"type": "message", "role": "user", "content": "Thanks."},
    {"id": "rs_2", "type": "reasoning", "summary": [], "encrypted_content": "x"},
    {"id": "rs_3", "type": "reasoning", "summary": []},
    {"id": "msg_2", "type": "message", "status": "completed", "role": "assistant", "content": [text("Bye.")]},
    {"type": "palaver:data", "name": "chart", "value": [1]},
    {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}},
]
READ = [
    Message(role="developer", parts=(Text(text="Be brief."),)),
    Message.user(
        "What is this?",
        File(media_type="image/*", url="https://host/a.png", detail="auto"),
        File(media_type="application/pdf", data="AAAA", filename="a.pdf"),
    ),
    Message.assistant(Reasoning(text="Hm."), ToolCall(call_id="c", name="look", arguments="{}")),
    Message.tool("c", "A harbour."),
    Message.assistant(ToolCall(call_id="d", name="sql", arguments="select 1")),
    Message.tool("d", [{"type": "input_text", "text": "1"}]),
    Message(
        role="assistant",
        id="msg_1",
        parts=(
            Text(
                text="A harbour.",
                annotations=(
                    Annotation(kind="url", url="u", title="t", start=0, end=2),
                    Annotation(kind="file", file_id="f", title="a.txt", start=3),
                ),
            ),
            Refusal(text="No more."),
        ),
    ),
    Message.user("Thanks."),
    Message(
        role="assistant",
        id="msg_2",
        parts=(
            Reasoning(text="", encrypted="x"),
            Text(text="Bye."),
            Data(name="chart", value=[1]),
            Data(name="responses:web_search_call", value=SENT[-1]),
        ),
    ),
]


def test_what_clients_send_and_models_answer_has_a_shape() -> None:
    shapes = responses.shapes(SENT)

    assert all(shapes)
    assert responses.read(SENT, 0, shapes) == responses.read(SENT) == READ
    assert dialects.recognised(SENT[1:]) == [Stretch("responses", SENT[1:], 0, responses.shapes(SENT[1:]))]


def test_what_we_write_has_a_shape() -> None:
    said = [*READ, Message.tool("c", "no", is_error=True), Message.user()]

    assert all(responses.shapes(responses.write(said)))


def test_an_unknown_item_between_them_is_read_the_long_way() -> None:
    search = {"type": "new_call", "id": "w"}
    elements = [*SENT[:4], search, *SENT[4:]]
    (found,) = dialects.recognised(elements[1:]) or []

    assert [bool(shape) for shape in found.shapes] == [element is not search for element in elements[1:]]
    assert dialects.read_stretches([found]) == responses.read(elements[1:])


def test_plain_text_between_them_stands_alone_whichever_way_it_is_read() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    plain = {"role": "assistant", "content": "So."}
    thought = {"type": "reasoning", "summary": [{"text": "Hm."}]}
    elements = [call, plain, call, thought, plain]
    called = ToolCall(call_id="c", name="look", arguments="{}")
    said = [
        Message.assistant(called),
        Message.assistant("So."),
        Message.assistant(called),
        Message.assistant(Reasoning(text="Hm.")),
        Message.assistant("So."),
    ]

    assert all(responses.shapes(elements))
    assert dialects.read(elements) == responses.read(elements) == said
    assert dialects.read([{**element, "of_mine": 1} for element in elements]) == said
    assert [index for _, index in responses.read_indexed(elements)] == [0, 1, 3]


def test_an_approval_finds_its_call_whichever_way_that_was_read() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    request = {"type": "mcp_approval_request", "id": "c", "name": "look", "arguments": "{}"}
    said = [
        Message.assistant(
            ToolCall(call_id="c", name="look", arguments="{}"),
            Data(name="approval-request", value={"id": "c", "call_id": "c", "name": "look", "arguments": "{}"}),
        )
    ]

    for elements in ([call, request], [{**call, "of_mine": 1}, request]):
        assert dialects.read(elements) == said


@pytest.mark.parametrize(
    "elements",
    [
        [],
        [{"type": "reasoning", "summary": []}],
        [{"type": "reasoning", "summary": []}, {"type": "web_search_call", "id": "w"}],
        [{"type": "message", "role": "user", "content": ({"type": "input_text", "text": "a"},)}],
        [MappingProxyType({"type": "message", "role": "user", "content": "a"})],
    ],
    ids=["nothing", "reasoning alone", "nothing certain", "a tuple, which is no list", "what is no object"],
)
def test_what_is_no_conversation_has_no_shape(elements: list[Any]) -> None:
    assert not any(responses.shapes(elements))
    assert dialects.recognised(elements) is stretches(elements) is None


@pytest.mark.parametrize(
    "element",
    [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": []},
        {"type": "message", "role": "assistant", "content": "a", "stop_reason": None},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "", "role": "user", "content": "a"},
    ],
)
def test_an_element_of_another_dialect_has_none(element: Any) -> None:
    certain = {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}

    assert dialect_of([element]) in {*DIALECTS, None} - {"responses"}
    assert [bool(shape) for shape in responses.shapes([certain, element])] == [True, False]
