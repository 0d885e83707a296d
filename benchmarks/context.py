"""The context that every part is measured with."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

T = TypeVar("T")


class MeasurementError(Exception):
    """A part can't be measured here; the message says why."""


class BenchmarkContext(msgspec.Struct, frozen=True, kw_only=True):
    """How thoroughly to measure, and a folder to write to."""

    pace: Literal["full", "quick"]
    """quick is a smoke test: it runs everything, but its figures mean little."""
    folder: Path

    def choose(self, *, full: T, quick: T) -> T:
        """Return the value for the pace, such as a number of repeats or seconds."""
        return full if self.pace == "full" else quick

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of measured processes: without Palaver settings, with a bytecode cache of its own."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        return variables | {"PYTHONPYCACHEPREFIX": str(self.folder / "pycache")}
