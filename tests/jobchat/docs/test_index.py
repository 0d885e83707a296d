"""Indexing folders with unreadable files, failures, and concurrent use."""

import codecs
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from palaver import PalaverError
from palaver_jobchat.docs import markdown
from palaver_jobchat.docs.index import IndexReport, build_index
from palaver_jobchat.docs.markdown import Problem
from palaver_jobchat.docs.search import build_query, search_index

PAPER = "# Paper\n\nPaper comes from wood and rags.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "paper.md").write_text(PAPER)
    return tmp_path / "docs"


def indexed_paths(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        return [path for (path,) in database.execute("SELECT path FROM files ORDER BY path")]


def search_paths(file: Path, question: str) -> list[str]:
    return [one.path for one in search_index(file, build_query(question)).results]


def test_unreadable_files_are_reported_and_the_rest_is_indexed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markdown, "MAX_FILE_BYTES", 1000)
    (folder / "huge.md").write_text("x" * 1001)
    (folder / "latin.md").write_bytes("# Café\n\nUn café noir.\n".encode("latin-1"))
    (folder / "wide.md").write_bytes(codecs.BOM_UTF16_LE + "# Wide\n\nTwo bytes each.\n".encode("utf-16-le"))
    (folder / "round.md").symlink_to("round.md")
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()

    assert build_index(folder, tmp_path / "x.db") == IndexReport(
        added=3,
        chunks=3,
        problems=(
            Problem("huge.md", "skipped: larger than 1,000 bytes"),
            Problem("latin.md", "is not valid UTF-8; invalid bytes were replaced with \ufffd"),
            Problem("round.md", f"skipped: cannot be read ({_symlink_loop_error(folder)})"),
        ),
    )
    assert indexed_paths(tmp_path / "x.db") == ["latin.md", "paper.md", "wide.md"]
    assert search_paths(tmp_path / "x.db", "two bytes") == ["wide.md"]


def _symlink_loop_error(folder: Path) -> str:
    try:
        (folder / "round.md").resolve(strict=True)
    except OSError as error:  # Python 3.13 and later.
        return f"{error.strerror}"
    except RuntimeError as error:
        return f"{error}"
    raise AssertionError


def test_a_file_or_folder_without_permission_is_reported(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tests may run as root, so the system's error is simulated.
    is_file, scandir = Path.is_file, os.scandir
    (folder / "closed.md").write_text("x")
    (folder / "secret").mkdir()

    def refuse_file(self: Path) -> bool:
        if self.name == "closed.md":
            raise PermissionError(13, "Permission denied", str(self))
        return is_file(self)

    def refuse_folder(path: str) -> object:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(Path, "is_file", refuse_file)
    monkeypatch.setattr(os, "scandir", refuse_folder)

    assert build_index(folder, tmp_path / "x.db").problems == (
        Problem("secret", "cannot be read: Permission denied"),
        Problem("closed.md", "skipped: cannot be read (Permission denied)"),
    )


def test_symlinks_are_followed_only_inside_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("A secret page of somebody.")
    (folder / "out.md").symlink_to(tmp_path / "outside" / "secret.md")
    (folder / "away").symlink_to(tmp_path / "outside")
    (folder / "in.md").symlink_to("paper.md")
    (folder / "gone.md").symlink_to("nothing.md")

    report = build_index(folder, tmp_path / "x.db")

    assert report.problems == (Problem("out.md", "skipped: it links to a file outside the folder"),)
    assert indexed_paths(tmp_path / "x.db") == ["in.md", "paper.md"]


def test_file_name_that_is_not_utf8_is_left_out(folder: Path, tmp_path: Path) -> None:
    try:
        (folder / os.fsdecode(b"na\xefve.md")).write_text("A page.")
    except OSError:
        pytest.skip("this file system takes text only")

    report = build_index(folder, tmp_path / "x.db")

    assert report.problems == (Problem("na\ufffdve.md", "skipped: its name is not UTF-8"),)


def test_file_deleted_during_indexing_is_removed_from_the_index(folder: Path, tmp_path: Path) -> None:
    (folder / "rags.md").write_text("# Rags\n\nOld rags become paper.\n")
    build_index(folder, tmp_path / "x.db")

    def vanish(_what: str, count: int, _of: int) -> None:
        if count == 1:
            (folder / "rags.md").unlink(missing_ok=True)

    assert build_index(folder, tmp_path / "x.db", progress=vanish) == IndexReport(removed=1, unchanged=1, chunks=1)
    assert indexed_paths(tmp_path / "x.db") == ["paper.md"]


def test_unreadable_folder_is_an_error_and_leaves_the_index_unchanged(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(folder, tmp_path / "x.db")

    def refuse(path: str) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(PalaverError, match=f"Cannot read the folder {folder}: Permission denied"):
        build_index(folder, tmp_path / "x.db")
    assert indexed_paths(tmp_path / "x.db") == ["paper.md"]


def test_progress_is_reported_for_each_file(folder: Path, tmp_path: Path) -> None:
    (folder / "rags.md").write_text("Old rags become paper.")
    calls: list[tuple[str, int, int]] = []

    build_index(folder, tmp_path / "x.db", progress=lambda what, count, of: calls.append((what, count, of)))

    assert calls == [("files", 0, 2), ("files", 1, 2), ("files", 2, 2)]


def test_searches_see_the_old_index_and_other_writers_wait_during_indexing(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    build_index(folder, file)
    (folder / "paper.md").write_text("# Paper\n\nNow it comes from bamboo and straw.\n")
    writing, may_end = threading.Event(), threading.Event()
    reports: list[IndexReport] = []

    def hold(_what: str, count: int, of: int) -> None:
        if count == of:
            writing.set()
            assert may_end.wait(30)

    first = threading.Thread(target=lambda: reports.append(build_index(folder, file, progress=hold)))
    first.start()
    assert writing.wait(30)
    assert search_paths(file, "wood and rags") == ["paper.md"]
    with pytest.raises(PalaverError, match="Another process is writing"):
        build_index(folder, file, lock_timeout=0.05)
    second = threading.Thread(target=lambda: reports.append(build_index(folder, file, lock_timeout=30)))
    second.start()
    may_end.set()
    first.join(30)
    second.join(30)

    assert reports == [IndexReport(changed=1, chunks=1), IndexReport(unchanged=1, chunks=1)]
    assert search_paths(file, "bamboo and straw") == ["paper.md"]


def test_failed_indexing_leaves_the_old_index(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    build_index(folder, file)
    before = file.read_bytes()
    (folder / "paper.md").write_text("Another page.")

    def fail(_what: str, _count: int, _of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(folder, file, progress=fail)

    assert file.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == [".x.db.lock", "docs", "x.db"]


def test_unwritable_index_path_is_reported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(PalaverError, match="Cannot write the index"):
        build_index(folder, tmp_path / "file" / "x.db")
    with pytest.raises(PalaverError, match="Cannot write the index"):
        build_index(folder, tmp_path / "docs")


def test_lock_path_that_cannot_be_opened_is_reported_at_once(folder: Path, tmp_path: Path) -> None:
    (tmp_path / ".x.db.lock").mkdir()

    with pytest.raises(PalaverError, match="unable to open"):
        build_index(folder, tmp_path / "x.db")
