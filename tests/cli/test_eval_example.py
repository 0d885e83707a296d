"""The example of an evaluator of one's own, run as its first lines say."""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from palaver.cli.eval import command

ROOT = Path(__file__).parents[2]


def test_the_example_runs_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    said = Path("examples/scored_tutor.py").read_text(encoding="utf-8")
    [line] = [line for line in said.splitlines() if line.startswith("    palaver eval ")]
    result = CliRunner().invoke(command, shlex.split(line)[2:], standalone_mode=False)

    assert result.exception is None
    assert result.return_value == 0
    assert result.stdout == (
        "variant  evaluator    passed  95 %          mean   rows  not scored  flaky\n"
        "sums     contains     75.0 %  30.1 to 95.4  0.750  4     0           -\n"
        "         shows_steps  75.0 %  30.1 to 95.4  0.500  4     0           -\n"
    )


def test_its_other_variant_is_worse_by_its_own_evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = ["examples/scored_tutor.py", "examples/scored_tutor.jsonl"]
    variants = ["--variant", "long:{}", "--variant", 'short:{"steps": false}', "--max-regressions", "0"]
    result = CliRunner().invoke(command, [*files, "-e", "shows_steps", *variants], standalone_mode=False)

    assert result.return_value == 1
    assert "shows_steps: 3 rows pass no longer, 0 may." in result.stderr
