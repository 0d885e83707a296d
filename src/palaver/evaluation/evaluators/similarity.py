"""Similarity evaluators: levenshtein, similarity, semantic_similarity."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.target import Target


@evaluator(title="Similarity", needs={"expected"}, threshold=0.5)
def similarity(case: Case, target: Target) -> float:
    """The share of letters that the text and what is expected have in common, in order (the indel ratio)."""
    from rapidfuzz.distance import Indel

    expected = target.fold_case(target.expected_text(case))
    return Indel.normalized_similarity(target.fold_case(target.text(case)), expected)


@evaluator(title="Levenshtein distance", needs={"expected"}, threshold=0.5)
def levenshtein(case: Case, target: Target) -> float:
    """1 less the share of letters that must be changed to get from the text to what is expected."""
    from rapidfuzz.distance import Levenshtein

    expected = target.fold_case(target.expected_text(case))
    return Levenshtein.normalized_similarity(target.fold_case(target.text(case)), expected)


NGRAM_LENGTH = 3


def _check_semantic_similarity(parameters: Any, context: EvaluatorContext) -> None:
    context.check_model(parameters.model, "/parameters/model")


@evaluator(title="Semantic similarity", needs={"expected"}, threshold=0.8, check=_check_semantic_similarity)
async def semantic_similarity(
    case: Case,
    target: Target,
    context: EvaluatorContext,
    model: Annotated[str, Meta(min_length=1, description="ngram, local:…, or a provider's model.")] = "ngram",
) -> float:
    """The cosine of the vectors of the text and of what is expected; never less than 0."""
    expected, text = target.fold_case(target.expected_text(case)), target.fold_case(target.text(case))
    if model == "ngram":
        return await asyncio.get_running_loop().run_in_executor(context.executor, ngram_similarity, text, expected)
    if text == expected or not text.strip() or not expected.strip():  # Empty text has no vector.
        return 1.0 if text == expected else 0.0
    one, other = await context.embed([text, expected], model=model)
    return max(0.0, _cosine(dict(enumerate(one)), dict(enumerate(other))))


def ngram_similarity(one: str, other: str) -> float:
    """The cosine of character trigram counts; 1 for equal texts."""
    return 1.0 if one == other else _cosine(_ngrams(one), _ngrams(other))


def _ngrams(text: str) -> Mapping[str, float]:
    # Padded, so that a text of one character has trigrams.
    padded = f" {text} " if text else ""
    return Counter(padded[at : at + NGRAM_LENGTH] for at in range(max(0, len(padded) - NGRAM_LENGTH + 1)))


def _cosine(one: Mapping[str, float] | Mapping[int, float], other: Mapping[str, float] | Mapping[int, float]) -> float:
    some: Mapping[object, float] = dict(one.items())
    others: Mapping[object, float] = dict(other.items())
    lengths = _vector_length(list(some.values())) * _vector_length(list(others.values()))
    product = sum(weight * others.get(key, 0.0) for key, weight in some.items())
    return min(1.0, product / lengths) if lengths else 0.0


def _vector_length(weights: Sequence[float]) -> float:
    return math.sqrt(sum(weight * weight for weight in weights))
