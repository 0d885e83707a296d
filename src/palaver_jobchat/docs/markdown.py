"""Read the Markdown files of a folder and split them into chunks."""

import codecs
import itertools
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from palaver import PalaverError

MIN_CHUNK_CHARACTERS = 300
"""A shorter section is merged with its neighbour."""
MAX_CHUNK_CHARACTERS = 1500
"""Only fenced code may be longer: it is never split."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.+)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*(.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class Chunk(msgspec.Struct, frozen=True):
    title: str
    """The document's title."""
    section: str
    """The headings above it, outermost first: `Operations > each`."""
    text: str


class _Section(msgspec.Struct):
    path: tuple[str, ...]
    blocks: list[str]


def split_markdown(markdown: str, *, name: str) -> list[Chunk]:
    """Split a document at its headings, never inside fenced code. `name` is the title of a document without one."""
    markdown = markdown.replace("\r\n", "\n")
    front_matter = _FRONT_MATTER.match(markdown)
    title_match = _TITLE.search(front_matter[1]) if front_matter else None
    title = title_match[1].strip().strip("\"'") if title_match else ""
    sections = list(_sections(markdown[front_matter.end() :] if front_matter else markdown))
    if not title:
        title = next((section.path[0] for section in sections if section.path), name)
    pieces: list[tuple[tuple[str, ...], str]] = []
    for section in sections:
        for text in _pack_blocks(section.blocks):
            if pieces and _should_merge(pieces[-1][1], text):
                path, before = pieces[-1]
                pieces[-1] = (path, f"{before}\n\n{text}")
            else:
                pieces.append((section.path, text))
    # A lone heading is dropped: chunks below it have it in their section.
    return [Chunk(title, " > ".join(_remove_title(title, path)), text) for path, text in pieces if _has_content(text)]


def _remove_title(title: str, path: tuple[str, ...]) -> tuple[str, ...]:
    return path[1:] if path[:1] == (title,) else path


def _has_content(text: str) -> bool:
    return any(line and not _HEADING.fullmatch(line) for line in text.split("\n"))


def _should_merge(before: str, after: str) -> bool:
    return min(len(before), len(after)) < MIN_CHUNK_CHARACTERS and len(before) + 2 + len(after) <= MAX_CHUNK_CHARACTERS


def _sections(markdown: str) -> Iterator[_Section]:
    """Yield the sections with the headings above them. Blocks are separated by blank lines outside of code."""
    headings: list[tuple[int, str]] = []
    section = _Section((), [])
    lines: list[str] = []
    fence = ""

    def close_block() -> None:
        if block := "\n".join(lines).strip("\n"):
            section.blocks.append(block)
        lines.clear()

    for line in markdown.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            lines.append(line)
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                close_block()
        elif mark:
            close_block()
            fence = mark[1]
            lines.append(line)
        elif heading := _HEADING.fullmatch(line):
            close_block()
            yield section
            level, text = len(heading[1]), heading[2].strip().rstrip("#").strip()
            headings = [*(outer for outer in headings if outer[0] < level), (level, text)]
            section = _Section(tuple(text for _, text in headings), [line.strip()])
        elif not line.strip():
            close_block()
        else:
            lines.append(line)
    close_block()
    yield section


def _pack_blocks(blocks: list[str]) -> Iterator[str]:
    """Join blocks into as few texts as the size limit allows."""
    text = ""
    for block in itertools.chain.from_iterable(map(_split_block, blocks)):
        if text and len(text) + 2 + len(block) > MAX_CHUNK_CHARACTERS:
            yield text
            text = block
        else:
            text = f"{text}\n\n{block}" if text else block
    if text.strip():
        yield text


def _split_block(block: str) -> Iterator[str]:
    """Split a block that is too long: at lines, else at sentences, else anywhere."""
    if len(block) <= MAX_CHUNK_CHARACTERS or _FENCE.match(block):
        yield block
        return
    text = ""
    for part in _split_lines(block):
        if text and len(text) + 1 + len(part) > MAX_CHUNK_CHARACTERS:
            yield text
            text = part
        else:
            text = f"{text}\n{part}" if text else part
    yield text


def _split_lines(block: str) -> Iterator[str]:
    for line in block.split("\n"):
        if len(line) <= MAX_CHUNK_CHARACTERS:
            yield line
            continue
        for sentence in _SENTENCE.split(line):
            yield from (
                sentence[start : start + MAX_CHUNK_CHARACTERS]
                for start in range(0, len(sentence), MAX_CHUNK_CHARACTERS)
            )


MAX_FILE_BYTES = 2_000_000
"""Larger files are data, not pages."""


class Document(msgspec.Struct, frozen=True):
    path: str
    """Relative to the folder, with `/`."""
    text: str
    digest: str
    """SHA-256 of its bytes, to detect changes."""


class Problem(msgspec.Struct, frozen=True):
    """A file or folder that could not be read, or not as it is."""

    path: str
    description: str


def list_files(folder: Path) -> tuple[list[str], list[Problem]]:
    """Return the Markdown files of a folder, sorted, without hidden ones and node_modules."""
    paths: list[str] = []
    problems: list[Problem] = []

    def report_unreadable(error: OSError) -> None:
        if Path(os.fsdecode(error.filename)) == folder:
            # An unreadable folder is not an empty one.
            raise PalaverError(f"Cannot read the folder {folder}: {error.strerror}.") from error
        path = Path(os.fsdecode(error.filename)).relative_to(folder).as_posix()
        problems.append(Problem(_printable_path(path), f"cannot be read: {error.strerror}"))

    for path, folders, files in os.walk(folder, onerror=report_unreadable):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        paths += [
            (Path(path) / name).relative_to(folder).as_posix()
            for name in files
            if name.endswith(".md") and not name.startswith(".")
        ]
    return sorted(paths), problems


def read_documents(
    folder: Path, *, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Iterator[Document | Problem]:
    """Yield the documents and problems of a folder. `progress` gets the number of files read and their total."""
    paths, problems = list_files(folder)
    yield from problems
    root = folder.resolve()
    for done, path in enumerate(paths):
        progress(done, len(paths))
        yield from _read_document(folder / path, path, root)
    progress(len(paths), len(paths))


def _read_document(file: Path, path: str, root: Path) -> Iterator[Document | Problem]:
    if _printable_path(path) != path:  # SQLite stores text only, and two such names could become equal.
        yield Problem(_printable_path(path), "skipped: its name is not UTF-8")
        return
    try:
        if not file.resolve(strict=True).is_relative_to(root):
            yield Problem(path, "skipped: it links to a file outside the folder")
            return
        if not file.is_file():
            return  # A folder, or a pipe, which would block.
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return  # Deleted meanwhile.
    except (OSError, RuntimeError) as error:  # RuntimeError: a symlink loop, before Python 3.13.
        yield Problem(path, f"skipped: cannot be read ({error.strerror if isinstance(error, OSError) else error})")
        return
    if len(content) > MAX_FILE_BYTES:
        yield Problem(path, f"skipped: larger than {MAX_FILE_BYTES:,} bytes")
        return
    text = _decode_text(content)
    if "\ufffd" in text:
        yield Problem(path, "is not valid UTF-8; invalid bytes were replaced with \ufffd")
    yield Document(path, text, sha256(content).hexdigest())


def _decode_text(content: bytes) -> str:
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8", errors="replace")


def _printable_path(path: str) -> str:
    return path.encode(errors="surrogateescape").decode(errors="replace")
