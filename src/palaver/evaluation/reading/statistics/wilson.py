"""Wilson's interval of a share: it stays within 0 and 1, and says something even of none or all of a few."""

from math import sqrt

from palaver.evaluation.reading.figures import Interval

Z = 1.959963984540054
"""So many standard deviations to each side hold 95 % of a normal distribution."""


def wilson(successes: int, count: int) -> Interval | None:
    """The interval of a share; None of nothing."""
    if count == 0:
        return None
    share = successes / count
    shrunk = 1 + Z * Z / count
    centre = (share + Z * Z / (2 * count)) / shrunk
    width = Z * sqrt(share * (1 - share) / count + Z * Z / (4 * count * count)) / shrunk
    # At the ends the formula is exact only up to rounding.
    return (0.0 if successes == 0 else centre - width, 1.0 if successes == count else centre + width)
