"""Refusals: did the answer decline? A model's own refusal, a filter's, or words with which refusals begin."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from palaver.core.messages import Message
from palaver.core.parts import Refusal

OPENINGS: Final = (
    *(f"i {cannot} {do}" for cannot, do in product(("can't", "cannot", "can not"), ("help", "assist", "provide"))),
    *(f"i {cannot} {do}" for cannot, do in product(("can't", "cannot", "can not"), ("comply", "do that"))),
    "i won't",
    *(f"{i_am} {unable} to" for i_am, unable in product(("i'm", "i am"), ("unable", "not able"))),
    "i'm sorry, but i can",
    "sorry, but i can",
    "i must decline",
)
"""How a refusal begins, folded."""


def refusal(messages: Iterable[Message], text: str, finish: str, patterns: Sequence[str] = ()) -> str | None:
    """What makes it a refusal, for people to read; None where it is none."""
    if any(isinstance(part, Refusal) for message in messages for part in message.parts):
        return "it has a refusal part"
    if finish == "content-filter":
        return "it was ended by a content filter"
    said = folded(text)
    opening = next((one for one in (*OPENINGS, *map(folded, patterns)) if one and said.startswith(one)), None)
    return None if opening is None else f"it begins with {opening!r}"


def folded(text: str) -> str:
    """The text without regard to case, white space and the form of its apostrophes."""
    return " ".join(text.replace("\u2019", "'").casefold().split())
