"""Parsing Anthropic's responses, including those without a verdict."""

from typing import Any

import pytest

from palaver.core.messages import Usage
from palaver.evaluation.providers import anthropic
from palaver.evaluation.providers.client import ProviderAnswer, UnreadableAnswer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"content": []}, ProviderAnswer("", None)),
        ({"content": [{"type": "text", "text": "Yes"}, {"type": "thinking"}, {"type": "text", "text": "."}]}, "Yes."),
        ({"content": [{"type": "text", "text": 7}, {"type": "tool_use", "input": "no object"}]}, ""),
        ({"content": [{"type": "text", "text": "So:"}, {"type": "tool_use", "input": {"score": 1}}]}, '{"score":1}'),
    ],
)
def test_what_the_tool_was_given_is_the_answer_else_the_text(answer: Any, said: ProviderAnswer | str) -> None:
    assert anthropic.read_answer(answer) == (said if isinstance(said, ProviderAnswer) else ProviderAnswer(said, None))


def test_cached_tokens_are_counted_as_input() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300, "output_tokens": 4}

    assert anthropic.read_answer({"content": [], "usage": usage}) == ProviderAnswer("", Usage(321, 4, 20, 300))


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
    with pytest.raises(UnreadableAnswer) as caught:
        anthropic.read_answer(answer)

    assert str(caught.value) == told


def test_there_are_no_embeddings() -> None:
    with pytest.raises(UnreadableAnswer, match=r"^Anthropic has no embeddings$"):
        anthropic.embedding_request("claude-x", ["a"])
    with pytest.raises(UnreadableAnswer, match=r"^Anthropic has no embeddings$"):
        anthropic.read_vectors({"data": []}, 1)
