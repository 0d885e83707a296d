"""JSON Lines: one object per line, keys in column order, so that diffs in git are readable."""

from collections.abc import Iterable, Iterator, Sequence

from palaver.core import json
from palaver.errors import TooLarge
from palaver.testsets.files.base import FileReport, FileRow, RowLike, decode_json, make_file_row, object_encoder
from palaver.testsets.files.json_file import _BOM
from palaver.testsets.limits import TestsetLimits


class JsonlReader:
    """Reads JSON Lines. Empty lines are skipped; LF or CRLF ends a line."""

    def __init__(self, limits: TestsetLimits) -> None:
        self.report = FileReport()
        self._limits = limits
        self._begun: list[bytes] = []
        """Chunks of a line that has not ended."""
        self._waiting = 0
        self._line = 1

    def feed(self, chunk: bytes) -> Sequence[FileRow]:
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._wait(chunk)
            return ()
        lines[0] = b"".join((*self._begun, lines[0]))
        self._begun, self._waiting = [], 0
        self._wait(lines.pop())
        return [row for line in lines if (row := self._read(line)) is not None]

    def end(self) -> Iterable[FileRow]:
        row = self._read(b"".join(self._begun))
        self._begun = []
        return () if row is None else (row,)

    def _wait(self, piece: bytes) -> None:
        self._waiting += len(piece)
        if self._waiting > self._limits.max_raw_bytes:
            raise TooLarge(f"Line {self._line}: the row has more than {self._limits.row} bytes.")
        if piece:
            self._begun.append(piece)

    def _read(self, text: bytes) -> FileRow | None:
        line = self._line
        self._line += 1
        if line == 1:
            text = text.removeprefix(_BOM)
        if not text or text.isspace():
            return None
        return make_file_row(decode_json(text, line), text, line, self.report, self._limits)


class JsonlWriter:
    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._objects = object_encoder(columns, meta)

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Iterable[RowLike]) -> bytes:
        return b"".join([json.encode(fields) + b"\n" for fields in self._objects(rows)])

    def end(self) -> Iterator[bytes]:
        return iter(())
