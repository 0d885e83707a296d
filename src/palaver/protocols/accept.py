"""Which of the forms that we offer the caller wants: the Accept header as RFC 9110 reads it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_RANGE = re.compile(r"(\*|[!#$%&'*+.^_`|~\w-]+)/(\*|[!#$%&'*+.^_`|~\w-]+)$", re.ASCII)
_WEIGHT = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$", re.ASCII)


class _Range(NamedTuple):
    kind: str
    form: str
    weight: float

    def speaks_for(self, offer: str) -> int:
        """How specifically: 3 for that very type, 2 for its kind, 1 for anything, 0 not at all."""
        kind, _, form = offer.partition("/")
        if (self.kind, self.form) == (kind, form):
            return 3
        if self.form != "*":
            return 0
        return 2 if self.kind == kind else 1 if self.kind == "*" else 0


def choose(header: str | None, offers: Sequence[str]) -> str | None:
    """The offer of the highest weight, the earlier one where they tie; None when the caller takes none of them."""
    ranges = _ranges(header or "") or [_Range("*", "*", 1.0)]
    weights = [_weight(offer, ranges) for offer in offers]
    best = max(weights, default=0.0)
    return offers[weights.index(best)] if best > 0 else None


def _weight(offer: str, ranges: Sequence[_Range]) -> float:
    specific, weight = 0, 0.0
    for one in ranges:
        if (degree := one.speaks_for(offer)) > specific:
            specific, weight = degree, one.weight
    return weight


def _ranges(header: str) -> list[_Range]:
    """The readable ranges of the header; an unreadable one is skipped."""
    found: list[_Range] = []
    for part in header.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        matched = _RANGE.match(media)
        weights = [value.strip() for name, _, value in (p.partition("=") for p in parameters) if name.strip() == "q"]
        if matched and (matched[1] != "*" or matched[2] == "*") and all(_WEIGHT.match(weight) for weight in weights):
            found.append(_Range(matched[1], matched[2], float(weights[0]) if weights else 1.0))
    return found
