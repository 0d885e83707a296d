"""`palaver testset`: import and export files, and compare revisions."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.main import cli
from palaver.errors import InvalidValue, NameTaken, NotFound, TargetNotFound

CSV = 'q,messages,expected\r\n007,"[{""role"":""user"",""content"":""hi""}]",42\r\n"""42""",,\r\n'


def run(tmp_path: Path, *arguments: str, stdin: bytes | None = None) -> Result:
    argv = [*arguments, "--db", str(tmp_path / "palaver.db")]
    result = CliRunner().invoke(cli, ["testset", *argv], standalone_mode=False, input=stdin)
    if result.exception is not None:
        raise result.exception
    return result


def decode_output(result: Result) -> Any:
    return msgspec.json.decode(result.stdout)


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A file with two rows, imported as a test set."""
    file = tmp_path / "cases.csv"
    file.write_bytes(CSV.encode())
    run(tmp_path, "import", str(file), "--message", "the first")
    return file


def test_an_imported_file_becomes_a_testset_of_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    file.write_bytes(CSV.encode())

    result = run(tmp_path, "import", str(file))

    assert result.stdout == "cases: revision 1, 2 rows (2 added).\n"
    assert run(tmp_path, "list").stdout.split()[:5] == ["cases", "2", "rows", "revision", "1"]


def test_importing_into_an_existing_testset_requires_a_mode(tmp_path: Path, cases: Path) -> None:
    with pytest.raises(NameTaken, match="Pass --mode append, replace or upsert"):
        run(tmp_path, "import", str(cases))

    appended = run(tmp_path, "import", str(cases), "--mode", "append", "--json")
    created = run(tmp_path, "import", str(cases), "--mode", "replace", "--name", "other")

    assert decode_output(appended)["report"] == {
        "rows": 2,
        "added": 2,
        "changed": 0,
        "unchanged": 0,
        "removed": 0,
        "wrapped": 0,
    }
    assert (decode_output(appended)["revision"], decode_output(appended)["rows"]) == (2, 4)
    assert created.stdout == "other: revision 1, 2 rows (2 added).\n"


def test_importing_standard_input_requires_a_format(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="--format is required"):
        run(tmp_path, "import", "-", "--name", "piped")

    result = run(tmp_path, "import", "-", "--name", "piped", "--format", "jsonl", stdin=b'{"q":1}\n[2]\n')

    assert result.stdout == "piped: revision 1, 2 rows (2 added).\n"
    assert result.stderr == (
        "note: 1 value that is not an object was imported into the column 'value' (or 'messages').\n"
    )


def test_a_failed_import_stores_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_bytes(b'{"q":1}\n' * 1_500 + b"{broken\n")

    with pytest.raises(InvalidValue, match="Line 1501"):
        run(tmp_path, "import", str(file))
    with pytest.raises(TargetNotFound, match="Cannot read"):
        run(tmp_path, "import", str(tmp_path / "none.jsonl"))
    with pytest.raises(click.UsageError, match="CSV UTF-8"):
        run(tmp_path, "import", str(tmp_path / "none.xlsx"))

    with closing(sqlite3.connect(tmp_path / "palaver.db")) as connection:
        assert connection.execute("SELECT count(*) FROM testset_contents").fetchall() == [(0,)]
    assert run(tmp_path, "list").stdout == "No test sets.\n"


def test_export_restores_the_imported_file(tmp_path: Path, cases: Path) -> None:
    target = tmp_path / "back.csv"

    saved = run(tmp_path, "export", "cases", "-o", str(target))
    printed = run(tmp_path, "export", "cases")

    assert target.read_bytes().decode() == CSV
    assert saved.stderr == f"{target}: 2 rows.\n"
    assert printed.stdout == '{"q":"007","messages":[{"role":"user","content":"hi"}],"expected":42}\n{"q":"42"}\n'


def test_a_testset_is_shown_with_its_columns_and_rows(tmp_path: Path, cases: Path) -> None:
    lines = run(tmp_path, "show", "cases").stdout.splitlines()
    document = decode_output(run(tmp_path, "show", "cases", "--json", "--rows", "1"))

    assert lines[0].startswith("cases  2 rows  revision 1  b2:")
    assert lines[1:4] == ["  q: text, in 2 rows", "  messages: chat, in 1 row", "  expected: number, in 1 row"]
    assert lines[4].endswith("  the first")
    assert lines[6].endswith('  q="42"')
    assert [row["data"]["q"] for row in document["rows"]] == ["007"]
    assert decode_output(run(tmp_path, "show", document["id"], "--json"))["name"] == "cases"
    with pytest.raises(NotFound, match="palaver testset list"):
        run(tmp_path, "show", "nobody")


def test_two_revisions_are_compared(tmp_path: Path, cases: Path) -> None:
    cases.write_bytes(CSV.replace("42", "43").encode() + b"new,,\r\n")
    run(tmp_path, "import", str(cases), "--mode", "replace")

    lines = run(tmp_path, "diff", "cases", "1", "2").stdout.splitlines()
    document = decode_output(run(tmp_path, "diff", "cases", "1", "--json"))

    assert lines[-1] == "3 added, 2 removed."
    assert document["counts"] == {"added": 3, "removed": 2, "changed": 0, "moved": 0}
    assert run(tmp_path, "diff", "cases", "1", "1").stdout == "The rows are identical.\n"


def test_diff_shows_changed_cells(tmp_path: Path) -> None:
    file = tmp_path / "keyed.jsonl"
    file.write_bytes(b'{"k":"a","n":1}\n{"k":"b"}\n')
    run(tmp_path, "import", str(file))
    file.write_bytes(b'{"k":"a","n":null}\n')
    run(tmp_path, "import", str(file), "--mode", "upsert", "--key", "k")

    lines = run(tmp_path, "diff", "keyed", "1", "2").stdout.splitlines()

    assert lines[0].startswith("~ row_")
    assert lines[1:] == ["    n: 1 -> null", "1 changed."]
