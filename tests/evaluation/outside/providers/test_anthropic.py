"""Anthropic's answers, as they are read: also those that hold no verdict."""

from typing import Any

import pytest

from palaver.core.usage import Usage
from palaver.evaluation.outside.providers import anthropic
from palaver.evaluation.outside.providers.speaking import Misread, Said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"content": []}, Said("", None)),
        ({"content": [{"type": "text", "text": "Yes"}, {"type": "thinking"}, {"type": "text", "text": "."}]}, "Yes."),
        ({"content": [{"type": "text", "text": 7}, {"type": "tool_use", "input": "no object"}]}, ""),
        ({"content": [{"type": "text", "text": "So:"}, {"type": "tool_use", "input": {"score": 1}}]}, '{"score":1}'),
    ],
)
def test_what_the_tool_was_given_is_the_answer_else_the_text(answer: Any, said: Said | str) -> None:
    assert anthropic.said(answer) == (said if isinstance(said, Said) else Said(said, None))


def test_cached_tokens_are_counted_as_input() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300, "output_tokens": 4}

    assert anthropic.said({"content": [], "usage": usage}) == Said("", Usage(321, 4, 20, 300))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"stop_reason": "refusal", "content": []}, "the model refused to answer"),
        ({"content": "Yes."}, "it has no content"),
        ({}, "it has no content"),
        ("Yes.", "it has no content"),
    ],
)
def test_an_answer_that_says_nothing_is_told(answer: Any, told: str) -> None:
    with pytest.raises(Misread) as caught:
        anthropic.said(answer)

    assert str(caught.value) == told


def test_there_are_no_embeddings() -> None:
    with pytest.raises(Misread, match=r"^Anthropic has no embeddings$"):
        anthropic.embedding("claude-x", ["a"])
    with pytest.raises(Misread, match=r"^Anthropic has no embeddings$"):
        anthropic.vectors({"data": []}, 1)
