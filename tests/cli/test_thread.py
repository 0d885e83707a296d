"""`palaver thread`: list, show, export and import threads."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.main import cli
from palaver.core.messages import Message
from palaver.errors import InvalidValue, ItemNotFound, TargetNotFound, ThreadNotFound
from palaver.storage.database import open_database
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from tests.storage.thread_factory import NOW, SECOND, assistant, user


def run(folder: Path, *arguments: str, stdin: bytes | None = None) -> Result:
    """Run the command in this process; an error is raised, not printed."""
    argv = [*arguments, "--db", str(folder / "palaver.db")]
    result = CliRunner().invoke(cli, ["thread", *argv], standalone_mode=False, input=stdin)
    if result.exception is not None:
        raise result.exception
    return result


async def _fill(folder: Path, *conversations: tuple[NewThread, list[Message]]) -> None:
    database = open_database(str(folder / "palaver.db"))
    for thread, messages in conversations:
        await database.write(threads.create_thread, "default", thread, messages)
    await database.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a database of two threads."""
    sky = NewThread(id="conv_sky", at=NOW, workflow="tutor")
    sea = NewThread(id="conv_sea", at=NOW + SECOND, origin="api", title="The \x1b[31msea\u202e")
    messages_ = [user("Why is the sky blue?", "u1"), assistant("Because \x1b[2J.", "a1")]
    asyncio.run(_fill(tmp_path, (sky, messages_), (sea, [])))
    return tmp_path


def test_threads_are_listed_the_latest_first(folder: Path) -> None:
    assert run(folder, "list").output.splitlines() == [
        "conv_sea  2026-11-15 12:30      0  -               The \\x1b[31msea\\u202e",
        "conv_sky  2026-11-15 12:30      2  tutor           Why is the sky blue?",
    ]
    assert run(folder, "list", "--search", "because").output.splitlines() == [
        "conv_sky  2026-11-15 12:30      2  tutor           Because [2J."
    ]
    assert run(folder, "list", "--project", "team-a").output == "No threads.\n"
    assert "\u202e" not in run(folder, "list", "--json").output
    rows: list[dict[str, Any]] = msgspec.json.decode(run(folder, "list", "--origin", "api", "--json").output)
    assert [(row["id"], row["title"]) for row in rows] == [("conv_sea", "The \x1b[31msea\u202e")]


def test_a_branch_is_shown_without_terminal_escapes(folder: Path) -> None:
    printed = run(folder, "show", "conv_sky").output

    assert printed.splitlines() == [
        "Why is the sky blue?",
        "",
        "user",
        "  Why is the sky blue?",
        "assistant",
        "  Because \\x1b[2J.",
    ]
    first = msgspec.json.decode(run(folder, "show", "conv_sky", "--at", "u1", "--json").output)
    assert (first["thread"]["id"], [node["id"] for node in first["messages"]]) == ("conv_sky", ["u1"])
    with pytest.raises(ItemNotFound):
        run(folder, "show", "conv_sky", "--at", "nobody")
    with pytest.raises(ThreadNotFound):
        run(folder, "show", "conv_sky", "--project", "team-a")


def test_exported_threads_are_imported_unchanged(folder: Path, tmp_path: Path) -> None:
    saved = run(folder, "export").stdout_bytes
    other_folder = tmp_path / "other"

    first_import = run(other_folder, "import", "-", stdin=saved)
    second_import = run(other_folder, "import", "-", "--json", stdin=saved)

    assert first_import.output == "2 threads imported, 0 unchanged.\n"
    assert msgspec.json.decode(second_import.output) == {"created": 0, "unchanged": 2, "threads": []}
    assert run(other_folder, "export").stdout_bytes == saved
    assert b"\x1b" not in saved
    assert b"\xe2\x80\xae" not in saved
    assert len(run(folder, "export", "conv_sky").stdout_bytes.splitlines()) == 1
    assert len(run(folder, "export", "--workflow", "tutor").stdout_bytes.splitlines()) == 1


def test_the_export_format_follows_the_file_extension(folder: Path) -> None:
    page, lines, cases = folder / "sky.html", folder / "sky.jsonl", folder / "cases.jsonl"
    run(folder, "export", "conv_sky", "-o", str(page))
    run(folder, "export", "conv_sky", "-o", str(lines))
    run(folder, "export", "--format", "messages", "-o", str(cases))

    assert page.read_text().startswith("<!doctype html>")
    assert run(folder, "export", "conv_sky", "--format", "html").stdout_bytes == page.read_bytes()
    assert msgspec.json.decode(lines.read_bytes())["id"] == "conv_sky"
    (case,) = cases.read_text().splitlines()
    assert [message["role"] for message in msgspec.json.decode(case)["messages"]] == ["user", "assistant"]
    assert run(folder, "import", str(lines)).output == "0 threads imported, 1 unchanged.\n"
    with pytest.raises(click.UsageError):
        run(folder, "export", "--format", "html")
    with pytest.raises(TargetNotFound):
        run(folder, "export", "conv_sky", "-o", str(folder / "nowhere" / "x.jsonl"))


def test_importing_an_invalid_file_creates_nothing(folder: Path, tmp_path: Path) -> None:
    good = run(folder, "export", "conv_sky").stdout_bytes
    other_folder = tmp_path / "other"

    with pytest.raises(InvalidValue, match="Line 2: "):
        run(other_folder, "import", "-", stdin=good + b'{"palaver": "thread/9"}\n')
    with pytest.raises(InvalidValue, match="Line 2: the value is not valid JSON"):
        run(other_folder, "import", "-", stdin=good + b"{\n")
    assert run(other_folder, "list").output == "No threads.\n"


def test_an_imported_thread_with_a_taken_id_gets_a_new_one(folder: Path) -> None:
    saved = run(folder, "export", "conv_sky").stdout_bytes.replace(b'"u1"', b'"x1"')

    report = msgspec.json.decode(run(folder, "import", "-", "--json", stdin=saved).output)

    assert report["created"] == 1
    assert report["threads"][0].startswith("conv_")
    assert report["threads"] != ["conv_sky"]
