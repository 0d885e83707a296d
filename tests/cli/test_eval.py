"""`palaver eval`: run a file over a workflow, score, compare and gate, without a server."""

import asyncio
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.eval import runner as eval_testset
from palaver.cli.main import cli, main
from palaver.storage import variants
from palaver.storage.database import open_database
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.variants import VariantDraft

APP = """
import asyncio
from pathlib import Path
from typing import Annotated
from palaver import Case, Message, Parameter, chat, evaluator

@chat
async def tutor(messages: list[Message], style: Annotated[str, Parameter()] = "long") -> str:
    said = messages[-1].text
    if said == "boom":
        raise ValueError("out of ideas")
    if said == "wait":
        Path("begun").touch()
        await asyncio.sleep(60)
    return said if style == "short" else said.upper()

@evaluator
def broken(case: Case) -> bool:
    return {"HI": True}[case.text]

@evaluator(threshold=0.5)
def loud(case: Case) -> float:
    return sum(letter.isupper() for letter in case.text) / max(1, len(case.text))
"""
QUESTIONS = "messages,expected\nhi,HI\nho,HO\nhm,hm\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "questions.csv").write_text(QUESTIONS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_eval(*arguments: str, testset: str = "questions.csv", target: str = "app.py") -> Result:
    result = CliRunner().invoke(cli, ["eval", target, testset, *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def eval_report(*arguments: str, **options: str) -> dict[str, Any]:
    return msgspec.json.decode(run_eval(*arguments, "--json", **options).stdout)


def load_evaluation(path: str) -> evaluations.Evaluation:
    """Return the only evaluation of a database."""

    async def load() -> evaluations.Evaluation:
        database = open_database(path)
        try:
            [one] = (await database.read(evaluations.list_evaluations, "default")).data
        finally:
            await database.close()
        return one

    return asyncio.run(load())


def pass_rates(report: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {
        (variant["name"], one["name"]): round(one["pass_rate"], 3)
        for variant in report["variants"]
        for one in variant["evaluators"]
    }


@pytest.mark.usefixtures("folder")
def test_a_testset_file_is_evaluated_and_a_table_is_printed() -> None:
    result = run_eval("--evaluator", "exact_match", "--evaluator", "loud")

    assert result.return_value == 0
    assert result.stdout == (
        "variant  evaluator    passed  95% CI         mean   scored  not scored  failed calls  flaky\n"
        "tutor    exact_match  66.7%   20.8 to 93.9   0.667  3       0           0             -\n"
        "         loud         100.0%  43.9 to 100.0  1.000  3       0           0             -\n"
    )
    assert result.stderr == "3 of 3 runs\n"


@pytest.mark.parametrize("name", ["questions.jsonl", "questions.json"])
def test_json_and_jsonl_files_are_recognized_by_their_extension(folder: Path, name: str) -> None:
    rows = [{"messages": "hi", "expected": "HI"}, {"messages": [{"role": "user", "content": "ho"}], "expected": "x"}]
    encoder = msgspec.json.Encoder()
    (folder / name).write_bytes(encoder.encode_lines(rows) if name.endswith("l") else encoder.encode(rows))

    assert pass_rates(eval_report("-e", "exact_match", testset=name)) == {("tutor", "exact_match"): 0.5}


def test_a_question_column_becomes_the_user_message(folder: Path) -> None:
    (folder / "asked.csv").write_text("id,question,expected\n1,hi,HI\n2,ho,x\n", encoding="utf-8")

    assert pass_rates(eval_report("-e", "exact_match", testset="asked.csv")) == {("tutor", "exact_match"): 0.5}


@pytest.mark.parametrize(
    "rows",
    [
        "HI,HI\n42,42\ntrue,TRUE\nnull,NULL\n",
        "42,42\n7,7\n",
        "42,42\n1.50,1.50\n",
        "1.0,1.0\nhi,HI\n",
        "hi,HI\n42,x\n",
    ],
)
def test_a_plain_csv_file_with_numbers_is_scored(folder: Path, rows: str) -> None:
    (folder / "plain.csv").write_text(f"question,expected\n{rows}", encoding="utf-8")
    [variant] = eval_report("-e", "exact_match", "-e", "contains", testset="plain.csv")["variants"]

    answers = rows.count("\n")
    passed = answers - rows.count(",x")
    assert [(one["scored"], one["unscored"], round(one["pass_rate"] * answers)) for one in variant["evaluators"]] == [
        (answers, 0, passed)
    ] * 2


def test_inputs_that_are_text_accept_numbers_from_a_file(folder: Path) -> None:
    (folder / "streets.py").write_text(
        "from palaver import workflow\n\n"
        "@workflow\ndef street(number: str, name: str | None = None) -> int:\n    return int(number.zfill(3)) * 2\n",
        encoding="utf-8",
    )
    (folder / "streets.csv").write_text("number,expected\n12,24\n7,14\n", encoding="utf-8")
    report = eval_report("-e", "exact_match", "-e", "contains", testset="streets.csv", target="streets.py")

    assert report["failed"] == 0
    assert pass_rates(report) == {("street", "exact_match"): 1.0, ("street", "contains"): 1.0}


@pytest.mark.parametrize(
    ("empty", "pass_rate"), [({}, 1.0), ({"talk": None}, 1.0), ({"talk": ""}, 1.0), ({"talk": []}, 0.5)]
)
def test_an_empty_messages_cell_does_not_change_how_the_other_rows_are_sent(
    folder: Path, empty: dict[str, Any], pass_rate: float
) -> None:
    rows = [
        {"talk": [{"role": "user", "content": "hi"}], "expected": "HI"},
        {"question": "ho", **empty, "expected": "HO"},  # An empty list is an empty conversation.
    ]
    (folder / "talks.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(rows))
    [variant] = eval_report("-e", "exact_match", testset="talks.jsonl")["variants"]

    assert [(one["n"], one["pass_rate"]) for one in variant["evaluators"]] == [(2, pass_rate)]


def test_a_row_uses_the_first_expected_answer_that_it_has(folder: Path) -> None:
    (folder / "mixed.csv").write_text(
        "question,expected,Answer,reference\nhi,HI,,x\nho,,,HO\nhm,,x,\nhe,,HE,\n", encoding="utf-8"
    )
    [report] = eval_report("-e", "exact_match", testset="mixed.csv")["variants"]

    assert [(one["n"], one["skipped"], one["pass_rate"]) for one in report["evaluators"]] == [(4, 0, 0.75)]


@pytest.mark.usefixtures("folder")
def test_evaluators_take_parameters_and_custom_names() -> None:
    numbers = eval_report("-e", 'regex:{"pattern": "^H"}', "-e", 'ends in O=regex:{"pattern": "O$"}')

    assert pass_rates(numbers) == {("tutor", "regex"): 1.0, ("tutor", "ends in O"): 0.333}


def test_agenta_evaluators_are_imported_and_skipped_ones_are_reported(folder: Path) -> None:
    agenta_evaluators = [
        {"name": "same", "evaluator_key": "auto_exact_match", "settings_values": {"correct_answer_key": "expected"}},
        {"name": "own", "evaluator_key": "auto_custom_code_run", "settings_values": {"code": "import os"}},
    ]
    (folder / "agenta.json").write_bytes(msgspec.json.encode(agenta_evaluators))

    result = run_eval("--agenta", "agenta.json", "--json")

    assert [one["name"] for one in msgspec.json.decode(result.stdout)["variants"][0]["evaluators"]] == ["same"]
    assert "own: Code is imported as text and never run" in result.stderr


def test_variants_take_parameters_inline_or_from_files_and_are_compared(folder: Path) -> None:
    (folder / "short.json").write_text('{"style": "short"}', encoding="utf-8")
    result = run_eval("-e", "exact_match", "--variant", "base:{}", "--variant", "new:short.json")
    numbers = eval_report("-e", "exact_match", "--variant", "base:{}", "--variant", "new:short.json")

    assert pass_rates(numbers) == {("base", "exact_match"): 0.667, ("new", "exact_match"): 0.333}
    assert [one["evaluators"][0]["regressions"] for one in numbers["comparisons"]] == [2]
    assert "\nnew compared with base:\nevaluator    verdict" in result.stdout


@pytest.mark.usefixtures("folder")
def test_options_select_rows_repeats_and_columns() -> None:
    first = eval_report("-e", "exact_match", "--limit", "2", "--repeats", "2")
    sampled = eval_report("-e", "exact_match", "--sample", "1", "--seed", "3")
    mapped = eval_report("-e", "exact_match", "--map", "messages=expected", "--map", "expected=messages")

    assert (first["total"], pass_rates(first)) == (4, {("tutor", "exact_match"): 1.0})
    assert sampled["total"] == 1
    assert pass_rates(mapped) == {("tutor", "exact_match"): 0.0}


@pytest.mark.usefixtures("folder")
def test_nothing_is_stored_unless_a_database_is_named() -> None:
    eval_report("-e", "exact_match")

    assert sorted(path.name for path in Path().iterdir() if path.name != "__pycache__") == ["app.py", "questions.csv"]


def test_a_testset_of_an_installed_package_is_found_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "brought_along"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "few.csv").write_text(QUESTIONS, encoding="utf-8")
    entry = EntryPoint("few_questions", "brought_along:data/few.csv", "palaver.testsets")
    monkeypatch.setattr(eval_testset, "entry_points", lambda group: EntryPoints([entry]).select(group=group))
    monkeypatch.syspath_prepend(str(folder))

    assert pass_rates(eval_report("-e", "exact_match", testset="few_questions")) == {("tutor", "exact_match"): 0.667}


@pytest.mark.usefixtures("folder")
def test_a_stored_variant_is_found_by_name_and_a_stored_testset_by_id() -> None:
    async def create_variant() -> None:
        database = open_database("runs.db")
        short = VariantDraft(workflow="tutor", name="short", parameters={"style": "short"})
        await database.write(variants.create_variant, "default", short, id="var_1", at=datetime.now(UTC))
        await database.close()

    asyncio.run(create_variant())
    first = eval_report("-e", "exact_match", "--db", "runs.db")
    second = eval_report("-e", "exact_match", "--db", "runs.db", "--variant", "short", testset="questions.csv")
    Path("questions.csv").rename("moved.csv")
    by_id = eval_report("-e", "exact_match", "--db", "runs.db", testset=first["testset"])

    assert pass_rates(second) == {("short:1", "exact_match"): 0.333}
    assert (second["testset"], second["revision"]) == (by_id["testset"], by_id["revision"]) == (first["testset"], 1)


# Gates


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("gates", "code", "line"),
    [
        (["--fail-under", "exact_match=0.6"], 0, ""),
        (["--fail-under", "0.6"], 0, ""),
        (["--fail-under", "exact_match=0.9"], 1, "FAILED --fail-under 0.9: exact_match has a pass rate of 66.7%"),
        (["--fail-under", "exact_match=0.6", "--strict"], 1, "95% confidence interval starts at 20.8%"),
    ],
)
def test_a_gate_that_is_not_met_is_named_and_exits_with_1(gates: list[str], code: int, line: str) -> None:
    result = run_eval("-e", "exact_match", *gates)

    assert result.return_value == code
    assert line in result.stderr


GAPS = "question,expected\nhi,HI\nho,\nhm,HM\nboom,x\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--fail-under", "0.5"], 1),
        (["--fail-under", "loud=0.5"], 0),
        (["--fail-under", "0.5", "--allow-unscored", "20%"], 1),
        (["--fail-under", "0.5", "--allow-unscored", "25%"], 0),
        (["--fail-under", "0.5", "--allow-unscored", "exact_match=25%"], 0),
        (["--max-regressions", "0", "--variant", "a:{}", "--variant", "b:{}"], 1),
        (["--fail-on", "worse", "--variant", "a:{}", "--variant", "b:{}", "--allow-unscored", "25%"], 0),
    ],
)
def test_a_gate_fails_if_rows_are_not_scored_unless_that_is_allowed(
    folder: Path, options: list[str], code: int
) -> None:
    (folder / "gaps.csv").write_text(GAPS, encoding="utf-8")
    result = run_eval("-e", "exact_match", "-e", "loud", *options, testset="gaps.csv")

    unscored = "did not score 1 of 4 answers for "
    assert (result.return_value, unscored in result.stderr) == (code, code == 1)
    assert "exact_match: 1 of 4 answers not scored, most often: the row has no expected answer\n" in result.stdout


