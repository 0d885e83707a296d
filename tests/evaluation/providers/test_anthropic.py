"""Parsing Anthropic's responses, including those without a verdict."""

from typing import Any

import pytest

from palaver.core.messages import Usage
from palaver.evaluation.providers import anthropic
from palaver.evaluation.providers.client import UnreadableAnswer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"content": []}, ""),
        ({"content": [{"type": "text", "text": "Yes"}, {"type": "thinking"}, {"type": "text", "text": "."}]}, "Yes."),
        ({"content": [{"type": "text", "text": 7}, {"type": "tool_use", "input": "no object"}]}, ""),
        ({"content": [{"type": "text", "text": "So:"}, {"type": "tool_use", "input": {"score": 1}}]}, '{"score":1}'),
    ],
)
def test_the_answer_is_the_tool_input_or_else_the_text(answer: Any, expected: str) -> None:
    assert anthropic.read_answer(answer) == (expected, None)


def test_cached_tokens_are_counted_as_input() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300, "output_tokens": 4}

    assert anthropic.read_answer({"content": [], "usage": usage}) == ("", Usage(321, 4, 20, 300))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"stop_reason": "refusal", "content": []}, "the model refused to answer"),
        ({"content": "Yes."}, "it has no content"),
        ({}, "it has no content"),
        ("Yes.", "it has no content"),
    ],
)
def test_an_answer_without_usable_content_is_rejected(answer: Any, message: str) -> None:
    with pytest.raises(UnreadableAnswer) as caught:
        anthropic.read_answer(answer)

    assert str(caught.value) == message


def test_embeddings_are_not_supported() -> None:
    with pytest.raises(UnreadableAnswer, match=r"^Anthropic has no embedding models$"):
        anthropic.embedding_request("claude-x", ["a"])
    with pytest.raises(UnreadableAnswer, match=r"^Anthropic has no embedding models$"):
        anthropic.read_vectors({"data": []}, 1)
