"""`palaver key`: create, list and revoke keys, and its error messages."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.main import cli
from palaver.core import api_keys
from palaver.errors import PalaverError
from tests.cli.test_commands import palaver


def run(tmp_path: Path, *arguments: str) -> Result:
    """Run the command in this process; an error is raised, not printed."""
    result = CliRunner().invoke(cli, ["key", *arguments, "--db", str(tmp_path / "palaver.db")], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def list_keys(tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    return msgspec.json.decode(run(tmp_path, "list", "--json", *arguments).stdout)


def test_a_new_key_is_printed_alone_and_only_its_hash_is_stored(tmp_path: Path) -> None:
    created = palaver("key", "create", "--name", "laptop", "--db", "palaver.db", cwd=tmp_path)
    key = api_keys.parse_key(created.stdout.removesuffix("\n"))

    assert key is not None
    database = tmp_path / "palaver.db"
    assert (created.returncode, created.stderr.splitlines()) == (
        0,
        [
            f"Created key_{key.id} (invoke, read) in {database}.",
            "warning: This is the first key. Servers that use this database now reject requests without a key.",
            f"hint: To manage the server in the web interface, run `palaver key create --scope admin --db {database}`.",
        ],
    )
    assert not any(key.secret.encode() in path.read_bytes() for path in tmp_path.iterdir())
    with sqlite3.connect(tmp_path / "palaver.db") as file:
        assert file.execute("SELECT id, hash FROM keys").fetchall() == [(key.id, api_keys.hash_secret(key.secret))]
        assert file.execute("SELECT name FROM projects").fetchall() == [("default",)]
    file.close()


def test_a_key_is_created_with_the_given_options(tmp_path: Path) -> None:
    options = "--scope invoke --scope read --project team-a --expires 90d --name nightly --json".split()
    created = msgspec.json.decode(run(tmp_path, "create", *options).stdout)
    secret = api_keys.parse_key(created.pop("secret"))

    assert secret is not None
    assert list_keys(tmp_path) == [created]
    made_at = datetime.fromisoformat(created["created_at"])
    assert abs(datetime.now(UTC) - made_at) < timedelta(minutes=1)
    assert datetime.fromisoformat(created["expires_at"]) == made_at + timedelta(days=90)
    assert created == {
        "project": "team-a",
        "id": f"key_{secret.id}",
        "name": "nightly",
        "scopes": ["invoke", "read"],
        "created_at": created["created_at"],
        "expires_at": created["expires_at"],
        "last_used_at": None,
        "revoked_at": None,
        "made_by": None,
    }


def test_only_the_first_key_closes_a_server(tmp_path: Path) -> None:
    first, second = run(tmp_path, "create", "--scope", "admin"), run(tmp_path, "create")

    assert [line.partition(":")[0].partition(" ")[0] for line in first.stderr.splitlines()] == ["Created", "warning"]
    assert [line.partition(" ")[0] for line in second.stderr.splitlines()] == ["Created"]


def test_a_key_without_options_may_invoke_and_read_and_never_expires(tmp_path: Path) -> None:
    run(tmp_path, "create")

    (created,) = list_keys(tmp_path)
    assert {name: created[name] for name in ("project", "name", "scopes", "expires_at")} == {
        "project": "default",
        "name": "unnamed",
        "scopes": ["invoke", "read"],
        "expires_at": None,
    }


def test_the_list_shows_scopes_state_and_last_use_of_each_key(tmp_path: Path) -> None:
    assert run(tmp_path, "list").stdout == "No keys.\n"
    first = api_keys.parse_key(run(tmp_path, "create", "--scope", "admin", "--name", "mine").stdout.strip())
    second = api_keys.parse_key(
        run(tmp_path, "create", "--project", "team-a", "--expires", "2099-12-30").stdout.strip()
    )
    assert first is not None
    assert second is not None
    with sqlite3.connect(tmp_path / "palaver.db") as file:
        file.execute("UPDATE keys SET expires_at = 0, last_used_at = 0 WHERE id = ?", [first.id])
    file.close()

    assert run(tmp_path, "list").stdout.splitlines() == [
        "id            project  scopes       state                          last used   name",
        f"key_{first.id}  default  admin        expired 1970-01-01 00:00       1970-01-01  mine",
        f"key_{second.id}  team-a   invoke,read  active until 2099-12-31 00:00  never       unnamed",
    ]
    assert [row["id"] for row in list_keys(tmp_path, "--project", "team-a")] == [f"key_{second.id}"]


@pytest.mark.parametrize("form", ["by id", "whole"])
def test_a_key_is_revoked_by_its_id_or_by_the_full_key(tmp_path: Path, form: str) -> None:
    secret = run(tmp_path, "create", "--name", "lost").stdout.strip()
    run(tmp_path, "create", "--name", "kept")
    key = api_keys.parse_key(secret)
    assert key is not None

    revoked_run = run(tmp_path, "revoke", secret if form == "whole" else f"key_{key.id}")

    assert revoked_run.stdout == f"Revoked key_{key.id} (lost) in project default.\n"
    assert [(row["name"], row["revoked_at"] is not None) for row in list_keys(tmp_path)] == [
        ("lost", True),
        ("kept", False),
    ]
    revoked = msgspec.json.decode(run(tmp_path, "revoke", f"key_{key.id}", "--json").stdout)
    assert revoked == list_keys(tmp_path)[0]
    assert f"revoked {revoked['revoked_at'][:10]}" in run(tmp_path, "list").stdout


@pytest.mark.parametrize(
    ("key", "shown_key"),
    [
        ("key_00000000", "'key_00000000'"),
        ("nothing", "'nothing'"),
        ("plv_00000000_" + "0" * 40, "'key_00000000'"),  # A secret is not repeated.
    ],
)
def test_an_unknown_key_cannot_be_revoked(tmp_path: Path, key: str, shown_key: str) -> None:
    with pytest.raises(PalaverError) as raised:
        run(tmp_path, "revoke", key)

    assert raised.value.message == f"API key {shown_key} not found. See `palaver key list`."


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--expires", "3w"], "Invalid expiry '3w': use 90d, 12h or 2026-12-31."),
        (["--expires", ""], "Invalid expiry '': use 90d, 12h or 2026-12-31."),
        (["--expires", "2001-01-01"], "Invalid expiry '2001-01-01': must be in the future."),
        (["--scope", "root"], "Unknown scope 'root'. Available: invoke, read, admin."),
        (["--name", ""], "The name of an API key must be 1 to 100 printable characters."),
        (
            ["--project", "Team A"],
            "Invalid project name 'Team A': use at most 32 characters (a-z, 0-9 and '-'), not starting with '-'.",
        ),
    ],
)
def test_invalid_options_are_an_error_with_exit_code_2(tmp_path: Path, arguments: list[str], line: str) -> None:
    create_run = palaver("key", "create", *arguments, "--db", "palaver.db", cwd=tmp_path)

    assert (create_run.returncode, create_run.stdout, create_run.stderr) == (
        2,
        "",
        f"error: {line}\nTry 'palaver key create --help'.\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["create", "list", "revoke"])
def test_the_help_of_each_command_has_an_example(tmp_path: Path, name: str) -> None:
    help_run = palaver("key", name, "--help", cwd=tmp_path)

    assert f"  palaver key {name}" in help_run.stdout.partition("Example")[2]
