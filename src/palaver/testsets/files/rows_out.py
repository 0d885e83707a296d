"""What a writer of files takes: rows with data, and what stands beside it; and the objects that they are in a file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from palaver.testsets.files import names


class Outgoing(Protocol):
    """A row to be written: a `Row` of a set, or what was read from another file."""

    @property
    def data(self) -> dict[str, Any]:
        """Its cells."""
        ...

    @property
    def meta(self) -> dict[str, Any] | None:
        """What stands beside them."""
        ...


class Writer(Protocol):
    """Writes one file, piece by piece."""

    def begin(self) -> bytes:
        """What stands before the first row."""
        ...

    def rows(self, rows: Iterable[Outgoing]) -> bytes:
        """These rows."""
        ...

    def end(self) -> Iterator[bytes]:
        """What is left."""
        ...


def objects(columns: Sequence[str], meta: Sequence[str]) -> Callable[[Iterable[Outgoing]], Iterator[dict[str, Any]]]:
    """Makes of rows the objects that stand in a file: what is beside the data, then keys in the columns' order."""
    order = {name: place for place, name in enumerate(columns)}
    as_they_are = not meta and all("__" not in name for name in columns)

    def made(rows: Iterable[Outgoing]) -> Iterator[dict[str, Any]]:
        for row in rows:
            data = ordered(row.data, order)
            yield data if as_they_are else names.joined(data, beside(row, meta))

    return made


def beside(row: Outgoing, meta: Sequence[str]) -> dict[str, Any]:
    """What is to be written of a row besides its data."""
    kept = row.meta or {}
    return {name: kept[name] for name in meta if name in kept}


def ordered(data: dict[str, Any], order: Mapping[str, int]) -> dict[str, Any]:
    """With keys in the order of the columns; those that are no columns come last."""
    places = [order.get(name, len(order)) for name in data]
    if places == sorted(places):
        return data
    return {name: data[name] for name in sorted(data, key=lambda name: order.get(name, len(order)))}
