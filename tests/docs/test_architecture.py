"""The files named in docs/concepts/architecture.md exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "concepts" / "architecture.md").read_text("utf-8")
FOLDERS = ("src/palaver", "src/palaver/evaluation", "web/src")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w/-]+\.(?:py|tsx?))`", PAGE))))
def test_every_file_named_on_the_page_exists(name: str) -> None:
    assert any((ROOT / folder / name).is_file() for folder in FOLDERS)


def test_the_layer_diagrams_match_the_import_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [" → ".join(contract["layers"]) for contract in contracts if contract["type"] == "layers"]
    diagrams = [re.sub(r"\s+", " ", block).strip() for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)]

    assert diagrams == layers
