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
        ({"messages": [U, A, {"content": "x"}]}, ["/messages: element 2 has no role (it has content)"]),
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
        ({"messages": [[U], [A]]}, ["/messages: holds 2 lists, and several are no conversation"]),
        ({"messages": [[1]]}, ["/messages/0: element 0 is not an object"]),
        (
            [{"messages": [U]}],
            ["the value: element 0 has no role; it holds a conversation, but a list is not searched inside"],
        ),
        # Objects that were meant as messages
        ({"role": "admin", "content": "x"}, ["the value: has no message with a known role (admin)"]),
        ({"input": {"content": "x"}}, ["/input: has no role (it has content)"]),
        ({"message": {"content": "x"}}, ["/message: has no role (it has content)"]),
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
            ["/data/data/data/data/data/data/data: stands below more than 6 keys, too deep to be looked at"],
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
            ["/outputs: is text that begins like JSON and is none: was it cut off, or is it nested too deep?"],
        ),
        (
            text({"data": text({"data": text({"messages": text([U])})})}),
            ["/data/data/messages: is text in a text in a text: no more than 3 are opened"],
        ),
        # Responses of model APIs
        ({"choices": [{"message": {"content": "x"}}]}, ["/choices: element 0 has no role (it has content)"]),
        (
            {"choices": [{"delta": {"index": 0}}]},
            ["/choices: element 0 says nothing that we can read (content, parts, tool_calls …)"],
        ),
        ({"choices": [{"index": 0}, 5]}, ["/choices: no element of it holds a message"]),
        ({"choices": []}, ["/choices: is an empty list"]),
        (
            {"candidates": [{"content": {"x": 1}}]},
            ["/candidates: element 0 says nothing that we can read (content, parts, tool_calls …)"],
        ),
        ({"generations": [[{"text": "x"}]]}, ["/generations: no element of it holds a message"]),
        ({"generations": [[{"message": {"x": 1}}]]}, ["/generations: element 0 has no role (it has x)"]),
        # No known keys
        ({"id": 7, "title": "x"}, ["the value: has no list under any of the known keys (it has id, title)"]),
        (
            dict.fromkeys(map(str, range(50))),
            ["the value: has no list under any of the known keys (it has 0, 1, 2, 3, 4, 5, 6, 7 and 42 more)"],
        ),
        ({"k" * 50: 1, 2: 3}, [f"the value: has no list under any of the known keys (it has {'k' * 40}…, int)"]),
        ({"\ud800": 1}, ["the value: has no list under any of the known keys (it has \ufffd)"]),
        (
            {"inputs": {"question": "x"}, "outputs": {}, "score": 1},
            [
                "the value: has no list under any of the known keys (it has inputs, outputs, score)",
                "/inputs: has no list under any of the known keys (it has question)",
                "/outputs: is an empty object",
            ],
        ),
        ({"dialog": [U]}, ["/dialog: holds a conversation, but is not one of the keys that are looked under"]),
        ({}, ["the value: is an empty object"]),
        (None, ["the value: is null"]),
        (True, ["the value: is true or false"]),
        (1.5, ["the value: is a number"]),
        ("", ["the value: is empty text"]),
        (b"x", ["the value: is not a JSON value"]),
    ],
)
def test_every_searched_location_has_a_reason(value: Any, expected: list[str]) -> None:
    assert reasons(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"messages": [U, {"content": "x"}]}, ["/messages: element 1 has no role (it has content)"]),
        ({"messages": [U, 5]}, ["/messages: element 1 is not an object"]),
        ({"messages": [[U]]}, ["/messages: element 0 is not an object"]),
        ({"messages": [{"role": "user"}]}, ["/messages: element 0 says nothing that the strict search reads"]),
        ({"messages": [{"role": "admin", "content": "x"}]}, ["/messages: has no message with a known role (admin)"]),
        ({"messages": text([U])}, ["/messages: is text, and the strict search opens none"]),
        ({"choices": [{"delta": {"content": "x"}}]}, ["/choices: element 0 has no role (it has content)"]),
        ({"input": [U]}, ["/input: holds a conversation, but is not one of the keys that are looked under"]),
        (
            {"candidates": [{"content": {"parts": [{"text": "x"}]}}]},
            ["the value: has no list under any of the known keys (it has candidates)"],
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
    assert result[MAX_REASONS:] == (Reason("", "there are more than 20 such places"),)


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
        "/messages: element 0 has no role (it has x)",
        "/choices: element 0 says nothing that we can read (content, parts, tool_calls …)",
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
