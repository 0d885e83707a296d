"""`palaver review`: list reviews and export their answers as JSON lines."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Connection

from palaver.cli.main import cli
from palaver.errors import NotFound
from palaver.storage.database import open_database
from palaver.storage.evaluations import reviews
from palaver.storage.evaluations import reviews as review_items
from palaver.storage.evaluations.reviews import NewReviewItem, Review

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
REVIEW = Review(
    id="rv_1",
    name="Round 1",
    evaluation="ev_1",
    reviewers=2,
    blind=True,
    total=2,
    key=None,
    created_at=NOON,
    updated_at=NOON,
    questions=[{"key": "correct"}],
    source={"run": "ev_1"},
)


def run(path: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["review", *arguments, "--db", str(path)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a review in which Ann has corrected herself."""

    def make(db: Connection) -> None:
        reviews.create_review(db, "default", REVIEW, [NewReviewItem(cell=0, seq=1), NewReviewItem(cell=4, seq=2)])
        for correct in (True, False):
            locked = reviews.lock_review(db, "default", "rv_1")
            review_items.save_answer(db, "default", locked, 1, "Ann", {"correct": correct}, comment="So.", at=NOON)

    async def create() -> None:
        database = open_database(str(tmp_path / "palaver.db"))
        await database.write(make)
        await database.close()

    asyncio.run(create())
    return tmp_path / "palaver.db"


def test_reviews_are_listed(path: Path) -> None:
    assert run(path, "list").stdout == "rv_1  open         2 items       2 answers  Round 1\n"
    assert run(path, "list", "--evaluation", "ev_2").stdout == "No reviews.\n"
    assert run(path, "list", "--run", "ev_2").stdout == "No reviews.\n"
    [review] = msgspec.json.decode(run(path, "list", "--json").stdout)
    assert (review["id"], review["run"], review["answers"]) == ("rv_1", "ev_1", 2)


def test_answers_are_exported_one_per_line(path: Path, tmp_path: Path) -> None:
    lines = [msgspec.json.decode(line) for line in run(path, "export", "rv_1").stdout.splitlines()]
    export_run = run(path, "export", "rv_1", "-o", str(tmp_path / "said.jsonl"))

    common = {"review": "rv_1", "item": "item_1", "run": "ev_1", "result": "cell_4", "trace_id": None}
    common |= {"reviewer": "Ann", "comment": "So.", "created_at": "2026-11-16T12:00:00Z"}
    assert lines == [
        {**common, "answers": {"correct": True}, "counts": False},
        {**common, "answers": {"correct": False}, "counts": True},
    ]
    assert [msgspec.json.decode(line) for line in (tmp_path / "said.jsonl").read_bytes().splitlines()] == lines
    assert export_run.stderr == f"{tmp_path / 'said.jsonl'}: 2 answers.\n"


def test_an_unknown_review_is_an_error(path: Path) -> None:
    with pytest.raises(NotFound, match="Review 'rv_9' not found"):
        run(path, "export", "rv_9")
