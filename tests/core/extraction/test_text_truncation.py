"""Excerpts of texts: limits in lines and characters, cut between grapheme clusters, reading only the beginning."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.extraction.truncation import Excerpt, cut_text, grapheme_boundary, one_line

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
NORWAY, CHAD = "\U0001f1f3\U0001f1f4", "\U0001f1f9\U0001f1e9"
GRAPHEME_CLUSTERS = {
    "a flag": NORWAY,
    "a flag of tags": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "a family": FAMILY,
    "a rainbow": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "a skin tone": "\U0001f44d\U0001f3fd",
    "a key": "1\ufe0f\u20e3",
    "a variation": "\u2764\ufe0f",
    "an accent": "e\u0301\u0323",
    "a syllable": "\u1112\u1161\u11ab",
    "a vowel sign": "\u0928\u093f",
    "a Thai vowel": "\u0e01\u0e33",
    "a voiced kana": "\uff76\uff9e",
    "two halves": "\ud83d\ude00",
    "a line's end": "\r\n",
    "a mark by joining": "\u2764\u200d\u00ae",
}


@pytest.mark.parametrize("cluster", GRAPHEME_CLUSTERS.values(), ids=GRAPHEME_CLUSTERS)
def test_grapheme_clusters_are_never_cut(cluster: str) -> None:
    text = f"ab{cluster}{cluster}c"
    boundaries = {grapheme_boundary(text, at) for at in range(len(text) + 1)}

    assert boundaries == {0, 1, 2, 2 + len(cluster), 2 + 2 * len(cluster), len(text)}


def test_flags_are_paired_from_the_first_regional_indicator() -> None:
    text = "x" + NORWAY + CHAD + "\U0001f1e6"

    assert [grapheme_boundary(text, at) for at in range(len(text))] == [0, 1, 1, 3, 3, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Excerpt("", 0)),
        ("ten chars.", Excerpt("ten chars.", 0)),
        ("ten chars. ", Excerpt("ten chars.", 1)),
        ("nine      and more", Excerpt("nine", 14)),
        (" a\n\n", Excerpt(" a\n\n", 0)),  # Text that fits is unchanged.
        ("a\nb\nc", Excerpt("a\nb\nc", 0)),
        ("a\nb\nc\n", Excerpt("a\nb\nc\n", 0)),
        ("a\nb\nc\nd", Excerpt("a\nb\nc", 2)),
        ("a\r\nb\r\nc\r\nd", Excerpt("a\r\nb\r\nc", 3)),
        ("a\n\n\n\nb", Excerpt("a", 5)),
        ("\n\n\n\n\n  words", Excerpt("words", 7)),
        (" " * 20 + "words", Excerpt("words", 20)),
        (" " * 20, Excerpt("", 20)),
        ("12345678" + FAMILY, Excerpt("12345678", 5)),
        ("1234567 " + FAMILY, Excerpt("1234567", 6)),
        ("e" + "\u0301" * 20, Excerpt("", 21)),
        ("\ud83d\ude00" * 2 + "\ud800", Excerpt("\U0001f600\U0001f600\ufffd", 0)),
        ("\ud83d\ude00" * 12, Excerpt("\U0001f600" * 10, 2)),
    ],
)
def test_texts_are_cut_to_lines_and_characters(text: str, expected: Excerpt) -> None:
    assert cut_text(text, characters=10, lines=3) == expected


def test_an_excerpt_counts_its_lines() -> None:
    assert [Excerpt(text, 0).lines for text in ("", "a", "a\n", "a\n\nb")] == [0, 1, 1, 3]


def test_a_limit_of_zero_gives_an_empty_excerpt() -> None:
    assert cut_text("words", characters=0, lines=3) == Excerpt("", 5)
    assert cut_text("words", characters=10, lines=0) == Excerpt("", 5)
    assert one_line("words", 0) == ""


def test_left_out_characters_are_counted_from_the_total_length() -> None:
    assert cut_text("0123456789abc", characters=10, lines=3, length=1_000) == Excerpt("0123456789", 990)
    assert cut_text("0123", characters=10, lines=3, length=1_000) == Excerpt("0123", 996)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("  one \t\r\n two\u00a0\u2028three  ", "one two three"),
        ("\x00a\x00 \x1b \x9f\x7fb\x85c", "a b c"),
        ("12345678 " + FAMILY, "12345678"),
        ("1234567890123", "1234567890123"[:13]),
        ("12345678901234", "1234567890123"),
        ("\ud800x\udc00", "\ufffdx\ufffd"),
        ("\n" * 60_000 + "late", "late"),
        ("a" + " " * 5_000 + "b", "a"),
    ],
)
def test_one_line_collapses_whitespace_and_cuts_the_text(text: str, line: str) -> None:
    assert one_line(text, 13) == line


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    class Watched(str):
        __slots__ = ()

        def __getitem__(self, key: object) -> str:
            assert isinstance(key, slice | int)
            assert isinstance(key, int) or (key.stop or 0) < 10_000
            return str.__getitem__(self, key)

    text = Watched("some words " * 100_000)

    assert cut_text(text, characters=10, lines=3) == Excerpt("some words", 1_099_990)
    assert one_line(text, 10) == "some words"


characters = st.sampled_from(
    [*GRAPHEME_CLUSTERS.values(), "a", " ", "\n", "\u200d", "\U0001f1f3", "\u0301", "\x00", "\ud800", "中"]
)
texts = st.lists(characters, max_size=40).map("".join)


@given(texts, st.integers(0, 50), st.integers(0, 5))
def test_a_cut_text_is_within_its_limits(text: str, most: int, lines: int) -> None:
    rendered = cut_text(text, characters=most, lines=lines)

    assert rendered.left_out >= 0
    assert rendered.lines <= lines
    if rendered.left_out:
        assert len(rendered.text) <= most
        assert rendered.text == rendered.text.rstrip()
    rendered.text.encode()
    assert len(one_line(text, most)) <= most


@given(texts, st.integers(0, 50))
def test_a_grapheme_boundary_is_never_before_a_combining_mark(text: str, at: int) -> None:
    index = grapheme_boundary(text, at)

    assert 0 <= index <= at
    if 0 < index < len(text):
        assert unicodedata.category(text[index])[0] != "M"
        assert text[index] not in "\u200d\U0001f3fd"
        assert (text[index - 1], text[index]) != ("\ud83d", "\ude00")
