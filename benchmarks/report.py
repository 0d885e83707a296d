"""The last measurement: stored in docs/concepts/benchmarks.json by part, and shown in benchmarks.md."""

import os
import platform
import textwrap
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

- The bare ASGI app sends the same bytes, prepared in advance: no Python application on the same server can be faster.
- Figures relative to something are ratios. ± is half the range of the repeats.
- p95: 95% of the requests took at most this long.
- A missed goal is marked. Some goals also have a wider bound that is required.

## Overview

The main figures; the sections below have all of them, and say how each was measured.
"""

DESCRIPTIONS = {
    "micro": "The CPU time for one text delta, that is, for one piece of streamed text, before it is sent.",
    "extraction": "The time to find the conversation in a JSON value, relative to parsing that value. The strict "
    "search finds lists of objects with `role` and `content`; the extended search finds and converts all dialects.",
    "imports": "The time of `import palaver`, for programs that only declare workflows.",
    "startup": "The start of `palaver serve`, and the memory of the server when it is idle.",
    "streaming": "Streams and complete responses over `/invoke`, compared with the bare ASGI app.",
    "invocations": "Streams and complete responses over `/invocations`, compared with the bare ASGI app and with "
    "MLflow's AgentServer. Runs are neither recorded nor traced.",
    "recording": "The cost of recording runs in an SQLite file, compared with not recording them, and with MLflow's "
    "tracing.",
    "conversations": "Requests for stored conversations.",
    "idle": "The memory of an open stream that waits for its next event.",
    "blocking": "The response time of async workflows while sync workflows block their worker threads.",
    "jobchat": "Job Chat with a fake model, which responds immediately or at a fixed pace.",
    "traces": "The cost of tracing runs, and receiving, querying and deleting spans. The spans are chats of 2 KiB "
    "each; bare inserts write the same rows with the database driver alone.",
    "testsets": "Importing, reading and changing large test sets.",
    "evaluation": "Evaluations of 10,000 cells, each of which is one answer to one row, with three evaluators.",
    "page": "The web interface in Chromium. The longest task is the longest time during which it can't react to input.",
}
"""What each part measures."""


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

    label: str
    figure: str
    """As `part: name`."""


class Group(msgspec.Struct, frozen=True):
    """Rows of the overview with a common subject."""

    subject: str
    rows: list[Row]


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


def render_page(parts: Parts, groups: list[Group] | None = None) -> str:
    """Render docs/concepts/benchmarks.md, with the groups of overview.toml by default."""
    sections = [_section(name, part) for name, part in parts.items()]
    return "\n".join([INTRODUCTION, _overview(parts, _load_groups() if groups is None else groups), *sections])


def _section(name: str, part: Part) -> str:
    environment = f"{part.where}; {part.day}, load average {part.load:g} before the run"
    description = textwrap.fill(DESCRIPTIONS[name], 128, break_on_hyphens=False)
    return f"## {name}\n\n{description}\n\n{environment}\n\n{table(part.figures)}\n"


def _overview(parts: Parts, groups: list[Group]) -> str:
    lines = [
        _line(row, group.subject if index == 0 else "", parts)
        for group in groups
        for index, row in enumerate(group.rows)
    ]
    return "\n".join(["| subject | figure | result | goal |", "|---|---|---|---|", *lines, ""])


def _load_groups() -> list[Group]:
    text = (Path(__file__).parent / "overview.toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, list[Group]])["group"]


def _line(row: Row, subject: str, parts: Parts) -> str:
    figure = _find_figure(row.figure, parts)
    result, goal = (figure.measured, figure.aim) if figure is not None else ("not measured yet", "")
    return f"| {subject} | {row.label} | {result} | {goal} |".replace("|  |", "| |")


def _find_figure(name: str, parts: Parts) -> Figure | None:
    part, _, figure = name.partition(": ")
    return next((entry for entry in parts[part].figures if entry.name == figure), None) if part in parts else None
