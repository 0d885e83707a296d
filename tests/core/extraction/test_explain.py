"""The reasons given when no conversation is found."""

from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.extraction.explain import MAX_REASONS, Reason, explain_absence
from palaver.core.extraction.locations import SIDES, STRICT, WIDE
from palaver.core.extraction.search import extract_chat_messages, read_conversation
from tests.core.extraction.test_strict_search import PREFERENCES, A, U, nested, values

Search = Literal["wide", "strict"]
MESSAGE_LIST_KEYS = "messages history chat conversation logs prompt completion responses".split()


def text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def reasons(value: Any, search: Search = "wide") -> list[str]:
    return [str(reason) for reason in explain_absence(value, search=search)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Lists
        ({"messages": [U, A, {"content": "x"}]}, ["/messages: element 2 has no role (keys: content)"]),
        ({"messages": [U, {}]}, ["/messages: element 1 has no role: it is empty"]),
        ({"messages": [U, 5]}, ["/messages: element 1 is not an object"]),
        ({"messages": []}, ["/messages: is an empty list"]),
        ([1], ["the value: element 0 is not an object"]),
        (
            {
                "logs": [
                    {"role": "admin", "content": "x"},
                    {"role": "guest", "content": "y"},
                    {"role": "admin", "text": ""},
                ]
            },
            ["/logs: has no message with a known role (admin, guest)"],
        ),
        ({"logs": [{"type": "system", "content": "started"}]}, ["/logs: has no message with a known role"]),
        ({"messages": [[U], [A]]}, ["/messages: contains 2 lists, not a single conversation"]),
        ({"messages": [[1]]}, ["/messages/0: element 0 is not an object"]),
        (
            [{"messages": [U]}],
            ["the value: element 0 has no role; it contains a conversation, but list elements are not searched"],
        ),
        # Objects that were meant as messages
        ({"role": "admin", "content": "x"}, ["the value: has no message with a known role (admin)"]),
        ({"input": {"content": "x"}}, ["/input: has no role (keys: content)"]),
        ({"message": {"content": "x"}}, ["/message: has no role (keys: content)"]),
        # Wrappers
        (
            {"inputs": {"prompt": [1]}, "data": {"outputs": {"completion": [{}]}}},
            [
                "/data/outputs/completion: element 0 has no role: it is empty",
                "/inputs/prompt: element 0 is not an object",
            ],
        ),
        (
            nested("data.data.data.data.data.data.data", {"messages": [U]}),
            ["/data/data/data/data/data/data/data: is nested more than 6 keys deep and was not searched"],
        ),
        # Texts
        ("hello", ["the value: is text, not messages"]),
        (
            {"prompt": "hello", "completion": " ", "message": "what somebody said"},
            ["/prompt: is text, not messages"],
        ),
        ({"output.value": text({"messages": [5]})}, ["/output.value/messages: element 0 is not an object"]),
        (
            {"outputs": '{"messages": [{"role": "us'},
            ["/outputs: looks like JSON but is invalid; it may be truncated or too deeply nested"],
        ),
        (
            text({"data": text({"data": text({"messages": text([U])})})}),
            ["/data/data/messages: is JSON text nested more than 3 levels deep, so it was not decoded"],
        ),
        # Responses of model APIs
        ({"choices": [{"message": {"content": "x"}}]}, ["/choices: element 0 has no role (keys: content)"]),
        (
            {"choices": [{"delta": {"index": 0}}]},
            ["/choices: element 0 has no supported content (content, parts, tool_calls, …)"],
        ),
        ({"choices": [{"index": 0}, 5]}, ["/choices: has no element with a message"]),
        ({"choices": []}, ["/choices: is an empty list"]),
        (
            {"candidates": [{"content": {"x": 1}}]},
            ["/candidates: element 0 has no supported content (content, parts, tool_calls, …)"],
        ),
        ({"generations": [[{"text": "x"}]]}, ["/generations: has no element with a message"]),
        ({"generations": [[{"message": {"x": 1}}]]}, ["/generations: element 0 has no role (keys: x)"]),
        # No known keys
        ({"id": 7, "title": "x"}, ["the value: has no list under a known key (keys: id, title)"]),
        (
            dict.fromkeys(map(str, range(50))),
            ["the value: has no list under a known key (keys: 0, 1, 2, 3, 4, 5, 6, 7 and 42 more)"],
        ),
        ({"k" * 50: 1, 2: 3}, [f"the value: has no list under a known key (keys: {'k' * 40}…, int)"]),
        ({"\ud800": 1}, ["the value: has no list under a known key (keys: \ufffd)"]),
        (
            {"inputs": {"question": "x"}, "outputs": {}, "score": 1},
            [
                "the value: has no list under a known key (keys: inputs, outputs, score)",
                "/inputs: has no list under a known key (keys: question)",
                "/outputs: is an empty object",
            ],
        ),
        ({"dialog": [U]}, ["/dialog: contains a conversation, but this key is not searched"]),
        ({}, ["the value: is an empty object"]),
        (None, ["the value: is null"]),
        (True, ["the value: is a boolean"]),
        (1.5, ["the value: is a number"]),
        ("", ["the value: is an empty string"]),
        (b"x", ["the value: is not a JSON value"]),
    ],
)
def test_every_searched_location_has_a_reason(value: Any, expected: list[str]) -> None:
    assert reasons(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"messages": [U, {"content": "x"}]}, ["/messages: element 1 has no role (keys: content)"]),
        ({"messages": [U, 5]}, ["/messages: element 1 is not an object"]),
        ({"messages": [[U]]}, ["/messages: element 0 is not an object"]),
        ({"messages": [{"role": "user"}]}, ["/messages: element 0 has no content that the strict search supports"]),
        ({"messages": [{"role": "admin", "content": "x"}]}, ["/messages: has no message with a known role (admin)"]),
        ({"messages": text([U])}, ["/messages: is JSON text, which the strict search does not decode"]),
        ({"choices": [{"delta": {"content": "x"}}]}, ["/choices: element 0 has no role (keys: content)"]),
        ({"input": [U]}, ["/input: contains a conversation, but this key is not searched"]),
        (
            {"candidates": [{"content": {"parts": [{"text": "x"}]}}]},
            ["the value: has no list under a known key (keys: candidates)"],
        ),
    ],
)
def test_the_strict_search_gives_different_reasons(value: Any, expected: list[str]) -> None:
    assert reasons(value, "strict") == expected


