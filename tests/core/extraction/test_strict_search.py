"""The strict search for a conversation."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.dialects.detection import dialect_of, is_chat_messages
from palaver.core.extraction.search import MAX_SEARCH_DEPTH, extract_chat_messages

U = {"role": "user", "content": "hi"}
A = {"role": "assistant", "content": "hello"}
PREFERENCES: list[Any] = [None, "input", "output"]


@pytest.mark.parametrize(
    ("value", "neutral", "of_input", "of_output"),
    [
        # 1: leaves
        (None, None, None, None),
        ("[]", None, None, None),
        (5, None, None, None),
        (True, None, None, None),
        (b"x", None, None, None),
        ((U,), None, None, None),
        # 2: lists
        ([U, A], [U, A], [U, A], [U, A]),
        ([], None, None, None),
        ([[U]], None, None, None),
        ([1, U], None, None, None),
        # 3: keys, group by group
        ({"prompt": [U]}, [U], [U], [U]),
        ({"prompt": [1, 2, 3]}, None, None, None),
        ({"prompt": [1], "history": [U]}, [U], [U], [U]),
        ({"messages": [U], "completion": [A], "prompt": [U, U]}, [U], [U, U], [A]),
        ({"logs": [U], "messages": [A]}, [A], [A], [A]),
        ({"responses": [A], "output_messages": [U]}, [U], [U], [U]),
        # 4: wrappers
        ({"data": {"inputs": {"prompt": [U]}}}, [U], [U], [U]),
        ({"inputs": {"prompt": [U]}, "outputs": {"completion": [A]}}, [U], [U], [A]),
        ({"inputs": {"prompt": [U]}}, [U], [U], [U]),
        ({"messages": [U], "outputs": {"completion": [A]}}, [U], [U], [U]),
        ({"request": {"messages": [U]}, "response": {"messages": [A]}}, [U], [U], [A]),
        ({"data": {"inputs": [U], "outputs": [A]}}, [U], [U], [A]),
        ({"data": [U], "inputs": [A]}, [U], [A], [U]),
        ({"data": "x", "inputs": [A]}, [A], [A], [A]),
        # 5: choices
        ({"choices": [{"message": A}]}, [A], [A], [A]),
        ({"choices": [{"message": {}, "delta": A}, 5, {"message": None}]}, [A], [A], [A]),
        ({"choices": [{"message": A, "delta": U}, {"index": 0}]}, [A], [A], [A]),
        ({"choices": {"message": A}}, None, None, None),
        ({"choices": [{"message": {"x": 1}}]}, None, None, None),
        # 6: the object itself
        (A, [A], [A], [A]),
        ({**A, "messages": [U]}, [U], [U], [U]),
        ({"role": "admin", "content": "x"}, None, None, None),
    ],
)
def test_messages_are_found_for_each_preference(value: Any, neutral: Any, of_input: Any, of_output: Any) -> None:
    assert [extract_chat_messages(value, prefer) for prefer in PREFERENCES] == [neutral, of_input, of_output]


def test_the_original_list_is_returned() -> None:
    messages = [U]

    assert extract_chat_messages({"data": {"messages": messages}}) is messages
    result = extract_chat_messages({"choices": [{"message": A}]})
    assert result is not None
    assert result[0] is A


def test_an_invalid_preference_raises_value_error() -> None:
    with pytest.raises(ValueError, match="prefer must be None, 'input' or 'output'"):
        extract_chat_messages([U], "both")  # type: ignore[arg-type]


def nested(path: str, inner: Any) -> Any:
    for key in reversed(path.split(".")):
        inner = {key: inner}
    return inner


@pytest.mark.parametrize("prefer", PREFERENCES)
@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        ("data.inputs.data.inputs.data.inputs", True),
        ("data.data.data.data.data.data", True),
        ("data.data.data.data.data.data.data", False),
        ("request.response.outputs.data.inputs.data", True),
        ("somewhere", False),
    ],
)
def test_depth_is_counted_in_keys_for_each_preference(path: str, is_found: bool, prefer: Any) -> None:
    assert (extract_chat_messages(nested(path, {"prompt": [U]}), prefer) is not None) is is_found
    assert (extract_chat_messages(nested(path, [U]), prefer) is not None) is is_found


def test_the_maximum_search_depth_is_six() -> None:
    assert MAX_SEARCH_DEPTH == 6


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_the_search_ends_for_cyclic_values(prefer: Any) -> None:
    value: dict[str, Any] = {"inputs": {}}
    value["data"] = value
    value["inputs"]["data"] = value
    assert extract_chat_messages(value, prefer) is None
    value["outputs"] = {"completion": [A], "request": value}
    assert extract_chat_messages(value, prefer) == [A]


@pytest.mark.parametrize("prefer", PREFERENCES)
def test_a_shared_object_is_searched_again_at_a_smaller_depth(prefer: Any) -> None:
    shared = nested("data.data.data.data.data", {"prompt": [U]})
    value = {"data": {"inputs": shared}, "request": {"inputs": {}}, "response": shared}

    assert extract_chat_messages(value, prefer) == [U]


def test_a_dict_subclass_whose_get_raises_is_searched() -> None:
    class Odd(dict[str, Any]):
        def get(self, *given: Any) -> Any:
            raise RuntimeError

    assert extract_chat_messages(Odd(messages=[U])) == [U]


def test_a_million_keys_and_100000_levels_are_searched() -> None:
    wide: dict[str, Any] = {f"key {number}": number for number in range(1_000_000)}
    deep: Any = [U]
    for _ in range(100_000):
        deep = {"data": deep}

    assert extract_chat_messages(wide | {"messages": [U]}) == [U]
    assert extract_chat_messages(deep) is None


# Properties

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just(U) | st.just(A)
names = st.sampled_from(
    "prompt input_messages completion output_messages responses messages history data inputs outputs request response"
    " choices message delta role content other".split()
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=20
)


@given(values)
def test_a_preference_changes_the_order_and_never_whether_something_is_found(value: Any) -> None:
    result = [extract_chat_messages(value, prefer) for prefer in PREFERENCES]

    assert len({one is None for one in result}) == 1
    for one in result:
        assert one is None or is_chat_messages(one)
        assert one is None or (extract_chat_messages(one) is one and dialect_of(one) is not None)


@given(values, st.dictionaries(st.text(max_size=3).map("x-{}".format), values, max_size=3))
def test_unknown_keys_change_nothing(value: Any, unknown: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for prefer in PREFERENCES:
            result = extract_chat_messages(value, prefer)
            repeated = extract_chat_messages({**unknown, **value}, prefer)
            assert (repeated == result) or (result == [value] and repeated == [{**unknown, **value}])


@given(values)
def test_a_wrapper_preserves_matches_within_the_depth_limit(value: Any) -> None:
    for prefer in PREFERENCES:
        result = extract_chat_messages({"data": value}, prefer)
        assert (
            result is not None or extract_chat_messages(value, prefer) is None or _depth(value) > MAX_SEARCH_DEPTH - 1
        )


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max((_depth(inner) for inner in value.values()), default=0)
    return 0
