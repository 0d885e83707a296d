"""Vectors for texts: from a model2vec model in a folder, or from a function of the user's own.

The only file, besides docs/nearest.py, that needs numpy; it comes with the extra `embeddings`.
"""

import logging
import re
import sqlite3
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from palaver import PalaverError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PROBE = "How do I send each patient of a list to another system?"
"""What a model makes of this text tells it from other models, whatever it is called and wherever it lies."""

_FUNCTION = re.compile(r"([^\W\d][\w.]*):([^\W\d]\w*)")
_SAME = 0.999
_EXTRA = "EMBEDDINGS needs the extra 'embeddings': pip install 'palaver[embeddings]'."


class Embedding(msgspec.Struct, frozen=True):
    """A model that gives texts that mean alike vectors that lie near each other."""

    name: str
    """As the user named it."""
    embed: Callable[[list[str]], Any]
    """One vector per text, as lists of numbers or as an array."""

    def vectors(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """One vector of length 1 per text; a text of which the model knows no word has a vector of zeros."""
        import numpy as np

        # Half of a character pair is no text; a client's question may hold one.
        readable = [text.encode(errors="replace").decode() for text in texts]
        try:
            vectors = np.asarray(self.embed(readable), dtype=np.float32)
        except Exception as error:  # Anything that somebody's function may raise.
            raise PalaverError(f"EMBEDDINGS: {self.name} gave no vectors: {error!r}") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise PalaverError(
                f"EMBEDDINGS: {self.name} must give one vector of numbers per text; "
                f"for {len(texts)} texts it gave the shape {vectors.shape}."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return np.divide(vectors, lengths, dtype=np.float32)


def load_embedding(setting: str) -> Embedding | None:
    """The model that EMBEDDINGS names: a folder, or module:function; none where it is empty. Never from a network."""
    if not setting:
        return None
    try:
        import_module("numpy")
    except ImportError as error:
        raise PalaverError(_EXTRA) from error
    if Path(setting).is_dir():
        return Embedding(setting, _load_model2vec(Path(setting)))
    if named := _FUNCTION.fullmatch(setting):
        return Embedding(setting, _load_function(named[1], named[2]))
    raise PalaverError(f"EMBEDDINGS: {setting!r} is neither a folder with a model2vec model nor module:function.")


def is_same_model(probe: "NDArray[np.float32]", stored: bytes | None) -> bool:
    """Whether a model is the one that made `before` of the same text."""
    if stored is None or len(stored) != probe.nbytes:
        return False
    if stored == probe.tobytes():
        return True
    import numpy as np

    # Some models do not give the same numbers to the last digit each time.
    return bool(probe @ np.frombuffer(stored, dtype=np.float32) > _SAME)


def _load_model2vec(folder: Path) -> Callable[[list[str]], Any]:
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise PalaverError(_EXTRA) from error
    try:
        model = StaticModel.from_pretrained(folder)
    except Exception as error:  # Of three libraries, each with errors of its own.
        raise PalaverError(f"EMBEDDINGS: {folder} holds no model2vec model: {error}") from error
    # Its worker processes would outlive the indexing, and are worth it only for millions of texts.
    return lambda texts: model.encode(texts, use_multiprocessing=False)


def _load_function(module: str, name: str) -> Callable[[list[str]], Any]:
    try:
        found: object = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PalaverError(f"EMBEDDINGS: there is no {module}:{name} ({error}).") from error
    if not callable(found):
        raise PalaverError(f"EMBEDDINGS: {module}:{name} is no function.")
    return found


log = logging.getLogger("palaver_jobchat")


class _LoadedVectors(msgspec.Struct, frozen=True):
    stamp: str
    chunks: list[int]
    vectors: "NDArray[np.float32] | None"
    """None: the index has none that this model made."""


class VectorSearch:
    """A model, and the vectors of one index in memory: reading them anew for each question would take longer."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._held: _LoadedVectors | None = None

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

    def _read(self, database: sqlite3.Connection) -> _LoadedVectors:
        stamp, dimension, probe = database.execute("SELECT stamp, dimension, probe FROM about").fetchone()
        if self._held is not None and self._held.stamp == stamp:
            return self._held
        if not is_same_model(self._embedding.vectors([PROBE])[0], probe):
            log.warning("The index of the docs has no vectors of %s: index again.", self._embedding.name)
            return _LoadedVectors(stamp, [], None)
        import numpy as np

        rows = database.execute("SELECT chunk, vector FROM vectors ORDER BY chunk").fetchall()
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), dtype=np.float32).reshape(-1, dimension)
        return _LoadedVectors(stamp, [chunk for chunk, _ in rows], vectors)
