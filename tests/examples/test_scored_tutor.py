"""examples/scored_tutor.py: the chat, and the evaluation gate of its header."""

import pytest

from palaver.testing import client
from tests.examples.conftest import EXAMPLES, Example, example_commands, run_palaver
from tests.examples.server_calls import complete_chat, invoke

EVAL_COMMAND = ["eval", "examples/scored_tutor.py", "examples/scored_tutor.jsonl"]


@pytest.fixture(autouse=True)
def in_repository_root(monkeypatch: pytest.MonkeyPatch, example: Example) -> None:
    monkeypatch.chdir(EXAMPLES.parent)


async def test_the_tutor_answers_over_invoke_and_chat_completions(example: Example) -> None:
    async with client(*example("scored_tutor")) as http:
        assert await invoke(http, "sums", "What is 17 plus 25?") == {"role": "assistant", "content": "17 + 25 = 42"}
        assert await complete_chat(http, "sums", "What is love?") == ("I can only add numbers.", "stop")


def test_the_gate_passes_a_pass_rate_above_its_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    [command] = example_commands("scored_tutor")

    assert run_palaver(command) == 0
    assert capsys.readouterr().out == (
        "variant  evaluator    passed  95% CI        mean   scored  not scored  failed calls  flaky\n"
        "sums     contains     75.0%   30.1 to 95.4  0.750  4       0           0             -\n"
        "         shows_steps  75.0%   30.1 to 95.4  0.500  4       0           0             -\n"
    )


def test_the_gate_fails_a_pass_rate_below_its_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    [command] = example_commands("scored_tutor")
    *arguments, share = command

    assert share == "0.6"
    assert run_palaver([*arguments, "0.9"]) == 1
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("FAILED ")] == [
        "FAILED --fail-under 0.9: contains has a pass rate of 75% for 'sums'.",
        "FAILED --fail-under 0.9: shows_steps has a pass rate of 75% for 'sums'.",
    ]


def test_the_gate_fails_on_regressions(capsys: pytest.CaptureFixture[str]) -> None:
    variants = ["--variant", "long:{}", "--variant", 'short:{"steps": false}', "--max-regressions", "0"]

    assert run_palaver([*EVAL_COMMAND, "-e", "shows_steps", *variants]) == 1
    assert "--max-regressions 0: 3 rows regressed in shows_steps" in capsys.readouterr().err
