"""A single-turn workflow: text in, headline out."""

import re
from collections import Counter
from typing import Annotated

from palaver import Failure, Parameter, workflow

_STOP_WORDS = frozenset(
    "a an and are as at be been but by for from had has have he her his in into is it its nor not of on or our she so"
    " than that the their them then there these they this to was we were which who will with you your".split()
)


@workflow
def headline(
    text: str,
    words: int = 8,
    style: Annotated[str, Parameter(description="'title' Capitalises Words, 'plain' leaves them unchanged")] = "title",
) -> str:
    """Turns the most informative sentence of a text into a headline.

    Args:
        text: the text that needs a headline
        words: maximum number of words
    """
    sentences = [sentence.split() for sentence in re.split(r"(?<=[.!?])\s+", text.strip()) if sentence]
    if not sentences:
        raise Failure("nothing_to_say", "The text is empty.", status=422)
    counts = Counter(_normalize(word) for sentence in sentences for word in sentence)

    def score(sentence: list[str]) -> float:
        word_counts = [counts[_normalize(word)] for word in sentence if _normalize(word) not in _STOP_WORDS]
        return sum(word_counts) / (len(sentence) + 3)  # Slightly favours longer sentences.

    best = max(sentences, key=score)[:words]
    while len(best) > 1 and _normalize(best[-1]) in _STOP_WORDS:
        best.pop()  # No headline ends with "of the".
    line = " ".join(best).rstrip(".,;:!?")
    return _to_title_case(line) if style == "title" else line


def _normalize(word: str) -> str:
    return word.lower().strip(".,;:!?\"'()")


def _to_title_case(line: str) -> str:
    words = line.split()
    return " ".join(word if i and word in _STOP_WORDS else word[:1].upper() + word[1:] for i, word in enumerate(words))
