"""palaver thread, as a person runs it."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.thread import command
from palaver.core.messages import Message
from palaver.errors import InvalidValue, ItemNotFound, TargetNotFound, ThreadNotFound
from palaver.storage.database import open_database
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from tests.storage.thread_factory import NOW, SECOND, assistant, user


def run(place: Path, *arguments: str, given: bytes | None = None) -> Result:
    """The command in this process; an error is raised, not printed."""
    asked = [*arguments, "--db", str(place / "palaver.db")]
    result = CliRunner().invoke(command, asked, standalone_mode=False, input=given)
    if result.exception is not None:
        raise result.exception
    return result


async def _fill(place: Path, *made: tuple[NewThread, list[Message]]) -> None:
    database = open_database(str(place / "palaver.db"))
    for thread, messages in made:
        await database.write(threads.create_thread, "default", thread, messages)
    await database.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a database of two threads."""
    sky = NewThread(id="conv_sky", at=NOW, workflow="tutor")
    sea = NewThread(id="conv_sea", at=NOW + SECOND, origin="api", title="The \x1b[31msea\u202e")
    said = [user("Why is the sky blue?", "u1"), assistant("Because \x1b[2J.", "a1")]
    asyncio.run(_fill(tmp_path, (sky, said), (sea, [])))
    return tmp_path


def test_threads_are_listed_the_latest_first(place: Path) -> None:
    assert run(place, "list").output.splitlines() == [
        "conv_sea  2026-11-15 12:30      0  -               The \\x1b[31msea\\u202e",
        "conv_sky  2026-11-15 12:30      2  tutor           Why is the sky blue?",
    ]
    assert run(place, "list", "--search", "because").output.splitlines() == [
        "conv_sky  2026-11-15 12:30      2  tutor           Because [2J."
    ]
    assert run(place, "list", "--project", "team-a").output == "No threads.\n"
    assert "\u202e" not in run(place, "list", "--json").output
    listed: list[dict[str, Any]] = msgspec.json.decode(run(place, "list", "--origin", "api", "--json").output)
    assert [(row["id"], row["title"]) for row in listed] == [("conv_sea", "The \x1b[31msea\u202e")]


def test_a_branch_is_shown_and_cannot_steer_the_terminal(place: Path) -> None:
    shown = run(place, "show", "conv_sky").output

    assert shown.splitlines() == [
        "Why is the sky blue?",
        "",
        "user",
        "  Why is the sky blue?",
        "assistant",
        "  Because \\x1b[2J.",
    ]
    first = msgspec.json.decode(run(place, "show", "conv_sky", "--at", "u1", "--json").output)
    assert (first["thread"]["id"], [node["id"] for node in first["messages"]]) == ("conv_sky", ["u1"])
    with pytest.raises(ItemNotFound):
        run(place, "show", "conv_sky", "--at", "nobody")
    with pytest.raises(ThreadNotFound):
        run(place, "show", "conv_sky", "--project", "team-a")


def test_threads_are_saved_and_taken_back_equal(place: Path, tmp_path: Path) -> None:
    saved = run(place, "export").stdout_bytes
    other = tmp_path / "other"

    taken = run(other, "import", "-", given=saved)
    again = run(other, "import", "-", "--json", given=saved)

    assert taken.output == "2 made, 0 there already.\n"
    assert msgspec.json.decode(again.output) == {"created": 0, "unchanged": 2, "threads": []}
    assert run(other, "export").stdout_bytes == saved
    assert b"\x1b" not in saved
    assert b"\xe2\x80\xae" not in saved
    assert len(run(place, "export", "conv_sky").stdout_bytes.splitlines()) == 1
    assert len(run(place, "export", "--workflow", "tutor").stdout_bytes.splitlines()) == 1


def test_a_thread_is_saved_as_what_its_name_says(place: Path) -> None:
    page, lines, cases = place / "sky.html", place / "sky.jsonl", place / "cases.jsonl"
    run(place, "export", "conv_sky", "-o", str(page))
    run(place, "export", "conv_sky", "-o", str(lines))
    run(place, "export", "--format", "messages", "-o", str(cases))

    assert page.read_text().startswith("<!doctype html>")
    assert run(place, "export", "conv_sky", "--format", "html").stdout_bytes == page.read_bytes()
    assert msgspec.json.decode(lines.read_bytes())["id"] == "conv_sky"
    (case,) = cases.read_text().splitlines()
    assert [message["role"] for message in msgspec.json.decode(case)["messages"]] == ["user", "assistant"]
    assert run(place, "import", str(lines)).output == "0 made, 1 there already.\n"
    with pytest.raises(click.UsageError):
        run(place, "export", "--format", "html")
    with pytest.raises(TargetNotFound):
        run(place, "export", "conv_sky", "-o", str(place / "nowhere" / "x.jsonl"))


def test_a_file_with_a_fault_makes_nothing(place: Path, tmp_path: Path) -> None:
    good = run(place, "export", "conv_sky").stdout_bytes
    other = tmp_path / "other"

    with pytest.raises(InvalidValue, match="Line 2: "):
        run(other, "import", "-", given=good + b'{"palaver": "thread/9"}\n')
    with pytest.raises(InvalidValue, match="Line 2: it is not JSON"):
        run(other, "import", "-", given=good + b"{\n")
    assert run(other, "list").output == "No threads.\n"


def test_an_id_that_is_taken_is_replaced(place: Path) -> None:
    saved = run(place, "export", "conv_sky").stdout_bytes.replace(b'"u1"', b'"x1"')

    made = msgspec.json.decode(run(place, "import", "-", "--json", given=saved).output)

    assert made["created"] == 1
    assert made["threads"][0].startswith("conv_")
    assert made["threads"] != ["conv_sky"]
