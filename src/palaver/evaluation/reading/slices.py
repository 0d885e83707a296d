"""Slices: the rows of a run by what a column of theirs says, to see where it goes well and where not.

Text, booleans and anything else make a slice for each value, of the most frequent ones; numbers are cut at their
quartiles. A row without the column is in no slice; null is a value.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from palaver.core import jsons
from palaver.testsets.rows import canonical_json

MOST = 20
"""Slices of one column."""
LONGEST = 200
"""Characters of a value, as it is shown."""


class Cut(NamedTuple):
    """One slice of a column."""

    value: Any
    """What its rows have there; of numbers from which to which, as text."""
    rows: NDArray[np.int64]
    """Places of its rows in the run, in order."""


def cuts(values: Iterable[Any]) -> list[Cut]:
    """The slices of a column: its value in each row of the run, UNSET where a row has not got it."""
    given = list(values)
    present = [value for value in given if value is not UNSET and value is not None]
    if present and all(_is_number(value) for value in present) and len(set(present)) > 4:
        return _quartiles(given)
    return _values(given)


def _values(given: Sequence[Any]) -> list[Cut]:
    places: dict[bytes, list[int]] = {}
    shown: dict[bytes, Any] = {}
    for place, value in enumerate(given):
        if value is UNSET:
            continue
        key = canonical_json(value)
        if key not in shown:
            shown[key] = _shown(value)
        places.setdefault(key, []).append(place)
    frequent = sorted(places, key=lambda key: -len(places[key]))[:MOST]  # Stable: of equals what came first.
    return [Cut(shown[key], np.array(places[key], np.int64)) for key in frequent]


def _quartiles(given: Sequence[Any]) -> list[Cut]:
    """Up to four slices of about as many rows each; equal numbers are never apart. Null, too, is one."""
    rows = np.array([place for place, value in enumerate(given) if _is_number(value)], np.int64)
    numbers = np.array([float(given[place]) for place in rows])
    edges = np.unique(np.quantile(numbers, (0.25, 0.5, 0.75)))
    bins = np.searchsorted(edges, numbers, side="left")
    found: list[Cut] = []
    for place in range(len(edges) + 1):
        own = rows[bins == place]
        if len(own):
            some = sorted((given[row] for row in own), key=float)
            low, high = jsons.encode(some[0]).decode(), jsons.encode(some[-1]).decode()
            found.append(Cut(low if low == high else f"{low} to {high}", own))
    without = [place for place, value in enumerate(given) if value is None]
    return [*found, Cut(None, np.array(without, np.int64))] if without else found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    if value is None or isinstance(value, bool | int | float):
        return value
    return _shown(jsons.encode(value).decode())
