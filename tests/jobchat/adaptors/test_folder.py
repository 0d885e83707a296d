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


def test_both_forms_are_found(folder: Path) -> None:
    assert list_versions(folder, "library") == ["1.0.0", "1.2.0", "1.4.0", "2.0.0"]


def names(entries: tuple[Entry, ...] | None) -> list[str] | None:
    return None if entries is None else [entry.name for entry in entries]


@pytest.mark.parametrize(
    ("version", "known"), [("1.2.0", ["two"]), ("2.0.0", ["three"]), ("1.4.0", None), ("3.0.0", None)]
)
def test_a_version_is_loaded(folder: Path, version: str, known: list[str] | None) -> None:
    assert names(load_entries(folder, "library", version)) == known


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert list_versions(tmp_path / "gone", "library") == []
    assert load_entries(tmp_path / "gone", "library", "1.0.0") is None


def test_a_file_is_read_once_until_it_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    decode = library.decode_description
    monkeypatch.setattr(library, "decode_description", lambda content: read.append(content) or decode(content))

    first, second = load_entries(folder, "library", "1.0.0"), load_entries(folder, "library", "1.0.0")
    save_description(folder, "library", "1.0.0", describe("new"))
    changed = load_entries(folder, "library", "1.0.0")
    (folder / "library@1.0.0.json").unlink()

    assert [names(first), names(second), names(changed)] == [["one"], ["one"], ["new"]]
    assert len(read) == 2
    assert load_entries(folder, "library", "1.0.0") is None


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "library@1.0.0.json")
    (tmp_path / "library@2.0.0.json").mkdir()

    assert load_entries(tmp_path, "library", "1.0.0") is None  # And does not block on the pipe.
    assert load_entries(tmp_path, "library", "2.0.0") is None


def test_what_is_kept_is_found_again_and_nothing_else_is_left(tmp_path: Path) -> None:
    save_description(tmp_path / "new", "library", "1.0.0", describe("one"))
    save_description(tmp_path / "new", "library", "1.0.0", describe("two"))

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["library@1.0.0.json"]
    assert names(load_entries(tmp_path / "new", "library", "1.0.0")) == ["two"]


def test_what_cannot_be_kept_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "library@1.0.0.json" / "in the way").mkdir(parents=True)

    with pytest.raises(IsADirectoryError):
        save_description(tmp_path, "library", "1.0.0", describe("one"))

    assert [path.name for path in tmp_path.iterdir()] == ["library@1.0.0.json"]


def test_a_file_that_is_far_too_large_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "MAX_BYTES", 5)

    assert load_entries(folder, "library", "1.0.0") is None
