"""The bounded cache of embedding vectors, and local models."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation import embeddings
from palaver.evaluation.embeddings import EmbeddingCache, check_local_model, embed_locally
from palaver.evaluation.score import ScoringError


class FakeEmbedder:
    """Embeds each text as a vector, and records the requests."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.requests.append(list(texts))
        return [[float(len(text)), 1.0] for text in texts]


async def test_each_text_is_embedded_once_per_model() -> None:
    embedder, cache = FakeEmbedder(), EmbeddingCache()

    result = [list(one) for one in await cache.get_or_embed(["a", "bb", "a"], "m", embedder)]
    second = [list(one) for one in await cache.get_or_embed(["bb", "\ud800"], "m", embedder)]
    await cache.get_or_embed(["a"], "other", embedder)

    assert result == [[1, 1], [2, 1], [1, 1]]
    assert second == [[2, 1], [1, 1]]
    assert embedder.requests == [["a", "bb"], ["\ud800"], ["a"]]


async def test_the_least_recently_used_vector_is_evicted_first() -> None:
    embedder, cache = FakeEmbedder(), EmbeddingCache(max_numbers=4)

    for text in ("a", "b", "a", "c", "a", "b"):
        await cache.get_or_embed([text], "m", embedder)

    assert embedder.requests == [["a"], ["b"], ["c"], ["b"]]


# Local models


@pytest.mark.parametrize("name", ["nothing", "../other", "/etc", "", "models/../../other", "a/b/c"])
def test_local_models_outside_the_models_folder_are_rejected(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    folder = tmp_path / "models"
    (folder / "a/b/c").mkdir(parents=True)

    with pytest.raises(InvalidValue) as refused:
        check_local_model(f"local:{name}", folder, "/parameters/model")
    with pytest.raises(ScoringError) as unscored:
        embed_locally(f"local:{name}", folder, ["a"])

    message = f"local model {name!r} not found in the directory set by eval_models."
    assert (refused.value.message, refused.value.pointer) == (message, "/parameters/model")
    assert str(unscored.value) == f"not_available: local model {name!r} not found"


def test_local_models_without_the_embeddings_extra_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small").mkdir()
    monkeypatch.setattr(embeddings, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "model2vec", None)

    with pytest.raises(InvalidValue) as refused:
        check_local_model("local:small", tmp_path, "/parameters/model")
    with pytest.raises(ScoringError) as unscored:
        embed_locally("local:small", tmp_path, ["a"])

    message = "Local models require the extra 'embeddings': pip install 'palaver[embeddings]'."
    assert (refused.value.message, str(unscored.value)) == (message, f"not_available: {message}")
