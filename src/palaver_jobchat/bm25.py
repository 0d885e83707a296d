"""Tokenize text and rank texts against a question with BM25."""

import re
from collections import Counter
from collections.abc import Sequence
from math import log

_WORD = re.compile(r"[^\W_][\w$]*|\$(?![\w$])")
_CODE_WORD = re.compile(r"(?<=\.)[A-Za-z_$][\w$]*|[A-Za-z_$][\w$]*(?=\()")
_K1, _B = 1.2, 0.75  # The usual BM25 parameters.

STOP_WORDS = frozenset(
    """
    a about after all also am an and any anything are as at be because been before being but by can could did do
    does doing don done for from further gets getting give had has have having he help her here him his how i if in
    into is it its just know let like make me more most my need no not now of on once one only or other our out over
    own please put same she should show so some something such tell than thank thanks that the their them then there
    these they thing this those to too try up us use used using very want was way we well were what when where which
    while who why will with without work works would write yes you your
    """.split()
)


def tokenize(text: str) -> list[str]:
    """Return the words of a text in lower case, in order. An identifier is one word."""
    return [word.lower() for word in _WORD.findall(text)]


def content_terms(text: str, *, without: Sequence[str] = ()) -> list[str]:
    """Return the distinct words of a question, in order, without stop words and those in `without`.

    A word that is written as code, such as in `.then()`, is no stop word.
    """
    excluded = (STOP_WORDS - {word.lower() for word in _CODE_WORD.findall(text)}) | {word.lower() for word in without}
    return [word for word in dict.fromkeys(tokenize(text)) if word not in excluded]


def bm25_scores(question: Sequence[str], texts: Sequence[str]) -> list[float]:
    """Return the BM25 score of each text for the question's terms."""
    counts = [Counter(tokenize(text)) for text in texts]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    total = [0.0] * len(texts)
    for term in dict.fromkeys(question):
        document_count = sum(term in count for count in counts)
        weight = log(1 + (len(texts) - document_count + 0.5) / (document_count + 0.5))
        for index, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            if frequency := count[term]:
                total[index] += weight * frequency * (_K1 + 1) / (frequency + _K1 * (1 - _B + _B * length / mean))
    return total