def test_a_preference_decides_which_location_is_listed_first() -> None:
    value = {"prompt": [1], "completion": [2]}

    assert [[reason.path for reason in explain_absence(value, prefer)] for prefer in PREFERENCES] == [
        ["/prompt", "/completion"],
        ["/prompt", "/completion"],
        ["/completion", "/prompt"],
    ]


def test_the_number_of_reasons_is_limited() -> None:
    lists = {key: [1] for key in MESSAGE_LIST_KEYS}

    result = explain_absence({"data": lists, "inputs": dict(lists), "outputs": dict(lists)})

    assert [reason.path for reason in result[:MAX_REASONS]] == [
        f"/{wrapper}/{key}" for wrapper in ("data", "inputs", "outputs") for key in MESSAGE_LIST_KEYS
    ][:MAX_REASONS]
    assert result[MAX_REASONS:] == (Reason("", "has more than 20 candidates; the rest are not listed"),)


def test_a_cyclic_object_is_explained_once() -> None:
    value: dict[str, Any] = {"messages": [1]}
    value["data"] = value

    assert reasons(value) == ["/messages: element 0 is not an object"]


def test_all_sibling_json_texts_are_explained() -> None:
    value = {"inputs": text({"messages": [1]}), "outputs": text({"messages": [2]}), "response": text({"messages": []})}

    assert reasons(value) == [
        "/inputs/messages: element 0 is not an object",
        "/outputs/messages: element 0 is not an object",
        "/response/messages: is an empty list",
    ]


def test_dict_and_list_subclasses_whose_methods_raise_are_explained() -> None:
    class Odd(dict[str, Any]):
        def refuse(self, *_given: Any) -> Any:
            raise RuntimeError

        get = items = keys = __iter__ = __len__ = refuse

    class OddList(list[Any]):
        def __iter__(self) -> Any:
            raise RuntimeError

    assert reasons(Odd(messages=[Odd(x=1)], choices=OddList([Odd(delta=Odd(y=1))]))) == [
        "/messages: element 0 has no role (keys: x)",
        "/choices: element 0 has no supported content (content, parts, tool_calls, …)",
    ]
    assert reasons(Odd(), "strict") == ["the value: is an empty object"]


@given(values, st.sampled_from(PREFERENCES))
def test_there_are_reasons_exactly_where_nothing_is_found(value: Any, prefer: Any) -> None:
    assert (explain_absence(value, prefer) == ()) == (read_conversation(value, prefer) is not None)
    assert (explain_absence(value, prefer, search="strict") == ()) == (extract_chat_messages(value, prefer) is not None)


@given(values)
def test_a_preference_changes_only_the_order_of_the_reasons(value: Any) -> None:
    result = [explain_absence(value, prefer) for prefer in PREFERENCES]

    assert len(result[0]) > MAX_REASONS or len({frozenset(some) for some in result}) == 1


def test_the_wide_search_includes_all_keys_of_the_strict_search() -> None:
    for prefer in PREFERENCES:
        strict, wide = STRICT[prefer], WIDE[prefer]
        assert [key for key in wide.keys if key in strict.keys] == list(strict.keys)
        assert {*strict.wrappers} <= {*wide.wrappers}


def test_the_sides_of_known_keys() -> None:
    assert {name: SIDES.get(name) for name in ("prompt", "data", "input.value", "choices", "result", "messages")} == {
        "prompt": "input",
        "data": None,
        "input.value": "input",
        "choices": "output",
        "result": "output",
        "messages": None,
    }
