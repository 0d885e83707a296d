"""Which of the forms that we offer the caller wants: the Accept header as RFC 9110 reads it."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_NAME = r"[!#$%&'*+.^_`|~0-9a-z-]+"
_RANGE = re.compile(rf"(?P<kind>{_NAME})/(?P<form>{_NAME})")
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
# A quoted value may hold commas and semicolons. Its end may be missing: what is not closed goes on to the end.
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*["\\]?')


class _Range(NamedTuple):
    kind: str
    form: str
    weight: float = 1.0

    def speaks_for(self, offer: str) -> int:
        """How specifically: 3 for that very type, 2 for its kind, 1 for anything, 0 not at all."""
        kind, _, form = offer.partition("/")
        match self.kind, self.form:
            case "*", "*":
                return 1
            case own, "*":
                return 2 if own == kind else 0
            case named:
                return 3 if named == (kind, form) else 0


@lru_cache(256)  # Clients say the same thing again and again.
def choose_media_type(header: str | None, offers: tuple[str, ...]) -> str | None:
    """The offer of the highest weight, the earlier one where they tie; None when the caller takes none of them."""
    ranges = _ranges(header or "") or [_Range("*", "*")]
    weights = [_weight(offer, ranges) for offer in offers]
    best = max(weights, default=0.0)
    return offers[weights.index(best)] if best > 0 else None


def _weight(offer: str, ranges: Sequence[_Range]) -> float:
    """The weight that the most specific range gives to an offer."""
    speaker = max(ranges, key=lambda one: one.speaks_for(offer))
    return speaker.weight if speaker.speaks_for(offer) else 0.0


def _ranges(header: str) -> list[_Range]:
    """The readable ranges of the header; an unreadable one is skipped."""
    pieces = _QUOTED.sub("", header.lower()).split(",")
    return [one for piece in pieces if (one := _range(piece)) is not None]


def _range(piece: str) -> _Range | None:
    media, *parameters = (part.strip() for part in piece.split(";"))
    named = _RANGE.fullmatch(media)
    if named is None or (named["kind"] == "*" and named["form"] != "*"):
        return None
    for parameter in parameters:
        name, _, value = (side.strip() for side in parameter.partition("="))
        if name == "q":
            return _Range(named["kind"], named["form"], float(value)) if _WEIGHT.fullmatch(value) else None
    return _Range(named["kind"], named["form"])
