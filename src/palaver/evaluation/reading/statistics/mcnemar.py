"""McNemar's exact test: of the rows that changed, did as many get worse as got better?"""

from math import exp, lgamma, log


def mcnemar(worse: int, better: int) -> float:
    """The two-sided p: how likely so uneven a split is, if each changed row had fallen either way by a fair coin."""
    count, least = worse + better, min(worse, better)
    if 2 * least == count:  # As even as can be; and nothing changed at all.
        return 1.0
    # The terms of the binomial distribution from the greatest down, each by the one before: no huge numbers.
    first = exp(lgamma(count + 1) - lgamma(least + 1) - lgamma(count - least + 1) - count * log(2))
    total, term = 0.0, 1.0
    for k in range(least, -1, -1):
        total += term
        term *= k / (count - k + 1)
        if term < total * 1e-17:
            break
    return min(1.0, 2 * first * total)
