"""Load the examples as `palaver serve examples/….py` does."""

import ast
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from palaver.cli.main import main
from palaver.discovery.workflow_loader import load
from palaver.workflows.workflow import Workflow
from tests.server_process import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"

Example = Callable[[str], list[Workflow]]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """Return a function that loads the workflows of an example by name, or of all examples by an empty name."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    names = [path.stem for path in EXAMPLES.glob("*.py")]

    def unload_examples() -> None:
        for name in names:
            sys.modules.pop(name, None)

    unload_examples()
    yield lambda name: load([str(EXAMPLES / f"{name}.py" if name else EXAMPLES)])
    unload_examples()


@pytest.fixture
def unused_port() -> int:
    """A free loopback port."""
    return free_port()


def example_commands(name: str) -> list[list[str]]:
    """Return the arguments of each command in an example's header."""
    _, command = header(EXAMPLES / f"{name}.py")
    return [shlex.split(part)[1:] for part in re.split(" && | & ", command)]


def header(path: Path) -> tuple[str, str]:
    """Return the two lines of an example's docstring: what it shows, and how to run it."""
    what, run = [line for line in (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").splitlines() if line]
    return what, run


def run_palaver(arguments: list[str]) -> int:
    """Run a `palaver` command and return its exit code."""
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code
