"""Search the docs during a chat."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from palaver_jobchat.docs.embeddings import load_embedding
from palaver_jobchat.docs.index import build_index
from palaver_jobchat.docs.search import DocsRetriever, Query, SearchResults, build_query
from palaver_jobchat.settings import Settings
from tests.jobchat.docs import fake_embeddings

QUERY = build_query("How can I fetch only new records since the last run?")
QUERY_PAGE = "Cursors: fetch only what is new since the last run"
"""The title of the bundled page that answers QUERY."""


def settings(tmp_path: Path, **others: Any) -> Settings:
    return Settings(cache=str(tmp_path / "cache"), **others)


def titles(found_results: SearchResults | None) -> list[str] | None:
    return None if found_results is None else [one.title for one in found_results.results]


def best_title(found_results: SearchResults | None) -> str:
    assert found_results is not None
    return found_results.results[0].title


async def test_bundled_pages_are_searched_by_default(tmp_path: Path) -> None:
    retriever = DocsRetriever(settings(tmp_path))

    results = await asyncio.gather(*(retriever.search(QUERY) for _ in range(8)))

    assert retriever.has_index
    assert {best_title(one) for one in results} == {QUERY_PAGE}


async def test_configured_index_replaces_the_bundled_pages_and_can_be_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "owls.md").write_text("# Owls\n\nOwls hunt mice at night.\n")
    retriever = DocsRetriever(settings(tmp_path, index=str(tmp_path / "x.db")))
    assert not retriever.has_index
    assert await retriever.search(QUERY) is None

    build_index(tmp_path / "docs", tmp_path / "x.db")

    assert retriever.has_index
    assert titles(await retriever.search(QUERY)) == []
    assert titles(await retriever.search(build_query("owls and mice"))) == ["Owls"]
    (tmp_path / "docs" / "owls.md").write_text("# Night birds\n\nOwls hunt mice at night.\n")
    build_index(tmp_path / "docs", tmp_path / "x.db")
    assert titles(await retriever.search(build_query("owls and mice"))) == ["Night birds"]
    assert not (tmp_path / "cache").exists()


async def test_query_without_terms_needs_no_index(tmp_path: Path) -> None:
    assert await DocsRetriever(settings(tmp_path, index="gone")).search(Query("", ())) == SearchResults()


async def test_unreadable_index_is_logged_once_and_search_returns_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x.db").write_text("This is no index at all, but it has some length. " * 40)
    retriever = DocsRetriever(settings(tmp_path, index=str(tmp_path / "x.db")))

    assert [await retriever.search(QUERY) for _ in range(3)] == [None, None, None]
    assert caplog.messages == [
        f"Cannot search the docs index {tmp_path}/x.db: file is not a database. Rebuild the index."
    ]


async def test_deleted_cache_is_rebuilt_on_a_later_search(tmp_path: Path) -> None:
    retriever = DocsRetriever(settings(tmp_path))
    before = await retriever.search(QUERY)
    for file in (tmp_path / "cache").iterdir():
        file.unlink()

    assert await retriever.search(QUERY) is None
    assert best_title(before) == QUERY_PAGE
    assert await retriever.search(QUERY) == before


async def test_search_returns_none_if_the_cache_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("no folder")
    retriever = DocsRetriever(settings(tmp_path))

    assert await retriever.search(QUERY) is None
    assert not retriever.has_index
    (message,) = caplog.messages
    assert message.startswith("Cannot use the docs included with Job Chat: ")


async def test_users_cache_folder_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / name)

    assert best_title(await DocsRetriever(Settings()).search(QUERY)) == QUERY_PAGE
    assert (tmp_path / "palaver-jobchat").is_dir()


async def test_search_with_a_model_adds_results_that_are_near_in_meaning(tmp_path: Path) -> None:
    model, query = "tests.jobchat.docs.fake_embeddings:by_length", build_query("owls hunt mice")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "owls.md").write_text("# Owls\n\nOwls hunt mice.\n")
    (tmp_path / "docs" / "night.md").write_text(f"# Night\n\nOwls hunt at night. {'It is dark. ' * 40}\n")
    build_index(tmp_path / "docs", tmp_path / "x.db", embeddings=load_embedding(model))

    results = await DocsRetriever(settings(tmp_path, index=str(tmp_path / "x.db"), embeddings=model)).search(query)

    assert results is not None
    words_only = await DocsRetriever(settings(tmp_path, index=str(tmp_path / "x.db"))).search(query)
    assert titles(words_only) == ["Owls"]
    assert titles(results) == ["Owls", "Night"]


@pytest.mark.parametrize(
    ("model", "warning"),
    [
        (
            "tests.jobchat.docs.fake_embeddings:nothing",
            "PALAVER_JOBCHAT_EMBEDDINGS: cannot import tests.jobchat.docs.fake_embeddings:nothing",
        ),
        ("someone/some-model", "Invalid PALAVER_JOBCHAT_EMBEDDINGS 'someone/some-model': must be a folder"),
    ],
)
async def test_search_uses_words_only_if_the_model_cannot_be_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, model: str, warning: str
) -> None:
    retriever = DocsRetriever(settings(tmp_path, embeddings=model))

    assert titles(await retriever.search(QUERY)) == titles(await DocsRetriever(settings(tmp_path)).search(QUERY))
    assert [message.startswith(warning) for message in caplog.messages] == [True]


async def test_search_uses_words_only_if_the_model_fails_on_first_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_embeddings, "is_away", True)
    retriever = DocsRetriever(settings(tmp_path, embeddings="tests.jobchat.docs.fake_embeddings:by_length"))

    assert titles(await retriever.search(QUERY)) == titles(await DocsRetriever(settings(tmp_path)).search(QUERY))
    assert caplog.messages == [
        "PALAVER_JOBCHAT_EMBEDDINGS: tests.jobchat.docs.fake_embeddings:by_length failed: ConnectionError('away')"
    ]


async def test_search_uses_words_only_if_the_model_fails_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = DocsRetriever(settings(tmp_path, embeddings="tests.jobchat.docs.fake_embeddings:by_length"))
    await retriever.search(QUERY)

    monkeypatch.setattr(fake_embeddings, "is_away", True)
    results = await retriever.search(QUERY)

    assert titles(results) == titles(await DocsRetriever(settings(tmp_path)).search(QUERY))
    assert caplog.messages == [
        "PALAVER_JOBCHAT_EMBEDDINGS: tests.jobchat.docs.fake_embeddings:by_length failed: ConnectionError('away')"
    ]