def test_scored_answers_unscored_answers_and_failed_calls_are_counted(folder: Path) -> None:
    (folder / "gaps.csv").write_text(GAPS, encoding="utf-8")
    [variant] = eval_report("-e", "exact_match", testset="gaps.csv")["variants"]
    lines = run_eval("-e", "exact_match", testset="gaps.csv").stdout.splitlines()

    counts = [(one["scored"], one["unscored"], one["unscored_reason"]) for one in variant["evaluators"]]
    assert (variant["failed"], counts) == (1, [(2, 1, "the row has no expected answer")])
    assert lines[0].endswith("  scored  not scored  failed calls  flaky")
    assert lines[1].split()[-4:] == ["2", "1", "1", "-"]


@pytest.mark.usefixtures("folder")
def test_an_evaluator_that_raises_is_shown_with_its_exception_and_exits_with_2() -> None:
    alone = run_eval("-e", "broken")
    with_gates = run_eval("-e", "broken", "--fail-under", "exact_match=1", "-e", "exact_match")
    allowed = run_eval("-e", "broken", "--allow-unscored", "100%")
    report = eval_report("-e", "broken")

    line = "error: Evaluator 'broken' failed for 2 of 3 answers of 'tutor': KeyError: "
    assert [result.return_value for result in (alone, with_gates, allowed)] == [2, 2, 2]
    assert [line in result.stderr for result in (alone, with_gates, allowed)] == [True, True, True]
    assert "tutor, broken: 2 of 3 answers not scored, most often: KeyError: " in alone.stdout
    assert report["passed"] is False
    assert line.removeprefix("error: ") in report["evaluator_failures"][0]


