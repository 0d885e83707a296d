"""The records of a CSV text, as it comes: cells between delimiters, in quotes or not, over as many lines as it takes.

A quote opens a quoted cell only at its beginning; inside, two of them are one. CRLF, LF and CR end a record. An empty
line is none; a line that is only `""` is a record of one empty cell.
"""

import re
from typing import NamedTuple

from palaver.errors import TooLarge
from palaver.testsets.files.values import wrong

DELIMITERS = ",;\t|"
_LINE_END = re.compile(r"[\r\n]")
_QUOTED = r'"([^"]*+(?:""[^"]*+)*+)"'
_END = r"\r\n?+|\n|\Z"
_HEADER_CELL = re.compile(rf"(?:{_QUOTED})?+([^{DELIMITERS}\r\n]*+)([{DELIMITERS}]|{_END})")
_QUOTED_CELL = re.compile(_QUOTED)
_LEAST = 65_536
"""Characters that are gathered before a look is worth it."""


class Record(NamedTuple):
    """The cells of one, and the line in which it begins."""

    cells: list[str]
    line: int


class Records:
    """Takes text as it comes, cut anywhere, and gives the records that are whole. The first one is the header."""

    def __init__(self, delimiter: str | None, most: int) -> None:
        self.delimiter = delimiter
        """As given, or as the header tells."""
        self.line = 1
        """That of the first character which is still waited with."""
        self._cell = _cell(delimiter) if delimiter else None
        self._most = most
        self._text = ""
        self._waiting: list[str] = []
        self._size, self._wanted = 0, 0

    def feed(self, text: str, *, is_last: bool = False) -> list[Record]:
        """The records that are known to be whole now."""
        self._waiting.append(text)
        self._size += len(text)
        if self._size < self._wanted and not is_last:
            return []
        self._text = "".join((self._text, *self._waiting))
        self._waiting = []
        found = self._records(is_last=is_last)
        self._size = len(self._text)
        if self._size > self._most:
            raise TooLarge(f"Line {self.line}: the row is too large. Was a quote left open?")
        self._wanted = max(_LEAST, 2 * self._size)  # A long cell is not searched for its end again and again.
        return found

    def lines(self) -> int:
        """How many lines have come, to where they were cut last."""
        return self.line + _lines(self._text) + sum(map(_lines, self._waiting))

    def _records(self, *, is_last: bool) -> list[Record]:
        found: list[Record] = []
        text, at = self._text, 0
        if self._cell is None and not self._detect(is_last=is_last):
            return found
        delimiter = self.delimiter or ","
        while at < len(text):
            end = _LINE_END.search(text, at)
            if end is None and not is_last:
                break
            stop = end.start() if end else len(text)
            if text.find('"', at, stop) >= 0:
                record, after = self._quoted(text, at, is_last=is_last)
                if record is None:
                    break
                found.append(record)
                self.line += _lines(text[at:after])
                at = after
                continue
            if end is not None and text[stop] == "\r" and stop + 1 == len(text) and not is_last:
                break  # The next character may be the other half of it.
            if stop > at:
                found.append(Record(text[at:stop].split(delimiter), self.line))
            self.line += 1
            at = stop + (2 if text.startswith("\r\n", stop) else 1)
        self._text = text[at:]
        return found

    def _quoted(self, text: str, at: int, *, is_last: bool) -> tuple[Record | None, int]:
        """A record that may hold quoted cells; None where its end has not come."""
        assert self._cell is not None
        cells: list[str] = []
        while True:
            cell = self._cell.match(text, at)
            if cell is None:
                if not is_last and not _is_closed(text, at):
                    return None, at
                message = "text stands behind a closing quote." if _is_closed(text, at) else "a quote is left open."
                raise wrong(self.line, message)
            inner, plain, end = cell.groups()
            at = cell.end()
            if at == len(text) and not is_last and end != self.delimiter and end != "\n" and end != "\r\n":  # noqa: PLR1714
                return None, at  # More of the cell may come, a second quote, or the other half of CRLF.
            cells.append(plain if inner is None else inner.replace('""', '"'))
            if end != self.delimiter:
                return Record(cells, self.line), at

    def _detect(self, *, is_last: bool) -> bool:
        """Which delimiter occurs most in the header, outside of quotes? False while it is not whole."""
        text, counts = self._text, dict.fromkeys(DELIMITERS, 0)
        at = len(text) - len(text.lstrip("\r\n"))
        while (cell := _HEADER_CELL.match(text, at)) is not None:
            end = cell[3]
            is_open = text.startswith('"', at) and cell[1] is None
            if not is_last and (is_open or (cell.end() == len(text) and end not in counts)):
                return False
            if is_open or end not in counts:
                break
            counts[end] += 1
            at = cell.end()
        most = [delimiter for delimiter, count in counts.items() if count == max(counts.values())]
        self.delimiter = most[0] if len(most) == 1 else ","
        self._cell = _cell(self.delimiter)
        return True


def _cell(delimiter: str) -> re.Pattern[str]:
    mark = re.escape(delimiter)
    return re.compile(rf'(?:{_QUOTED}|((?!")[^{mark}\r\n]*+))({mark}|{_END})')


def _is_closed(text: str, at: int) -> bool:
    """Does a quoted cell begin and end here, whatever stands behind it?"""
    return _QUOTED_CELL.match(text, at) is not None


def _lines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")
