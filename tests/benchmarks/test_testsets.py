"""The test set benchmark: the rows that it generates, and its baseline insert."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from benchmarks.parts import testsets


def test_rows_are_deterministic_unique_and_about_two_hundred_bytes_long(tmp_path: Path) -> None:
    testsets.write_rows(tmp_path / "rows.jsonl", 1_000)

    lines = (tmp_path / "rows.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line) for line in lines] == [testsets.make_row(number) for number in range(1_000)]
    assert len(set(lines)) == 1_000
    assert 190 < sum(map(len, lines)) / 1_000 < 210


def test_the_baseline_inserts_every_line_into_the_test_set_table(tmp_path: Path) -> None:
    testsets.write_rows(tmp_path / "rows.jsonl", testsets.BATCH_ROWS + 1)

    seconds = testsets.measure_inserts(tmp_path / "rows.jsonl", tmp_path / "bare.db")

    with closing(sqlite3.connect(tmp_path / "bare.db")) as db:
        stored = {data for (data,) in db.execute("SELECT data FROM testset_contents")}
    assert seconds > 0
    assert stored == set((tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True))