def test_rows_that_passed_before_and_fail_now_are_regressions(folder: Path) -> None:
    options = ("-e", "exact_match", "--db", "runs.db", "--compare", "last", "--max-regressions", "0")
    first = run_eval(*options)
    second = run_eval(*options)
    (folder / "questions.csv").write_text(QUESTIONS + "new,row\n", encoding="utf-8")
    worse = run_eval(*options, "--variant", 'tutor:{"style": "short"}')

    assert (first.return_value, second.return_value, worse.return_value) == (0, 0, 1)
    assert "warning: No previous evaluation of this test set; nothing to compare." in first.stderr
    assert "exact_match  same" in second.stdout
    assert "FAILED --max-regressions 0: 2 rows regressed in exact_match for " in worse.stderr


@pytest.mark.usefixtures("folder")
def test_an_earlier_evaluation_is_compared_by_its_id() -> None:
    before = eval_report("-e", "exact_match", "--db", "runs.db")["evaluation"]
    numbers = eval_report("-e", "exact_match", "--db", "runs.db", "--compare", before)

    assert [one["base"] for one in numbers["comparisons"]] == [f"{before}:tutor"]


# Files


@pytest.mark.usefixtures("folder")
def test_results_are_written_to_files() -> None:
    files = {form: f"out.{form}" for form in ("junit", "markdown", "html", "csv", "jsonl")}
    run_eval("-e", "exact_match", *(argument for form, name in files.items() for argument in (f"--{form}", name)))

    heads = {form: Path(name).read_text(encoding="utf-8")[:9] for form, name in files.items()}
    assert heads["junit"] == "<?xml ver"
    assert heads["markdown"] == "## ✅ ques"
    assert heads["html"] == "<!doctype"
    assert heads["csv"] == "row,varia"
    assert len(Path(files["csv"]).read_text(encoding="utf-8").splitlines()) == 4


