"""Adaptor docs in a folder."""

from pathlib import Path

import msgspec
import pytest

from palaver_jobchat.adaptors import folder as folder_module
from palaver_jobchat.adaptors.folder import Docs, load, look_up, versions
from palaver_jobchat.adaptors.names import Adaptor, read


def describe(name: str) -> bytes:
    return msgspec.json.encode({"operations": [{"name": name, "params": []}]})


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


def found(folder: Path, text: str) -> tuple[dict[str, str], list[str]]:
    adaptor = read(text)
    assert adaptor is not None
    docs = look_up(folder, adaptor)
    return docs.meta(), [entry.name for entry in docs.entries]


def test_both_forms_are_found(folder: Path) -> None:
    assert versions(folder, "library") == ["1.0.0", "1.2.0", "1.4.0", "2.0.0"]


@pytest.mark.parametrize(
    ("asked", "meta", "names"),
    [
        ("library@1.2.0", {"version": "1.2.0", "docs": "exact"}, ["two"]),
        ("library", {"version": "2.0.0", "docs": "exact"}, ["three"]),
        ("library@latest", {"version": "2.0.0", "docs": "exact"}, ["three"]),
        ("library@1.0", {"version": "1.0.0", "docs": "exact"}, ["one"]),
        ("library@1.3.7", {"version": "1.3.7", "docs": "nearest", "docs_version": "1.2.0"}, ["two"]),
        ("library@1.9.0", {"version": "1.9.0", "docs": "nearest", "docs_version": "1.2.0"}, ["two"]),
        ("library@1", {"version": "1.4.0", "docs": "nearest", "docs_version": "1.2.0"}, ["two"]),
        ("library@0.9.0", {"version": "0.9.0", "docs": "missing"}, []),
        ("library@3", {"version": "3", "docs": "missing"}, []),
        ("library@local", {"version": "local", "docs": "missing"}, []),
        ("museum@1.0.0", {"version": "1.0.0", "docs": "missing"}, []),
    ],
)
def test_looking_up(folder: Path, asked: str, meta: dict[str, str], names: list[str]) -> None:
    name = "@openfn/language-" + asked.partition("@")[0]

    assert found(folder, asked) == ({"name": name, **meta}, names)


def test_somebody_elses_package_has_no_docs(folder: Path) -> None:
    adaptor = Adaptor("@mine/library", "1.0.0")

    assert look_up(folder, adaptor) == Docs(adaptor=adaptor, version="1.0.0")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "gone", "library") == ({"name": "@openfn/language-library", "docs": "missing"}, [])


def test_a_file_that_is_far_too_large_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "LARGEST", 5)

    assert load(folder, "library", "1.0.0") is None
