"""How many rows it would take to tell."""

from math import ceil, isfinite

_Z = 1.96


def cases_needed(difference: float, square: float) -> int | None:
    """The rows at which the interval would no longer hold 0, if they were like those at hand; None: no number would do.

    That is n with 1.96 * sqrt((q - d²) / n) = |d|: d the mean difference of pairs, and q the mean of its square, which
    for passes is the share of rows that changed.
    """
    if difference == 0 or not isfinite(difference) or not isfinite(square):
        return None
    ratio = max(0.0, square / difference / difference - 1)  # In this order: the square of something tiny is 0.
    return max(1, ceil(_Z * _Z * ratio - 1e-9)) if ratio < 1e15 else None
