"""JSON: an array of objects. Also read: `{"rows": […]}`, and Agenta's `{"data": {"testcases": [{"data": {…}}]}}`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from palaver.core import jsons
from palaver.testsets.files.elements import Element, Elements, Paths
from palaver.testsets.files.rows_out import Outgoing, objects
from palaver.testsets.files.values import Read, Report, decoded, row
from palaver.testsets.limits import Limits

_PATHS: Paths = {(): "rows", ("rows",): "rows", ("data", "testcases"): "testcases"}
_BESIDE = {"id": "__id__", "flags": "__flags__", "tags": "__tags__", "meta": "__meta__"}
"""What a test case of Agenta's has beside its data, as its own exports name it."""


class Reader:
    """Reads a file of it."""

    def __init__(self, limits: Limits) -> None:
        self.report = Report()
        self._limits = limits
        self._elements = Elements(_PATHS, limits.raw)

    def feed(self, chunk: bytes) -> Sequence[Read]:
        """The rows that are known to be whole now."""
        self.report.bytes += len(chunk)
        self._limits.check_file(self.report.bytes)
        return [self._read(element) for element in self._elements.feed(chunk)]

    def end(self) -> Iterable[Read]:
        """The rest."""
        return [self._read(element) for element in self._elements.end()]

    def _read(self, element: Element) -> Read:
        value = decoded(element.text, element.line)
        beside: dict[str, Any] = {}
        if element.form == "testcases" and isinstance(value, dict):
            case = cast("dict[str, Any]", value)
            if isinstance(case.get("data"), dict):
                beside = {name: case[key] for key, name in _BESIDE.items() if case.get(key) is not None}
                value = case["data"]
        found = row(value, element.text, element.line, self.report, self._limits)
        return Read(found.data, beside | (found.meta or {}), found.line) if beside else found


class Writer:
    """Writes a file of it: an array, one row a line."""

    def __init__(self, columns: Sequence[str], meta: Sequence[str]) -> None:
        self._objects = objects(columns, meta)
        self._between = b"\n"

    def begin(self) -> bytes:
        """The array opens."""
        return b"["

    def rows(self, rows: Iterable[Outgoing]) -> bytes:
        """These rows."""
        texts = [jsons.encode(fields) for fields in self._objects(rows)]
        if not texts:
            return b""
        before, self._between = self._between, b",\n"
        return before + b",\n".join(texts)

    def end(self) -> Iterator[bytes]:
        """The array closes."""
        yield b"\n]\n"
