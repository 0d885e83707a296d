"""The stand: what every part is given."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

T = TypeVar("T")


class MeasurementError(Exception):
    """A part cannot give its figures here; the message says why."""


class BenchmarkContext(msgspec.Struct, frozen=True, kw_only=True):
    """How long a part may take, and where it may write."""

    pace: Literal["full", "quick"]
    """quick is a smoke test: everything happens, the figures mean little."""
    folder: Path

    def choose(self, *, full: T, quick: T) -> T:
        """A number of repeats, or a number of seconds, by the pace."""
        return full if self.pace == "full" else quick

    @property
    def environment(self) -> Mapping[str, str]:
        """For processes that are measured: nobody's settings, and compiled modules where we alone know their state."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        return kept | {"PYTHONPYCACHEPREFIX": str(self.folder / "pycache")}
