"""The values of a file: one JSON document, or JSONL, which has one value on each line."""

import re
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from palaver.errors import InvalidJson, PalaverError, TargetNotFound, TooDeep

_decode = msgspec.json.Decoder().decode
_JSONL_SUFFIXES = (".jsonl", ".ndjson")
_BOM = b"\xef\xbb\xbf"  # Some editors begin a UTF-8 file with it.
_OBJECT_LINE = re.compile(rb"^\{.*\}\s*$")
_PEEKED_LINES = 10
"""Lines of a broken file that are tried, to tell which kind it is."""

Line = tuple[int, bytes]


class JsonRecord(NamedTuple):
    """A value, or why there is none."""

    line: int | None
    """Its line, from 1; None for a whole document."""
    value: Any = None
    fault: str | None = None


@contextmanager
def open_input(name: str) -> Generator[BinaryIO]:
    """The file of that name, or standard input for `-`."""
    if name == "-":
        yield sys.stdin.buffer
        return
    with _open_file(name) as stream:
        yield stream


def _open_file(name: str) -> BinaryIO:
    try:
        return Path(name).open("rb")
    except IsADirectoryError:
        raise TargetNotFound(f"{name} is a folder: give a file.") from None
    except (OSError, ValueError) as error:  # A name with NUL in it is a ValueError.
        raise TargetNotFound(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def read_records(stream: BinaryIO, name: str) -> Iterator[JsonRecord]:
    """The values of a file, one at a time. JSONL goes by its name, or shows by a first line that is a whole value.

    What is wrong with a line is told in its place; a document that cannot be read raises.
    """
    lines = _number_lines(stream)
    if name.endswith(_JSONL_SUFFIXES):
        yield from map(_parse_line, _nonblank(lines))
        return
    head = list(_until_second_nonblank(lines))
    said = list(_nonblank(head))
    if not said:
        raise InvalidJson(f"{_display_name(name)} is empty: there is no JSON in it.")
    if len(said) > 1 and _parse_line(said[0]).fault is None:
        yield from map(_parse_line, _nonblank(chain(head, lines)))
        return
    body = b"".join([text for _, text in head]) + stream.read()
    try:
        found = iter((JsonRecord(None, _parse_json(body)),))
    except PalaverError as error:
        if not _looks_like_jsonl(body):
            raise type(error)(f"{_display_name(name)} {error.message}.") from None
        found = map(_parse_line, _nonblank(enumerate(body.split(b"\n"), 1)))
    yield from found


def _display_name(name: str) -> str:
    return "Standard input" if name == "-" else name


def _number_lines(stream: BinaryIO) -> Iterator[Line]:
    for number, text in enumerate(stream, 1):
        yield number, text.removeprefix(_BOM) if number == 1 else text


def _nonblank(lines: Iterable[Line]) -> Iterator[Line]:
    return (line for line in lines if not line[1].isspace() and line[1])


def _until_second_nonblank(lines: Iterator[Line]) -> Iterator[Line]:
    """The lines up to the second that says something."""
    said = 0
    for line in lines:
        yield line
        said += not line[1].isspace()
        if said == 2:
            return


def _looks_like_jsonl(body: bytes) -> bool:
    """Were these meant as lines, though the first is broken? Then one of the next is an object, whole, unindented."""
    some = body.split(b"\n", _PEEKED_LINES)[1:_PEEKED_LINES]
    return any(_OBJECT_LINE.match(text) is not None and _parse_line((0, text)).fault is None for text in some)


def _parse_line(line: Line) -> JsonRecord:
    number, text = line
    try:
        return JsonRecord(number, _parse_json(text))
    except PalaverError as error:
        return JsonRecord(number, fault=error.message)


def _parse_json(text: bytes) -> Any:
    try:
        return _decode(text)
    except RecursionError:
        raise TooDeep("is nested too deep to be read") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        try:
            text.decode()
        except UnicodeDecodeError:
            raise InvalidJson("is not UTF-8") from None
        why = str(error).removeprefix("JSON is malformed: ")
        raise InvalidJson(f"is not JSON: {why[:1].lower()}{why[1:]}") from None
