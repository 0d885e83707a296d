"""Content negotiation: choose a media type by the Accept header (RFC 9110, section 12.5.1)."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_NAME = r"[!#$%&'*+.^_`|~0-9a-z-]+"
_RANGE = re.compile(rf"(?P<kind>{_NAME})/(?P<form>{_NAME})")
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
# A quoted value may contain commas and semicolons. One that is not closed extends to the end.
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*["\\]?')


class _Range(NamedTuple):
    kind: str
    form: str
    weight: float = 1.0

    def specificity(self, offer: str) -> int:
        """Return how specific the match is: 3 for the exact type, 2 for `type/*`, 1 for `*/*`, 0 for no match."""
        kind, _, form = offer.partition("/")
        match self.kind, self.form:
            case "*", "*":
                return 1
            case main, "*":
                return 2 if main == kind else 0
            case exact:
                return 3 if exact == (kind, form) else 0


@lru_cache(256)  # Clients repeat the same few headers.
def choose_media_type(header: str | None, offers: tuple[str, ...]) -> str | None:
    """Return the offer with the highest weight, the first of equals; None if the client accepts none of them."""
    ranges = _ranges(header or "") or [_Range("*", "*")]
    weights = [_weight(offer, ranges) for offer in offers]
    best = max(weights, default=0.0)
    return offers[weights.index(best)] if best > 0 else None


def _weight(offer: str, ranges: Sequence[_Range]) -> float:
    """Return the weight that the most specific matching range gives to an offer."""
    best = max(ranges, key=lambda media_range: media_range.specificity(offer))
    return best.weight if best.specificity(offer) else 0.0


def _ranges(header: str) -> list[_Range]:
    """Parse the ranges of the header, skipping malformed ones."""
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
