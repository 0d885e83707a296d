"""palaver erase."""

import asyncio
from pathlib import Path

from click.testing import CliRunner

from palaver.cli.erase import command
from palaver.storage.database import open_database
from tests.storage.test_erasing import told


def test_a_user_is_counted_first_and_erased_when_told(tmp_path: Path) -> None:
    path = str(tmp_path / "palaver.db")

    async def fill() -> None:
        database = open_database(path)
        await told(database, "ada", stored=True)
        await database.close()

    asyncio.run(fill())
    run = CliRunner().invoke
    counted = run(command, ["--user", "ada", "--db", path])
    erased = run(command, ["--user", "ada", "--db", path, "--yes"])
    after = run(command, ["--user", "ada", "--db", path, "--json"])

    assert counted.output == (
        "Found: 0 threads, 1 runs, 1 responses, 0 files, 0 spans, 0 feedback. Nothing was erased: say --yes.\n"
    )
    assert erased.output == "Erased: 0 threads, 1 runs, 1 responses, 0 files, 0 spans, 0 feedback.\n"
    assert after.output == '{"threads":0,"runs":0,"responses":0,"files":0,"spans":0,"feedback":0,"running":0}\n'
