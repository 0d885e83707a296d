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
_MISSING_EXTRA: Final = "Local models need the extra 'embeddings': pip install 'palaver[embeddings]'."

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]


class EmbeddingCache:
    """An LRU cache of vectors by model and text."""

    def __init__(self, max_numbers: int = MAX_CACHED_NUMBERS) -> None:
        self._max_numbers = max_numbers
        self._vectors: OrderedDict[bytes, array[float]] = OrderedDict()
        self._size = 0

    async def get_or_embed(self, texts: Sequence[str], model: str, embed: Embed) -> list[Sequence[float]]:
        """The vectors of the texts; `embed` computes missing ones."""
        names = [_cache_key(text, model) for text in texts]
        vectors = {name: vector for name in names if (vector := self._get(name)) is not None}
        missing = {name: text for name, text in zip(names, texts, strict=True) if name not in vectors}
        if missing:
            new_vectors = await embed(list(missing.values()))
            for name, vector in zip(missing, new_vectors, strict=True):
                vectors[name] = array("f", vector)
                self._put(name, vectors[name])
        return [vectors[name] for name in names]

    def _get(self, name: bytes) -> "array[float] | None":
        vector = self._vectors.get(name)
        if vector is not None:
            self._vectors.move_to_end(name)
        return vector

    def _put(self, name: bytes, vector: "array[float]") -> None:
        if (old := self._vectors.pop(name, None)) is not None:
            self._size -= len(old)
        self._vectors[name] = vector
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
        raise InvalidValue(
            f"There is no model {name[:80]!r} in the folder of local models (setting eval_models).", pointer=pointer
        )
    if find_spec("model2vec") is None:
        raise InvalidValue(_MISSING_EXTRA, pointer=pointer)


def embed_locally(model: str, folder: Path, texts: Sequence[str]) -> list[list[float]]:
    """Compute vectors with a local model. Slow: call it in a thread."""
    name = model.removeprefix(LOCAL_PREFIX)
    if not _MODEL_NAME.fullmatch(name) or not (folder / name).is_dir():
        raise ScoringError("not_available", f"there is no local model {name[:80]!r}")
    readable = [json.replace_surrogates(text) for text in texts]
    # Its worker processes pay off only for millions of texts.
    return _load_model(folder / name).encode(readable, use_multiprocessing=False).tolist()


@lru_cache(maxsize=2)
def _load_model(folder: Path) -> Any:
    try:
        from model2vec import StaticModel
    except ImportError:
        raise ScoringError("not_available", _MISSING_EXTRA) from None
    try:
        return StaticModel.from_pretrained(folder)
    except Exception as error:  # Errors of three libraries.
        raise ScoringError("not_available", f"{folder.name} is no model2vec model ({type(error).__name__})") from None
