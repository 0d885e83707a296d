"""The entry points of pyproject.toml, independent of what is installed."""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def entry_points(group: str) -> dict[str, str]:
    return tomllib.loads(PROJECT.read_text())["project"]["entry-points"].get(group, {})
