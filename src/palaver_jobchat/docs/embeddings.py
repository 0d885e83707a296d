"""Vectors of texts, from a model2vec model in a folder or from the operator's function, and the search for the nearest.

The only module that needs numpy, which comes with the extra `embeddings`.
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
"""The vector of this text identifies a model, independent of its name and location."""

_FUNCTION = re.compile(r"([^\W\d][\w.]*):([^\W\d]\w*)")
_MIN_PROBE_SIMILARITY = 0.999
_SETTING = "PALAVER_JOBCHAT_EMBEDDINGS"
_MISSING_EXTRA = f"{_SETTING} requires additional packages. Install them with: pip install 'palaver[embeddings]'"


class Embedding(msgspec.Struct, frozen=True):
    name: str
    """The setting that named it."""
    embed: Callable[[list[str]], Any]
    """Returns one vector per text, as lists of numbers or as an array."""

    def vectors(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return one unit vector per text; zeros for a text without known words."""
        import numpy as np

        # A client's question may contain lone surrogates.
        readable = [text.encode(errors="replace").decode() for text in texts]
        try:
            vectors = np.asarray(self.embed(readable), dtype=np.float32)
        except Exception as error:  # The operator's function may raise anything.
            raise PalaverError(f"{_SETTING}: {self.name} failed: {error!r}") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise PalaverError(
                f"{_SETTING}: {self.name} must return one vector of numbers per text, "
                f"but returned an array of shape {vectors.shape} for {len(texts)} text{'' if len(texts) == 1 else 's'}."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return np.divide(vectors, lengths, dtype=np.float32)


def load_embedding(setting: str) -> Embedding | None:
    """Return the model that the setting names: a folder or module:function. Never downloads one."""
    if not setting:
        return None
    try:
        import_module("numpy")
    except ImportError as error:
        raise PalaverError(_MISSING_EXTRA) from error
    if Path(setting).is_dir():
        return Embedding(setting, _load_model2vec(Path(setting)))
    if match := _FUNCTION.fullmatch(setting):
        return Embedding(setting, _load_function(match[1], match[2]))
    raise PalaverError(f"Invalid {_SETTING} {setting!r}: must be a folder with a model2vec model, or module:function.")


def is_same_model(probe: "NDArray[np.float32]", stored: bytes | None) -> bool:
    """Whether a model is the one whose vector of PROBE was stored."""
    if stored is None or len(stored) != probe.nbytes:
        return False
    if stored == probe.tobytes():
        return True
    import numpy as np

    # Some models are not deterministic to the last digit.
    return bool(probe @ np.frombuffer(stored, dtype=np.float32) > _MIN_PROBE_SIMILARITY)


def _load_model2vec(folder: Path) -> Callable[[list[str]], Any]:
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise PalaverError(_MISSING_EXTRA) from error
    try:
        model = StaticModel.from_pretrained(folder)
    except Exception as error:  # Three libraries, each with its own errors.
        raise PalaverError(f"{_SETTING}: cannot load a model2vec model from {folder}: {error}") from error
    # Worker processes outlive the indexing and pay off only for millions of texts.
    return lambda texts: model.encode(texts, use_multiprocessing=False)


def _load_function(module: str, name: str) -> Callable[[list[str]], Any]:
    try:
        function: object = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PalaverError(f"{_SETTING}: cannot import {module}:{name}: {error}.") from error
    if not callable(function):
        raise PalaverError(f"{_SETTING}: {module}:{name} is not callable.")
    return function


log = logging.getLogger("palaver_jobchat")


class _LoadedVectors(msgspec.Struct, frozen=True):
    stamp: str
    chunks: list[int]
    vectors: "NDArray[np.float32] | None"
    """None if the index has no vectors of this model."""


class VectorSearch:
    """Finds the nearest chunks. Keeps the vectors of one index in memory."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._loaded: _LoadedVectors | None = None

    def __call__(self, database: sqlite3.Connection, question: str, limit: int) -> list[int]:
        """Return the ids of the nearest chunks, nearest first, with positive similarity only."""
        # Two threads may load the same vectors at once; either result is fine.
        loaded = self._loaded = self._load(database)
        if loaded.vectors is None or not loaded.chunks:
            return []
        import numpy as np

        # Not `@`: it starts threads, which on a busy machine cost a hundred times the calculation.
        similarities = np.einsum("ij,j->i", loaded.vectors, self._embedding.vectors([question])[0])
        best = np.argpartition(-similarities, min(limit, len(similarities)) - 1)[:limit]
        best = best[np.lexsort((best, -similarities[best]))]
        return [loaded.chunks[index] for index in best if similarities[index] > 0]

    def _load(self, database: sqlite3.Connection) -> _LoadedVectors:
        stamp, dimension, probe = database.execute("SELECT stamp, dimension, probe FROM about").fetchone()
        if self._loaded is not None and self._loaded.stamp == stamp:
            return self._loaded
        if not is_same_model(self._embedding.vectors([PROBE])[0], probe):
            log.warning("The docs index has no vectors from %s. Rebuild the index.", self._embedding.name)
            return _LoadedVectors(stamp, [], None)
        import numpy as np

        rows = database.execute("SELECT chunk, vector FROM vectors ORDER BY chunk").fetchall()
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), dtype=np.float32).reshape(-1, dimension)
        return _LoadedVectors(stamp, [chunk for chunk, _ in rows], vectors)
