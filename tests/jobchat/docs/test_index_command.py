"""The output of `palaver-jobchat index`."""

from pathlib import Path

import pytest

from palaver import PalaverError
from palaver_jobchat.docs.index import index_folder
from palaver_jobchat.settings import Settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    return Path("docs")


def test_first_indexing_prints_the_index_path_and_the_setting(folder: Path) -> None:
    (folder / "a.md").write_text("A page.")
    (folder / "b.md").write_bytes(b"Caf\xe9.")

    assert index_folder(folder, None, Settings()) == [
        "docs: 2 files, 2 chunks (2 added, 0 changed, 0 removed, 0 unchanged).",
        "  b.md is not valid UTF-8; invalid bytes were replaced with \ufffd.",
        "Index: docs.db. To search it, set PALAVER_JOBCHAT_INDEX=docs.db",
    ]
    assert Path("docs.db").is_file()


def test_configured_index_is_updated(folder: Path) -> None:
    (folder / "a.md").write_text("A page.")
    settings = Settings(index="mine.db", embeddings="tests.jobchat.docs.fake_embeddings:by_length")
    stages: list[str] = []

    index_folder(folder, None, settings)
    (folder / "a.md").write_text("Another page.")

    assert index_folder(folder, Path("mine.db"), settings, progress=lambda what, _count, _of: stages.append(what)) == [
        "docs: 1 file, 1 chunk (0 added, 1 changed, 0 removed, 0 unchanged, 1 vector computed).",
        "Index: mine.db.",
    ]
    assert stages == ["files", "files", "vectors", "vectors"]


def test_empty_folder_is_reported(folder: Path) -> None:
    assert index_folder(folder, Path("x.db"), Settings())[:2] == [
        "docs: 0 files, 0 chunks (0 added, 0 changed, 0 removed, 0 unchanged).",
        "No Markdown files found in this folder. Searches will return nothing.",
    ]


def test_missing_folder_is_an_error() -> None:
    with pytest.raises(PalaverError, match="Folder not found: gone"):
        index_folder(Path("gone"), None, Settings())
