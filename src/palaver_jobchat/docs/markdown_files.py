"""The Markdown files of a folder, one at a time; what cannot be read is said and left out."""

import codecs
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from palaver import PalaverError

MAX_FILE_BYTES = 2_000_000
"""Bytes. Nobody writes a page of that size by hand; it is data that got the wrong name."""


class Document(msgspec.Struct, frozen=True):
    """A file's text."""

    path: str
    """Inside of the folder, with `/`."""
    text: str
    digest: str
    """Of its bytes: by this a change is noticed."""


class Problem(msgspec.Struct, frozen=True):
    """What was not as it should be with a file or a folder."""

    path: str
    what: str


def list_files(folder: Path) -> tuple[list[str], list[Problem]]:
    """The Markdown files of a folder, sorted; hidden ones and those of packages are not meant."""
    found: list[str] = []
    problems: list[Problem] = []

    def unreadable(error: OSError) -> None:
        if Path(os.fsdecode(error.filename)) == folder:
            # That nothing can be read does not mean that nothing is there.
            raise PalaverError(f"The folder {folder} cannot be read: {error.strerror}.") from error
        where = Path(os.fsdecode(error.filename)).relative_to(folder).as_posix()
        problems.append(Problem(_printable_path(where), f"cannot be read: {error.strerror}"))

    for place, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        found += [
            (Path(place) / name).relative_to(folder).as_posix()
            for name in files
            if name.endswith(".md") and not name.startswith(".")
        ]
    return sorted(found), problems


def read_documents(
    folder: Path, *, progress: Callable[[int, int], None] = lambda _done, _of: None
) -> Iterator[Document | Problem]:
    """All that a folder holds. `progress` is told how many files were read, of how many."""
    paths, problems = list_files(folder)
    yield from problems
    inside = folder.resolve()
    for done, path in enumerate(paths):
        progress(done, len(paths))
        yield from _read(folder / path, path, inside)
    progress(len(paths), len(paths))


def _read(file: Path, path: str, inside: Path) -> Iterator[Document | Problem]:
    if _printable_path(path) != path:  # SQLite keeps text only, and two such names could become one.
        yield Problem(_printable_path(path), "left out: its name is not UTF-8")
        return
    try:
        if not file.resolve(strict=True).is_relative_to(inside):
            yield Problem(path, "left out: it is a link out of the folder")
            return
        if not file.is_file():
            return  # A folder by that name; and whoever opens a pipe waits.
        with file.open("rb") as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return  # It was there a moment ago. Gone is gone; the index says so too.
    except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself, before Python 3.13.
        yield Problem(path, f"left out: cannot be read ({error.strerror if isinstance(error, OSError) else error})")
        return
    if len(content) > MAX_FILE_BYTES:
        yield Problem(path, f"left out: larger than {MAX_FILE_BYTES:,} bytes")
        return
    text = _text(content)
    if "\ufffd" in text:
        yield Problem(path, "is not UTF-8: what could not be read stands as \ufffd")
    yield Document(path, text, sha256(content).hexdigest())


def _text(content: bytes) -> str:
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "utf-8", errors="replace")


def _printable_path(path: str) -> str:
    return path.encode(errors="surrogateescape").decode(errors="replace")
