"""What pyproject.toml offers to others, also before the package is installed anew."""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def entry_points(group: str) -> dict[str, str]:
    return tomllib.loads(PROJECT.read_text())["project"]["entry-points"].get(group, {})
