"""Errors of commands: their form on standard error, suggestions, and exit codes that are the same in every command."""

from collections.abc import Callable
from pathlib import Path

import pytest

from palaver.cli.main import main

Palaver = Callable[..., tuple[int, str, str]]


@pytest.fixture
def palaver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Palaver:
    """Run a command in a folder with a workflow and a test set; return its exit code, stdout and stderr."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("PALAVER_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("from palaver.testing import echo\n", encoding="utf-8")
    (tmp_path / "cases.csv").write_text("messages,expected\nhi,hi\n", encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_info:
            main(list(arguments))
        printed = capsys.readouterr()
        return int(exit_info.value.code or 0), printed.out, printed.err

    return run


@pytest.mark.parametrize(
    ("line", "message", "command"),
    [
        ("sever", "Unknown command 'sever'. Did you mean 'serve'?", "palaver"),
        ("dance", "Unknown command 'dance'.", "palaver"),
        ("trace tial", "Unknown command 'tial'. Did you mean 'tail'?", "palaver trace"),
        ("serve app.py --prot 1", "Unknown option '--prot'. Did you mean '--port'?", "palaver serve"),
        ("serve app.py --zebra", "Unknown option '--zebra'.", "palaver serve"),
        ("serve", "Missing argument 'TARGET...'.", "palaver serve"),
        ("serve app.py --port", "Option '--port' requires an argument.", "palaver serve"),
        ("key list extra", "Got unexpected extra argument (extra).", "palaver key list"),
        (
            "thread list --limit many",
            "Invalid value for '--limit': 'many' is not a valid integer range.",
            "palaver thread list",
        ),
        ("erase", "Pass either --user LABEL or --session LABEL.", "palaver erase"),
        ("thread export --format html", "--format html requires a THREAD.", "palaver thread export"),
    ],
)
def test_wrong_usage_is_an_error_with_a_pointer_to_the_help(
    palaver: Palaver, line: str, message: str, command: str
) -> None:
    assert palaver(*line.split()) == (2, "", f"error: {message}\nTry '{command} --help'.\n")


@pytest.mark.parametrize(
    "line",
    [
        "call app.py gone",
        "conform --file gone --protocol responses",
        "doctor --attack http://127.0.0.1:1 --key-file gone",
        "eval app.py cases.csv --agenta gone",
        "eval app.py gone.csv -e exact_match",
        "extract gone",
        "restore gone",
        "testset convert gone.csv out.csv",
        "testset import gone.csv",
        "thread import gone",
        "trace import gone",
        "variant import gone",
    ],
)
def test_a_missing_input_file_exits_with_1_in_every_command(palaver: Palaver, line: str) -> None:
    code, out, err = palaver(*line.split())

    assert (code, out, err.startswith("error: "), "gone" in err, err.count("\n")) == (1, "", True, True, 1)


@pytest.mark.parametrize(
    "line",
    [
        "backup .",
        "call app.py cases.json -o gone/out.json",
        "testset convert cases.csv gone/out.csv",
        "thread export -o gone/out.jsonl",
        "trace export -o gone/out.jsonl",
    ],
)
def test_an_output_file_that_cannot_be_written_exits_with_1(palaver: Palaver, tmp_path: Path, line: str) -> None:
    (tmp_path / "cases.json").write_text('{"inputs": {}}', encoding="utf-8")

    code, out, err = palaver(*line.split())

    assert (code, out, err.startswith("error: "), err.count("\n")) == (1, "", True, 1)


@pytest.mark.parametrize(
    "line",
    [
        "chat gone",
        "call gone cases.json",
        "eval gone cases.csv -e exact_match",
        "inspect gone",
        "serve app.py --default gone",
    ],
)
def test_an_unknown_workflow_exits_with_1_in_every_command(palaver: Palaver, tmp_path: Path, line: str) -> None:
    (tmp_path / "cases.json").write_text('{"inputs": {}}', encoding="utf-8")

    code, out, err = palaver(*line.split())

    assert (code, out, err.startswith("error: "), "'gone'" in err) == (1, "", True, True)


@pytest.mark.parametrize(
    "line",
    [
        "backup b.zip",
        "doctor",
        "erase --user ada",
        "eval app.py cases.csv -e exact_match",
        "key list",
        "migrate",
        "restore b.zip",
        "review list",
        "serve app.py",
        "testset list",
        "thread list",
        "trace export",
        "variant list",
        "worker app.py",
    ],
)
@pytest.mark.parametrize("url", ["mysql://root:secret@h/x", "postgresql://root:secret@h:port/x"])
def test_a_malformed_database_url_exits_with_2_in_every_command(palaver: Palaver, line: str, url: str) -> None:
    code, out, err = palaver(*line.split(), "--db", url)

    assert (code, out, err.startswith("error: Invalid value for '--db': "), "secret" in err) == (2, "", True, False)


@pytest.mark.parametrize(
    "line", ["trace export --from soon", "trace export --to soon", "key create --expires soon", "trace tail --filter x"]
)
def test_an_invalid_time_or_filter_exits_with_2(palaver: Palaver, line: str) -> None:
    code, out, err = palaver(*line.split())

    assert (code, out, err.startswith("error: "), "--help'." in err) == (2, "", True, True)


@pytest.mark.parametrize(
    "line",
    ["call eliza cases.json --url ftp://x", "chat eliza --url ftp://x", "conform ftp://x", "doctor --attack ftp://x"],
)
def test_a_malformed_url_exits_with_2_in_every_command(palaver: Palaver, tmp_path: Path, line: str) -> None:
    (tmp_path / "cases.json").write_text('{"inputs": {}}', encoding="utf-8")

    code, out, err = palaver(*line.split())

    assert (code, out, err.startswith("error: "), "must start with http" in err) == (2, "", True, True)
