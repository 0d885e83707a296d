"""levenshtein, similarity and semantic_similarity: the similarity of two texts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.evaluation.evaluators.text import ngram_similarity
from tests.evaluation.evaluator_helpers import answer, score_case, verdict


@pytest.mark.parametrize(
    ("key", "text", "expected", "score"),
    [
        ("levenshtein", "kitten", "sitting", 1 - 3 / 7),
        ("levenshtein", "", "", 1.0),
        ("levenshtein", "", "abc", 0.0),
        ("levenshtein", "abc", "abc", 1.0),
        ("levenshtein", "abc", "ABC", 0.0),
        ("levenshtein", "naïve", "naive", 0.8),
        ("levenshtein", "ab", "ba", 0.0),
        ("similarity", "abc", "abc", 1.0),
        ("similarity", "", "", 1.0),
        ("similarity", "", "abc", 0.0),
        ("similarity", "ab", "ba", 0.5),
        ("similarity", "kitten", "sitting", 8 / 13),
        ("semantic_similarity", "the same", "the same", 1.0),
        ("semantic_similarity", "", "", 1.0),
        ("semantic_similarity", "", "text", 0.0),
        ("semantic_similarity", "aaaa", "zzzz", 0.0),
        ("semantic_similarity", "a", "a", 1.0),
    ],
)
async def test_similarity_scores(key: str, text: str, expected: str, score: float) -> None:
    one = await score_case(key, answer(text, expected=expected))

    assert (one.status, one.score) == ("scored", pytest.approx(score))
    assert one.passed == (score >= (0.8 if key == "semantic_similarity" else 0.5))


@pytest.mark.parametrize("key", ["levenshtein", "similarity", "semantic_similarity"])
async def test_the_shared_parameters_apply(key: str) -> None:
    case = answer("ABC", expected="abc", row={"other": "ABC"})

    assert await verdict(key, case) is False
    assert await verdict(key, case, case_sensitive=False) is True
    assert await verdict(key, case, expected_from="other") is True
    assert await verdict(key, case, threshold=0) is True
    assert await verdict(key, answer("x")) == "no_expected"
    assert await verdict(key, answer({"a": "abc"}, is_chat=False, expected="abc")) == "needs_text"
    assert await verdict(key, answer({"a": "abc"}, is_chat=False, expected="abc"), target="value.a") is True
    assert await verdict(key, answer("abc", expected={"role": "assistant", "content": "abc"})) is True
    assert await verdict(key, answer("x", expected={"a": 1})) == "needs_text"
    assert await verdict(key, answer('{"a":1}', expected={"a": 1}), stringify=True) is True


async def test_similar_texts_score_higher_than_different_ones() -> None:
    similar = await score_case("semantic_similarity", answer("The cat sat on the mat", expected="A cat sat on a mat"))
    different = await score_case(
        "semantic_similarity", answer("The cat sat on the mat", expected="Taxes are due in May")
    )

    assert similar.score is not None
    assert different.score is not None
    assert 0 <= different.score < 0.3 < similar.score < 1


@pytest.mark.parametrize("model", ["local:small", "text-embedding-9"])
async def test_an_unavailable_model_is_an_error_without_a_score(model: str) -> None:
    one = await score_case("semantic_similarity", answer("a", expected="b"), model=model)

    assert (one.status, one.score) == ("error", None)
    assert one.reason == f"not_available: model {model!r} is not available. Use 'ngram', which needs no provider."


@given(st.text(max_size=30), st.text(max_size=30))
def test_ngram_similarity_is_symmetric_and_between_0_and_1(one: Any, other: Any) -> None:
    assert 0 <= ngram_similarity(one, other) <= 1
    assert ngram_similarity(one, other) == pytest.approx(ngram_similarity(other, one))
    assert ngram_similarity(one, one) == 1
