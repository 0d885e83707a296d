"""Cohen's kappa: how much more two raters agree than they would by chance."""

from collections import Counter
from collections.abc import Hashable, Sequence
from math import fsum


def kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Of what each of two raters said of the same things; None where one of them always says the same."""
    ours, theirs = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    if len(ours) < 2 or len(theirs) < 2:
        return None
    count = len(pairs)
    alike = count * sum(one == other for one, other in pairs)  # Both as counts of pairs of ours and theirs.
    by_chance = sum(ours[said] * theirs[said] for said in ours)
    return (alike - by_chance) / (count * count - by_chance)


def weighted_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The same of numbers: to be off by two counts four times as much as to be off by one."""
    ours, theirs = [one for one, _ in pairs], [other for _, other in pairs]
    if len(set(ours)) < 2 or len(set(theirs)) < 2:
        return None
    count = len(pairs)
    mean_ours, mean_theirs = fsum(ours) / count, fsum(theirs) / count
    observed = fsum((one - other) ** 2 for one, other in pairs) / count
    # The mean square of the differences of every one of ours with every one of theirs.
    spread = fsum((one - mean_ours) ** 2 for one in ours) + fsum((other - mean_theirs) ** 2 for other in theirs)
    return 1 - observed / (spread / count + (mean_ours - mean_theirs) ** 2)
