"""The last measurement: stored in docs/concepts/benchmarks.json by part, and shown in benchmarks.md."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.figures import Figure, table

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "concepts" / "benchmarks.json"
PAGE = ROOT / "docs" / "concepts" / "benchmarks.md"

INTRODUCTION = """# Benchmarks

`make bench` runs all benchmarks and generates this page; `make bench ARGS="--only traces"` updates one section. Timings
are compared with a baseline or another product, measured in the same run on the same machine, because machines differ,
and the speed of shared ones changes from minute to minute. Ratios vary by about 10% between runs.

- A figure named `a / b` is the ratio of a to b.
- A missed goal is marked. `must` is a wider bound that is required.
- ± is half the range of the repeats.

## Overview
"""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The last measurement of a part."""

    where: str
    day: str
    load: float
    """Load average of the minute before."""
    figures: list[Figure]


Parts = dict[str, Part]


class Row(msgspec.Struct, frozen=True):
    """A row of the overview."""

    words: str
    figures: list[str]
    """Each as `part: name`."""


def load_average() -> float:
    """Return the load average of the last minute; 0 if unknown."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def describe_machine() -> str:
    """Describe Palaver, Python and the machine."""
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"Palaver {version('palaver')}, {platform.python_implementation()} {platform.python_version()}, {system}"


def make_part(figures: list[Figure], *, load: float) -> Part:
    """Stamp figures with machine and date."""
    return Part(where=describe_machine(), day=datetime.now(UTC).date().isoformat(), load=load, figures=figures)


def load_parts(file: Path = DATA) -> Parts:
    """Load the last measurements."""
    return msgspec.json.decode(file.read_bytes(), type=Parts) if file.exists() else {}


def save_parts(measured: Parts, order: list[str]) -> None:
    """Store these parts and update docs/concepts/benchmarks.md."""
    parts = load_parts() | measured
    parts = {name: parts[name] for name in order if name in parts}
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(parts), indent=1) + b"\n")
    PAGE.write_text(render_page(parts), encoding="utf-8")


def render_page(parts: Parts, rows: list[Row] | None = None) -> str:
    """Render docs/concepts/benchmarks.md, with the rows of overview.toml by default."""
    sections = [
        f"## {name}\n\n{part.where}; {part.day}, load average {part.load:g} before the run\n\n{table(part.figures)}\n"
        for name, part in parts.items()
    ]
    return "\n".join([INTRODUCTION, _overview(parts, _load_rows() if rows is None else rows), *sections])


def _overview(parts: Parts, rows: list[Row]) -> str:
    return "\n".join(["| figure | measured | goal |", "|---|---|---|", *(_line(row, parts) for row in rows), ""])


def _load_rows() -> list[Row]:
    return msgspec.toml.decode((Path(__file__).parent / "overview.toml").read_bytes(), type=dict[str, list[Row]])["row"]


def _line(row: Row, parts: Parts) -> str:
    figures = [figure for name in row.figures if (figure := _find_figure(name, parts)) is not None]
    measured = " · ".join(figure.measured for figure in figures) or "not measured yet"
    goals = " · ".join(figure.aim or "-" for figure in figures)
    return f"| {row.words} | {measured} | {goals} |"


def _find_figure(name: str, parts: Parts) -> Figure | None:
    part, _, figure = name.partition(": ")
    return next((entry for entry in parts[part].figures if entry.name == figure), None) if part in parts else None
