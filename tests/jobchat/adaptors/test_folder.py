"""Adaptor descriptions in a local folder."""

import os
from pathlib import Path

import pytest

from palaver_jobchat.adaptors import library
from palaver_jobchat.adaptors.entries import Entry
from palaver_jobchat.adaptors.library import list_versions, load_entries, save_description
from tests.jobchat.adaptors.fake_registry import describe


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "library@1.0.0.json").write_bytes(describe("one"))
    (tmp_path / "library@1.2.0.json").write_bytes(describe("two"))
    (tmp_path / "library@1.4.0.json").write_bytes(b"broken")
    (tmp_path / "library-2@9.0.0.json").write_bytes(describe("other"))
    (tmp_path / "library" / "2.0.0").mkdir(parents=True)
    (tmp_path / "library" / "2.0.0" / "ast.json").write_bytes(describe("three"))
    (tmp_path / "NOTICE").touch()
    return tmp_path


def test_versions_are_listed_from_files_and_subfolders(folder: Path) -> None:
    assert list_versions(folder, "library") == ["1.0.0", "1.2.0", "1.4.0", "2.0.0"]


def names(entries: tuple[Entry, ...] | None) -> list[str] | None:
    return None if entries is None else [entry.name for entry in entries]


@pytest.mark.parametrize(
    ("version", "expected"), [("1.2.0", ["two"]), ("2.0.0", ["three"]), ("1.4.0", None), ("3.0.0", None)]
)
def test_entries_of_a_version_are_loaded_if_readable(folder: Path, version: str, expected: list[str] | None) -> None:
    assert names(load_entries(folder, "library", version)) == expected


def test_missing_folder_has_no_versions_and_no_entries(tmp_path: Path) -> None:
    assert list_versions(tmp_path / "gone", "library") == []
    assert load_entries(tmp_path / "gone", "library", "1.0.0") is None


def test_a_file_is_read_once_until_it_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Path] = []
    decode = library.decode_description
    monkeypatch.setattr(library, "decode_description", lambda content: decoded.append(content) or decode(content))

    first, second = load_entries(folder, "library", "1.0.0"), load_entries(folder, "library", "1.0.0")
    save_description(folder, "library", "1.0.0", describe("new"))
    changed = load_entries(folder, "library", "1.0.0")
    (folder / "library@1.0.0.json").unlink()

    assert [names(first), names(second), names(changed)] == [["one"], ["one"], ["new"]]
    assert len(decoded) == 2
    assert load_entries(folder, "library", "1.0.0") is None


def test_pipe_or_folder_in_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "library@1.0.0.json")
    (tmp_path / "library@2.0.0.json").mkdir()

    assert load_entries(tmp_path, "library", "1.0.0") is None  # Must not block on the pipe.
    assert load_entries(tmp_path, "library", "2.0.0") is None


def test_saved_description_is_loaded_and_no_temporary_file_remains(tmp_path: Path) -> None:
    save_description(tmp_path / "new", "library", "1.0.0", describe("one"))
    save_description(tmp_path / "new", "library", "1.0.0", describe("two"))

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["library@1.0.0.json"]
    assert names(load_entries(tmp_path / "new", "library", "1.0.0")) == ["two"]


def test_failed_save_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "library@1.0.0.json" / "in the way").mkdir(parents=True)

    with pytest.raises(IsADirectoryError):
        save_description(tmp_path, "library", "1.0.0", describe("one"))

    assert [path.name for path in tmp_path.iterdir()] == ["library@1.0.0.json"]


def test_file_over_the_size_limit_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "MAX_BYTES", 5)

    assert load_entries(folder, "library", "1.0.0") is None
