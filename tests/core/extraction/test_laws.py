"""Properties of extraction, over values that are nearly conversations (near_misses.py)."""

from random import Random
from typing import Any

from hypothesis import assume, given, settings

from palaver.core.extraction import dialect_of, extract_chat_messages, is_chat_messages, preview, read_conversation
from palaver.core.extraction.previews import ChatPreview
from tests.core.extraction import near_misses, reference_search

more_examples = settings(max_examples=150)
"""More examples than in other tests: every table in the interface depends on extraction."""


def read_summary(value: Any, prefer: Any) -> tuple[str, str, str | None, int] | None:
    read = read_conversation(value, prefer)
    return read and (read.dialect, read.path, read.side, len(read.messages))


@more_examples
@given(near_misses.strategy_for(near_misses.value))
def test_1_a_preference_never_decides_whether_something_is_found(value: Any) -> None:
    strict = [extract_chat_messages(value, prefer) is None for prefer in near_misses.PREFERENCES]
    wide = [read_conversation(value, prefer) is None for prefer in near_misses.PREFERENCES]

    assert (len(set(strict)), len(set(wide))) == (1, 1)


@more_examples
@given(near_misses.strategy_for(near_misses.value))
def test_2_where_the_strict_search_finds_something_the_wide_one_does(value: Any) -> None:
    for prefer in near_misses.PREFERENCES:
        if extract_chat_messages(value, prefer) is not None:
            assert read_conversation(value, prefer) is not None


@more_examples
@given(near_misses.strategy_for(near_misses.value))
def test_3_extraction_is_idempotent(value: Any) -> None:
    for prefer in near_misses.PREFERENCES:
        result = extract_chat_messages(value, prefer)

        assert result is None or all(
            extract_chat_messages(result, other) is result for other in near_misses.PREFERENCES
        )


def tree_value(rng: Random) -> Any:
    """A value without shared objects, so that a match has one path."""
    return rng.choice([near_misses.chain, near_misses.tree])(rng)


@more_examples
@given(near_misses.strategy_for(tree_value))
def test_4_a_single_match_has_the_same_path_for_every_preference(value: Any) -> None:
    search = reference_search.Search(None)
    root, hops = search.open_text(None, "", value, 0)
    matches = list(search.visit(root, [], 0, hops, False))
    assume(len(matches) == 1)

    result = [read_summary(value, prefer) for prefer in near_misses.PREFERENCES]

    assert [one and one[:2] for one in result] == [(matches[0].dialect, matches[0].path)] * 3


def add_unknown_keys(value: Any) -> Any:
    """The same value with an unknown key added to every non-empty object."""
    if isinstance(value, dict) and value:
        return {
            **{key: add_unknown_keys(content) for key, content in value.items()},
            "elsewhere": [{"role": "user", "content": "no"}],
        }
    return [add_unknown_keys(content) for content in value] if isinstance(value, list) else value


@more_examples
@given(near_misses.strategy_for(tree_value))
def test_5_unknown_keys_change_nothing(value: Any) -> None:
    extended = add_unknown_keys(value)

    for prefer in near_misses.PREFERENCES:
        strict, with_more_strict = extract_chat_messages(value, prefer), extract_chat_messages(extended, prefer)

        assert with_more_strict == (None if strict is None else add_unknown_keys(strict))
        assert read_summary(extended, prefer) == read_summary(value, prefer)


@more_examples
@given(near_misses.strategy_for(near_misses.value))
def test_6_an_additional_wrapper_preserves_matches_within_the_depth_limit(value: Any) -> None:
    read = read_conversation(value)
    if read is not None and read.path.count("/") <= 5:
        assert read_conversation({"data": value}) is not None
    strict = extract_chat_messages(value)
    if strict is not None and key_depth(strict, value) <= 5:
        assert extract_chat_messages({"data": value}) is not None


def key_depth(result: list[Any], value: Any) -> int:
    """The number of keys on the path to the result: to the list itself, or else to its first element."""
    depth, level, seen = 0, [value], set[int]()
    while level:
        if any(content is result or content is result[0] for content in level):
            return depth
        deeper = [content for one in level if isinstance(one, dict) and id(one) not in seen for content in one.values()]
        choices = [content for one in deeper if isinstance(one, list) for content in one if isinstance(content, dict)]
        seen |= {id(one) for one in level}
        depth, level = depth + 1, deeper + [output for choice in choices for output in choice.values()]
    return depth


@more_examples
@given(near_misses.strategy_for(near_misses.messages))
def test_7_chat_messages_always_have_a_dialect(value: Any) -> None:
    assert not is_chat_messages(value) or dialect_of(value) is not None


@more_examples
@given(near_misses.strategy_for(near_misses.value))
def test_8_a_preview_is_a_chat_exactly_when_a_conversation_is_found(value: Any) -> None:
    for prefer in near_misses.PREFERENCES:
        is_chat = isinstance(preview(value, prefer), ChatPreview)

        assert is_chat == (read_conversation(value, prefer) is not None)
