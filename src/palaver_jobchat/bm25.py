"""The words of a question or a text, and how well some texts answer a question (BM25)."""

import re
from collections import Counter
from collections.abc import Sequence
from math import log

_WORD = re.compile(r"[^\W_][\w$]*")
_RARE, _LENGTH = 1.2, 0.75  # BM25's k1 and b, as almost everyone has them.

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been before being but by can could did do does doing
    don done for from further gets getting give had has have having he help her here him his how i if in into
    is it its just know let like make me more most my need no not now of on once one only or other our out over own
    please put same she should show so some such tell than thank thanks that the their them then there these they thing
    this those to too try up us use used using very want was way we well were what when where which while who why will
    with without work works would write yes you your""".split()
)
"""Words that say nothing about what a question is about."""


def tokenize(text: str) -> list[str]:
    """The words of a text in small letters, in order; an identifier is one word."""
    return [word.lower() for word in _WORD.findall(text)]


def content_terms(text: str, *, without: Sequence[str] = ()) -> list[str]:
    """The distinct words of a question that say what it is about, in order."""
    dropped = {word.lower() for word in without}
    return [word for word in dict.fromkeys(tokenize(text)) if word not in STOP_WORDS and word not in dropped]


def bm25_scores(question: Sequence[str], texts: Sequence[str]) -> list[float]:
    """How well each text answers the question's terms, by BM25; 0 where it has none of them."""
    counts = [Counter(tokenize(text)) for text in texts]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    total = [0.0] * len(texts)
    for term in dict.fromkeys(question):
        having = sum(term in count for count in counts)
        weight = log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for place, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            if often := count[term]:
                total[place] += weight * often * (_RARE + 1) / (often + _RARE * (1 - _LENGTH + _LENGTH * length / mean))
    return total
