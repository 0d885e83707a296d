"""Holm's correction: who asks several questions finds something sooner or later, and each p is raised for it."""

from collections.abc import Sequence


def holm(ps: Sequence[float]) -> list[float]:
    """The adjusted p of each, in the same order: the smallest times their number, the next times one less."""
    adjusted = [1.0] * len(ps)
    least = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, ps[place] * (len(ps) - rank)))
        adjusted[place] = least
    return adjusted
