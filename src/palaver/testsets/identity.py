"""Who is who when all rows are sent again: an edited file that is uploaded anew keeps the ids of its rows (A2).

A row without an id takes the id of an unused row of the base with the same content, in order; else it is a new one.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable

from palaver.testsets.delta import Pair


class Identities:
    """Gives each row its id, in order. Ids that rows bring along are claimed beforehand: nobody else gets them."""

    def __init__(self, base: Iterable[Pair], *, new_id: Callable[[], bytes], claimed: Collection[bytes] = ()) -> None:
        self._new_id = new_id
        self._unused: dict[bytes, deque[bytes]] = {}
        for row, content in base:
            if row not in claimed:
                self._unused.setdefault(content, deque()).append(row)

    def of(self, content: bytes) -> bytes:
        """The id of the next row, which has this hash and came without an id."""
        unused = self._unused.get(content)
        return unused.popleft() if unused else self._new_id()
