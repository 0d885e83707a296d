"""Cached embeddings, and local embedding models.

`local:NAME` is a model2vec model in a directory of that name below the configured one. Nothing is downloaded, and no
other directory can be named.
"""

import hashlib
import re
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from palaver.core import json
from palaver.errors import InvalidValue
from palaver.evaluation.score import ScoringError

LOCAL_PREFIX: Final = "local:"
MAX_CACHED_NUMBERS: Final = 8_000_000
"""Maximum number of cached floats, of four bytes each."""
_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_MISSING_EXTRA: Final = "Local models require the extra 'embeddings': pip install 'palaver[embeddings]'."

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]


class EmbeddingCache:
    """An LRU cache of vectors by model and text."""

    def __init__(self, max_numbers: int = MAX_CACHED_NUMBERS) -> None:
        self._max_numbers = max_numbers
        self._vectors: OrderedDict[bytes, array[float]] = OrderedDict()
        self._size = 0

    async def get_or_embed(self, texts: Sequence[str], model: str, embed: Embed) -> list[Sequence[float]]:
        """Return the vectors of the texts; `embed` computes those that are not cached."""
        keys = [_cache_key(text, model) for text in texts]
        vectors = {key: vector for key in keys if (vector := self._get(key)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        if missing:
            new_vectors = await embed(list(missing.values()))
            for key, vector in zip(missing, new_vectors, strict=True):
                vectors[key] = array("f", vector)
                self._put(key, vectors[key])
        return [vectors[key] for key in keys]

    def _get(self, key: bytes) -> "array[float] | None":
        vector = self._vectors.get(key)
        if vector is not None:
            self._vectors.move_to_end(key)
        return vector

    def _put(self, key: bytes, vector: "array[float]") -> None:
        if (old := self._vectors.pop(key, None)) is not None:
            self._size -= len(old)
        self._vectors[key] = vector
        self._size += len(vector)
        while self._size > self._max_numbers:
            _, oldest = self._vectors.popitem(last=False)
            self._size -= len(oldest)


def _cache_key(text: str, model: str) -> bytes:
    return hashlib.blake2b(f"{model}\0{json.replace_surrogates(text)}".encode(), digest_size=16).digest()


def check_local_model(model: str, folder: Path, pointer: str) -> None:
    """Raise InvalidValue unless the model and the library for it are installed."""
    name = model.removeprefix(LOCAL_PREFIX)
    if not _MODEL_NAME.fullmatch(name) or not (folder / name).is_dir():
        raise InvalidValue(f"local model {name[:80]!r} not found in the directory set by eval_models.", pointer=pointer)
    if find_spec("model2vec") is None:
        raise InvalidValue(_MISSING_EXTRA, pointer=pointer)


def embed_locally(model: str, folder: Path, texts: Sequence[str]) -> list[list[float]]:
    """Compute vectors with a local model. Slow: call it in a thread."""
    name = model.removeprefix(LOCAL_PREFIX)
    if not _MODEL_NAME.fullmatch(name) or not (folder / name).is_dir():
        raise ScoringError("not_available", f"local model {name[:80]!r} not found")
    readable = [json.replace_surrogates(text) for text in texts]
    # model2vec's worker processes pay off only for millions of texts.
    return _load_model(folder / name).encode(readable, use_multiprocessing=False).tolist()


@lru_cache(maxsize=2)
def _load_model(folder: Path) -> Any:
    try:
        from model2vec import StaticModel
    except ImportError:
        raise ScoringError("not_available", _MISSING_EXTRA) from None
    try:
        return StaticModel.from_pretrained(folder)
    except Exception as error:  # Any error of the three libraries that load it.
        raise ScoringError(
            "not_available", f"{folder.name!r} is not a model2vec model ({type(error).__name__})"
        ) from None
