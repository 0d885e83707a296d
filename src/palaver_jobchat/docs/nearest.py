"""Which pieces of an index lie nearest to a question in meaning."""

import logging
import sqlite3
from typing import TYPE_CHECKING

import msgspec

from palaver_jobchat.docs.embedding import PROBE, Embedding, is_same

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger("palaver_jobchat")


class _Held(msgspec.Struct, frozen=True):
    stamp: str
    chunks: list[int]
    vectors: "NDArray[np.float32] | None"
    """None: the index has none that this model made."""


class Nearest:
    """A model, and the vectors of one index in memory: reading them anew for each question would take longer."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._held: _Held | None = None

    def __call__(self, database: sqlite3.Connection, question: str, most: int) -> list[int]:
        """The nearest pieces, the nearest first; none at a right angle or beyond."""
        # Two threads may read the same vectors at once; both are right, and one stays.
        held = self._held = self._read(database)
        if held.vectors is None or not held.chunks:
            return []
        import numpy as np

        # Not `@`: that starts threads, which on a busy machine take a hundred times as long as the calculation.
        near = np.einsum("ij,j->i", held.vectors, self._embedding.vectors([question])[0])
        best = np.argpartition(-near, min(most, len(near)) - 1)[:most]
        best = best[np.lexsort((best, -near[best]))]
        return [held.chunks[place] for place in best if near[place] > 0]

    def _read(self, database: sqlite3.Connection) -> _Held:
        stamp, dimension, probe = database.execute("SELECT stamp, dimension, probe FROM about").fetchone()
        if self._held is not None and self._held.stamp == stamp:
            return self._held
        if not is_same(self._embedding.vectors([PROBE])[0], probe):
            log.warning("The index of the docs has no vectors of %s: index again.", self._embedding.name)
            return _Held(stamp, [], None)
        import numpy as np

        rows = database.execute("SELECT chunk, vector FROM vectors ORDER BY chunk").fetchall()
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), dtype=np.float32).reshape(-1, dimension)
        return _Held(stamp, [chunk for chunk, _ in rows], vectors)
