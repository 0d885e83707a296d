"""`palaver erase`: a dry run, erasure, and rows that are only reported."""

import asyncio
from pathlib import Path

from click.testing import CliRunner

from palaver.cli.main import cli
from palaver.storage.database import open_database
from palaver.storage.testsets import rows as testset_rows
from tests.storage.test_erasure import record_run


def test_data_of_a_user_is_counted_and_erased_only_with_yes(tmp_path: Path) -> None:
    path = str(tmp_path / "palaver.db")

    async def fill() -> None:
        database = open_database(path)
        await record_run(database, "ada", stored=True)
        await database.close()

    asyncio.run(fill())
    run = CliRunner().invoke
    counted = run(cli, ["erase", "--user", "ada", "--db", path])
    erased = run(cli, ["erase", "--user", "ada", "--db", path, "--yes"])
    after = run(cli, ["erase", "--user", "ada", "--db", path, "--json"])

    assert counted.output == (
        "Found: 0 threads, 1 run, 1 response, 0 files, 0 spans, 0 feedback records."
        " Nothing was erased. Pass --yes to erase.\n"
    )
    assert erased.output == "Erased: 0 threads, 1 run, 1 response, 0 files, 0 spans, 0 feedback records.\n"
    assert (
        after.output == '{"threads":0,"runs":0,"responses":0,"files":0,"spans":0,"feedback":0,"running":0,"kept":[]}\n'
    )


def test_testset_rows_copied_from_a_session_are_listed_but_not_erased(tmp_path: Path) -> None:
    path = str(tmp_path / "palaver.db")
    row_meta = {"source": {"kind": "conversation", "id": "conv_1", "upto": None}}

    async def fill() -> None:
        database = open_database(path)
        await database.write(testset_rows.insert_metas, "default", "ts_1", {b"\0" * 15 + b"\1": row_meta})
        await database.close()

    asyncio.run(fill())
    run = CliRunner().invoke
    erased = run(cli, ["erase", "--session", "conv_1", "--db", path, "--yes"])
    after = run(cli, ["erase", "--session", "conv_1", "--db", path, "--json"])

    assert erased.output == (
        "Erased: 0 threads, 0 runs, 0 responses, 0 files, 0 spans, 0 feedback records.\n"
        "Copies kept in test sets (edit or purge them yourself):\n"
        "  ts_1  row_00000000000000000000000001\n"
    )
    assert after.output == (
        '{"threads":0,"runs":0,"responses":0,"files":0,"spans":0,"feedback":0,"running":0,'
        '"kept":[{"kind":"row","id":"row_00000000000000000000000001","testset":"ts_1"}]}\n'
    )