# Errors


def test_a_failed_call_counts_as_not_passed_and_is_reported(folder: Path) -> None:
    (folder / "questions.csv").write_text("messages,expected\nhi,HI\nboom,x\n", encoding="utf-8")
    result = run_eval("-e", "exact_match")

    assert result.return_value == 0
    assert "tutor: 1 of 2 calls failed (scored as failed)." in result.stdout
    assert "ValueError: out of ideas" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_evaluation_without_any_answer_exits_with_1(folder: Path) -> None:
    (folder / "questions.csv").write_text("messages,expected\nboom,x\n", encoding="utf-8")
    result = run_eval("-e", "exact_match")

    assert result.return_value == 1
    assert "error: The evaluation failed: All cells failed" in result.stderr


def test_exceeding_max_errors_fails_the_evaluation(folder: Path) -> None:
    (folder / "questions.csv").write_text("messages,expected\nhi,HI\nboom,x\nwait,x\n", encoding="utf-8")
    result = run_eval("-e", "exact_match", "--max-errors", "0", "--concurrency", "1", "--db", "runs.db")

    evaluation = load_evaluation("runs.db")
    assert (evaluation.state, evaluation.done, evaluation.failed, evaluation.total) == ("failed", 1, 1, 3)
    assert result.return_value == 1
    assert "error: The evaluation failed: 1 cell failed, exceeding max_errors 0" in result.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "exit_code", "expected_error"),
    [
        (["app.py", "questions.csv", "-e", "gone"], 2, "'gone'"),
        (["app.py", "questions.csv", "-e", 'regex:{"pattern": "("}'], 2, "error: "),
        (["app.py", "gone.csv", "-e", "exact_match"], 1, "error: Cannot read gone.csv: no such file or directory."),
        (["app.py", "gone", "-e", "exact_match"], 1, "error: Test set 'gone' not found."),
        (["gone.py", "questions.csv", "-e", "exact_match"], 1, "'gone.py' not found."),
        (["app.py", "questions.csv", "-e", "exact_match", "--compare", "ev_0"], 1, "'ev_0' not found."),
        (["app.py", "questions.csv", "-e", "exact_match", "--map", "messages=x"], 2, " Use --map FIELD=COLUMN."),
        (["app.py", "questions.csv", "-e", "exact_match", "--variant", 'a:{"x": 1}'], 2, "'x'"),
        (["app.py", "questions.csv", "-e", "exact_match", "--variant", "a:gone.json"], 1, "Cannot read gone.json"),
        (["app.py", "questions.csv", "-e", "exact_match", "--variant", "short:3"], 1, "'short:3'"),
        (["app.py", "questions.csv", "-e", "exact_match", "--fail-under", "gone=0.9"], 2, "'gone'"),
        (["app.py", "questions.csv", "-e", "exact_match", "--fail-under", "x=2"], 2, "--fail-under 'x=2'"),
        (["app.py", "questions.csv", "-e", "exact_match", "--allow-unscored", "0.1"], 2, "use a percentage such as 5%"),
        (["app.py", "questions.csv", "-e", "exact_match", "--allow-unscored", "gone=1%"], 2, "'gone'"),
    ],
)
def test_an_evaluation_that_cannot_run_is_reported_with_its_exit_code(
    arguments: list[str], exit_code: int, expected_error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["eval", *arguments])

    stderr = capsys.readouterr().err
    assert (exit_info.value.code, stderr.startswith("error: "), expected_error in stderr) == (exit_code, True, True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["app.py"],
        ["app.py", "questions.csv"],
        ["app.py", "questions.csv", "-e", "{"],
        ["app.py", "questions.csv", "-e", "regex:{x}"],
        ["app.py", "questions.csv", "-e", "exact_match", "--map", "x"],
        ["app.py", "questions.csv", "-e", "exact_match", "--max-regressions", "0"],
        ["app.py", "questions.csv", "-e", "exact_match", "--repeats", "101"],
    ],
)
def test_malformed_arguments_are_a_usage_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["eval", *arguments], standalone_mode=False)

    assert isinstance(result.exception, click.UsageError)


def test_ctrl_c_cancels_the_evaluation_and_keeps_finished_results(folder: Path) -> None:
    (folder / "questions.csv").write_text("messages,expected\nhi,HI\nwait,x\n", encoding="utf-8")
    line = ["eval", "app.py", "questions.csv", "-e", "exact_match", "--db", "runs.db", "--concurrency", "1"]
    running = subprocess.Popen(
        [sys.executable, "-m", "palaver.cli", *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 30
    while not (folder / "begun").exists():
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, stderr_text = running.communicate(timeout=30)

    evaluation = load_evaluation("runs.db")
    assert running.returncode == 130, stderr_text
    assert (evaluation.state, evaluation.done, evaluation.total) == ("cancelled", 1, 2)
    assert "The evaluation was cancelled" in stderr_text


# Listing


@pytest.mark.usefixtures("folder")
def test_evaluators_are_listed_with_those_of_the_target() -> None:
    result = CliRunner().invoke(cli, ["eval", "app.py", "--evaluators"], standalone_mode=False)
    keys = {line.split()[0]: line for line in result.stdout.splitlines()}

    assert result.return_value == 0
    assert keys["exact_match"].endswith("requires expected")
    assert "loud" in keys
