"""Embedding models, and searches with them."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver import PalaverError
from palaver_jobchat.docs.embeddings import Embedding, VectorSearch, is_same_model, load_embedding
from palaver_jobchat.docs.index import IndexReport, build_index
from palaver_jobchat.docs.search import build_query, merge_rankings, search_index
from tests.jobchat.docs.fake_embeddings import by_length, save_model

PAGES = {
    "lending": "# Lending\n\nTo lend a book, ask for it. Loans end after fourteen days.\n",
    "shelves": "# Shelves\n\nA book is sorted into a shelf. No fourteen of them are alike.\n",
    "paper": "# Paper\n\nPaper comes from wood. A book needs fourteen trees.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name, text in PAGES.items():
        (tmp_path / "docs" / f"{name}.md").write_text(text)
    return tmp_path / "docs"


class CountingModel:
    """A model that records the texts it embeds."""

    def __init__(self, *, by: float = 1.0) -> None:
        self.by = by
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [[self.by, float("paper" in text.lower()), float("shelf" in text.lower())] for text in texts]


def vectors(file: Path) -> dict[int, bytes]:
    with closing(sqlite3.connect(file)) as database:
        return dict(database.execute("SELECT chunk, vector FROM vectors"))


def model_and_dimension(file: Path) -> tuple[Any, ...]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT model, dimension FROM about").fetchone()


def titles(file: Path, question: str, vector_search: VectorSearch | None) -> list[str]:
    return [one.title for one in search_index(file, build_query(question), vector_search=vector_search).results]


def test_model_from_a_folder_ranks_texts_of_similar_meaning_first(folder: Path, tmp_path: Path) -> None:
    model = load_embedding(str(save_model(tmp_path / "model")))
    assert model is not None
    file = tmp_path / "x.db"

    assert build_index(folder, file, embeddings=model) == IndexReport(added=3, chunks=3, vectors=3)
    assert model_and_dimension(file) == (str(tmp_path / "model"), 3)
    question = "May I borrow a book of fourteen pages?"
    assert titles(file, question, None)[:1] != ["Lending"]
    assert titles(file, question, VectorSearch(model))[0] == "Lending"


def test_similar_text_without_common_words_is_not_returned(folder: Path, tmp_path: Path) -> None:
    model = load_embedding(str(save_model(tmp_path / "model")))
    assert model is not None
    build_index(folder, tmp_path / "x.db", embeddings=model)

    assert titles(tmp_path / "x.db", "borrow something", VectorSearch(model)) == []


def test_scores_of_a_merged_ranking_are_those_of_the_words(folder: Path, tmp_path: Path) -> None:
    model = Embedding("counting", CountingModel())
    build_index(folder, tmp_path / "x.db", embeddings=model)

    query = build_query("wood paper trees book")
    by_words = {one.title: one.score for one in search_index(tmp_path / "x.db", query).results}

    results = search_index(tmp_path / "x.db", query, vector_search=VectorSearch(model)).results

    assert by_words
    assert results[0].title == "Paper"
    assert {one.title: one.score for one in results if one.title in by_words} == by_words


def test_unchanged_files_keep_their_chunks_and_vectors(folder: Path, tmp_path: Path) -> None:
    file, counter = tmp_path / "x.db", CountingModel()
    build_index(folder, file, embeddings=Embedding("counting", counter))
    before = vectors(file)
    counter.asked.clear()
    (folder / "paper.md").write_text("# Paper\n\nAnother page.\n")

    report = build_index(folder, file, embeddings=Embedding("counting", counter))

    assert report == IndexReport(changed=1, unchanged=2, chunks=3, vectors=1)
    assert counter.asked[1:] == ["Paper\n\n# Paper\n\nAnother page."]
    unchanged = [number for number, vector in vectors(file).items() if before.get(number) == vector]
    assert len(unchanged) >= 2


def test_changed_model_recomputes_all_vectors_and_no_model_removes_them(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    build_index(folder, file, embeddings=Embedding("one", CountingModel()))

    assert build_index(folder, file, embeddings=Embedding("one", CountingModel())).vectors == 0
    assert build_index(folder, file, embeddings=Embedding("two", by_length)).vectors == 3
    assert model_and_dimension(file) == ("two", 2)
    assert (
        build_index(folder, file, embeddings=Embedding("two", lambda texts: [[-1.0, 1.0] for _ in texts])).vectors == 3
    )
    assert build_index(folder, file) == IndexReport(unchanged=3, chunks=3)
    assert (vectors(file), model_and_dimension(file)) == ({}, (None, None))


def test_vectors_of_another_model_are_ignored_with_one_warning(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.db"
    build_index(folder, file, embeddings=Embedding("one", CountingModel()))
    other = VectorSearch(Embedding("two", by_length))

    by_words = titles(file, "fourteen book sorted", None)
    assert titles(file, "fourteen book sorted", other) == by_words
    assert titles(file, "fourteen book sorted", other) == by_words
    assert caplog.messages == ["The docs index has no vectors from two. Rebuild the index."]


def test_vector_search_reloads_a_replaced_index(folder: Path, tmp_path: Path) -> None:
    file, model = tmp_path / "x.db", Embedding("counting", CountingModel())
    vector_search = VectorSearch(model)
    build_index(folder, file, embeddings=model)
    titles(file, "fourteen book sorted", vector_search)
    for name in PAGES:
        (folder / f"{name}.md").unlink()

    build_index(folder, file, embeddings=model)
    assert titles(file, "fourteen book sorted", vector_search) == []
    (folder / "owls.md").write_text("# Owls\n\nOwls hunt mice.\n")
    build_index(folder, file, embeddings=model)
    assert titles(file, "owls and mice", vector_search) == ["Owls"]


def test_progress_is_reported_for_vectors(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palaver_jobchat.docs.index._EMBED_BATCH_SIZE", 2)
    calls: list[tuple[str, int, int]] = []

    build_index(
        folder,
        tmp_path / "x.db",
        embeddings=Embedding("counting", CountingModel()),
        progress=lambda what, count, of: calls.append((what, count, of)),
    )

    assert calls[4:] == [("vectors", 0, 3), ("vectors", 2, 3), ("vectors", 3, 3)]


def test_model_is_identified_by_its_vectors_and_not_by_its_path(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    first, moved = save_model(tmp_path / "a"), save_model(tmp_path / "b")
    reversed_model = save_model(tmp_path / "c", reverse=True)
    computed = [
        build_index(folder, file, embeddings=load_embedding(str(one))).vectors for one in (first, moved, reversed_model)
    ]

    assert computed == [3, 0, 3]


def test_function_can_be_used_as_a_model() -> None:
    model = load_embedding("tests.jobchat.docs.fake_embeddings:by_length")

    assert model is not None
    assert model.name == "tests.jobchat.docs.fake_embeddings:by_length"
    assert np.allclose(np.linalg.norm(model.vectors(["a", "bb \ud800"]), axis=1), 1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("someone/some-model", "must be a folder with a model2vec model, or module:function"),
        ("no_such_module:embed", "cannot import no_such_module:embed"),
        ("tests.jobchat.docs.fake_embeddings:nothing", "cannot import tests.jobchat.docs.fake_embeddings:nothing"),
        ("tests.jobchat.docs.fake_embeddings:no_function", "is not callable"),
        (".", "cannot load a model2vec model from"),
    ],
)
def test_invalid_model_setting_is_rejected_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(PalaverError, match=message):
        load_embedding(setting)


def test_empty_setting_loads_no_model() -> None:
    assert load_embedding("") is None


@pytest.mark.parametrize("missing", ["numpy", "model2vec"])
def test_error_names_the_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(PalaverError, match=r"palaver\[embeddings\]"):
        load_embedding(str(tmp_path))


@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (lambda texts: [[1.0]] * (len(texts) + 1), "for 1 text"),
        (lambda texts: [1.0], r"returned an array of shape \(1,\)"),
        (lambda texts: [[]], r"returned an array of shape \(1, 0\)"),
        (lambda texts: [[float("nan")]], "must return one vector of numbers"),
        (lambda texts: [["a"]], "mine failed: ValueError"),
        (lambda texts: 1 / 0, "mine failed: ZeroDivisionError"),
    ],
)
def test_model_with_invalid_output_is_rejected(embed: Any, message: str) -> None:
    with pytest.raises(PalaverError, match=message):
        Embedding("mine", embed).vectors(["a"])


def test_models_that_differ_by_rounding_are_the_same() -> None:
    probe = np.array([0.6, 0.8], dtype=np.float32)

    assert is_same_model(probe, probe.tobytes())
    assert is_same_model(probe, (probe + np.float32(1e-6)).tobytes())
    assert not is_same_model(probe, probe[::-1].tobytes())


def test_zero_vector_is_not_normalized() -> None:
    assert Embedding("zero", lambda texts: [[0.0, 0.0]] * len(texts)).vectors(["a"]).tolist() == [[0.0, 0.0]]


def test_without_embeddings_numpy_is_not_imported(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from palaver_jobchat.docs import index, search\n"
        f"index.build_index(Path({str(folder)!r}), Path({str(tmp_path / 'x.db')!r}))\n"
        f"assert search.search_index(Path({str(tmp_path / 'x.db')!r}), search.build_query('wood for paper')).results\n"
        "assert 'numpy' not in sys.modules and 'model2vec' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


RANKING = st.lists(st.integers(0, 40), unique=True, max_size=30)


@given(RANKING)
def test_merging_a_single_ranking_keeps_its_order(ranking: list[int]) -> None:
    assert (
        list(merge_rankings(ranking))
        == list(merge_rankings(ranking, ranking))
        == list(merge_rankings(ranking, []))
        == ranking
    )


@given(RANKING, RANKING)
def test_merged_ranking_has_each_item_once_for_any_argument_order(one: list[int], other: list[int]) -> None:
    scores = merge_rankings(one, other)

    assert list(scores.items()) == list(merge_rankings(other, one).items())
    assert set(scores) == {*one, *other}
    assert list(scores.values()) == sorted(scores.values(), reverse=True)


@given(RANKING, RANKING, st.integers(0, 40), st.integers(0, 40))
def test_item_above_another_in_both_rankings_is_above_it_in_the_merged_one(
    one: list[int], other: list[int], high: int, low: int
) -> None:
    if all(ranking.index(high) < ranking.index(low) for ranking in (one, other) if {high, low} <= set(ranking)) and all(
        high in ranking for ranking in (one, other) if low in ranking
    ):
        scores = merge_rankings(one, other)
        if low in scores and high != low:
            assert scores[high] > scores[low]
