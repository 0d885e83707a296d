"""Every example has a header of two lines, a line in examples/README.md, a test, and a unique name."""

import re
from pathlib import Path

import pytest

from palaver.cli.main import COMMANDS
from palaver.testing import client
from tests.examples.conftest import EXAMPLES, Example, example_commands, header

FILES = sorted(EXAMPLES.glob("*.py"))
each_example = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_there_are_ten_examples() -> None:
    assert len(FILES) == 10


@each_example
def test_the_header_has_a_description_and_valid_commands(path: Path) -> None:
    description, _ = header(path)
    commands = example_commands(path.stem)

    assert description.endswith(".")
    assert path.read_text("utf-8").startswith(f'"""{description}\n\npalaver ')
    assert all(command[0] in COMMANDS for command in commands)
    assert f"examples/{path.name}" in commands[-1]
    paths = [word for command in commands for word in command if word.startswith("examples/")]
    assert [word for word in paths if not (EXAMPLES.parent / word).exists()] == []


@each_example
def test_an_example_has_15_to_70_lines(path: Path) -> None:
    assert 15 <= len(path.read_text("utf-8").splitlines()) <= 70


def test_the_readme_lists_each_example_with_its_description() -> None:
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\((\S+)\) \| (.+?) \|", readme, re.MULTILINE)

    assert sorted(rows) == [(path.name, path.name, header(path)[0]) for path in FILES]


def test_the_readme_names_the_extra_that_each_example_needs() -> None:
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    needs = dict(re.findall(r"^\| \[(\S+)\]\(\S+\) \|.*\| `palaver\[(\S+)\]` \|$", readme, re.MULTILINE))
    extras = {"langgraph": "langchain", "agents": "openai-agents", "pydantic_ai": "pydantic-ai", "pydantic": "pydantic"}
    imported = {
        path.name: extras[module]
        for path in FILES
        for module in re.findall(r"^from (\w+)", path.read_text("utf-8"), re.MULTILINE)
        if module in extras
    }

    assert needs == imported


@each_example
def test_each_example_has_a_test(path: Path) -> None:
    test = Path(__file__).with_name(f"test_{path.name}")

    assert f'example("{path.stem}")' in test.read_text("utf-8")


async def test_all_examples_are_served_together_under_unique_names(
    example: Example, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORYTELLER_URL", f"http://127.0.0.1:{unused_port}")
    async with client(*example("")) as http:
        workflows = (await http.get("/api/workflows")).json()["data"]

    assert sorted(one["name"] for one in workflows) == [
        "counter",
        "far_storyteller",
        "forecast",
        "guide",
        "model_storyteller",
        "refunds",
        "shop",
        "split_bill",
        "storyteller",
        "sums",
        "weather",
    ]
