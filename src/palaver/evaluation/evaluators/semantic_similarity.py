"""semantic_similarity: how near the text and what is expected are in meaning, by a model's vectors.

`ngram` is no model: it compares which letters follow each other, needs nothing, and is for tests without a network.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach

LETTERS = 3


def _check(parameters: Any, reach: Reach) -> None:
    reach.check_model(parameters.model, "/parameters/model")


@evaluator(title="Semantic similarity", needs={"expected"}, threshold=0.8, check=_check)
async def semantic_similarity(
    case: Case,
    aim: Aim,
    reach: Reach,
    model: Annotated[str, Meta(min_length=1, description="ngram, local:…, or a provider's model.")] = "ngram",
) -> float:
    """The cosine of the vectors of the text and of what is expected; never less than 0."""
    expected, text = aim.folded(aim.expected_text(case)), aim.folded(aim.text(case))
    if model == "ngram":
        return await asyncio.get_running_loop().run_in_executor(reach.threads, likeness, text, expected)
    if text == expected or not text.strip() or not expected.strip():  # Nothing has no meaning, and no vector.
        return 1.0 if text == expected else 0.0
    one, other = await reach.embed([text, expected], model=model)
    return max(0.0, _cosine(dict(enumerate(one)), dict(enumerate(other))))


def likeness(one: str, other: str) -> float:
    """The cosine of how often each three letters stand in either; equal texts are 1."""
    return 1.0 if one == other else _cosine(_grams(one), _grams(other))


def _grams(text: str) -> Mapping[str, float]:
    # A blank at either end, so that a text of one letter has some, too.
    padded = f" {text} " if text else ""
    return Counter(padded[at : at + LETTERS] for at in range(max(0, len(padded) - LETTERS + 1)))


def _cosine(one: Mapping[str, float] | Mapping[int, float], other: Mapping[str, float] | Mapping[int, float]) -> float:
    some: Mapping[object, float] = dict(one.items())
    others: Mapping[object, float] = dict(other.items())
    lengths = _length(list(some.values())) * _length(list(others.values()))
    product = sum(weight * others.get(key, 0.0) for key, weight in some.items())
    return min(1.0, product / lengths) if lengths else 0.0


def _length(weights: Sequence[float]) -> float:
    return math.sqrt(sum(weight * weight for weight in weights))
