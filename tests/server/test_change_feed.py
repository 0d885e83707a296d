"""Change notifications to pages: sent after the commit, throttled, the last one always, across processes."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from palaver.core.boards import BoardColumn, BoardRow, Cell, Grid
from palaver.core.messages import Message
from palaver.errors import Overloaded
from palaver.server import notifications as changing
from palaver.server.notifications import ChangeFeed
from palaver.storage import boards, variants
from palaver.storage.boards import Board
from palaver.storage.database import Database, LazyDatabase, open_database
from palaver.storage.evaluations import live_evaluators as online_cases
from palaver.storage.evaluations import live_evaluators as online_rules
from palaver.storage.evaluations import reviews
from palaver.storage.evaluations import reviews as review_items
from palaver.storage.evaluations.live_evaluators import ClaimedCase, LiveEvaluator
from palaver.storage.evaluations.reviews import NewReviewItem, Review
from palaver.storage.evaluations.tables import online_cases as cases_table
from palaver.storage.notifications import ALL_PROJECTS, ALL_REFS, Change, Notification, mark_changed
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread
from palaver.storage.variants import VariantDraft
from tests.storage.span_factory import insert_rows, span_row

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Quiet:
    """A database that says what it is told to say."""

    kind = "sqlite"

    def __init__(self, kind: str = "sqlite") -> None:
        self.kind = kind
        self.touched: Any = None
        self.told: list[tuple[str, list[str]]] = []
        self.fault: Exception | None = None

    async def watch(self, touched: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.touched = touched

    async def write(self, work: Any, kind: str, names: list[str]) -> None:
        if self.fault is not None:
            raise self.fault
        self.told.append((kind, names))


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - it is told from another thread, and has no event of its own
            await asyncio.sleep(0.005)


def made(kind: str = "sqlite") -> tuple[ChangeFeed, Quiet]:
    database = Quiet(kind)
    return ChangeFeed(database), database  # type: ignore[arg-type]


async def test_the_pages_of_a_project_are_told() -> None:
    changes, _ = made()
    told: dict[str, list[Change]] = {"one": [], "two": [], "other": []}
    with (
        changes.subscribe("default", told["one"].append),
        changes.subscribe("default", told["two"].append),
        changes.subscribe("other", told["other"].append),
    ):
        changes.publish(Change("default", "thread", "conv_1", "run_1"))
    changes.publish(Change("default", "thread", "conv_2"))

    assert told == {
        "one": [Change("default", "thread", "conv_1", "run_1")],
        "two": [Change("default", "thread", "conv_1", "run_1")],
        "other": [],
    }


async def test_what_all_projects_share_is_told_to_all() -> None:
    changes, _ = made()
    told: list[Change] = []
    with changes.subscribe("one", told.append), changes.subscribe("two", told.append):
        changes.publish(Change(ALL_PROJECTS, "workflow", "tutor"))

    assert told == [Change(ALL_PROJECTS, "workflow", "tutor")] * 2


async def test_what_changes_all_the_time_is_told_four_times_a_second_and_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changing, "REPEAT_INTERVAL_S", 0.05)
    changes, _ = made()
    told: list[str | None] = []
    loop = asyncio.get_running_loop()
    since = loop.time()
    with changes.subscribe("default", lambda change: told.append(change.run)):
        for number in range(200):
            changes.publish(Change("default", "thread", "conv_1", f"run_{number}"))
            await asyncio.sleep(0.001)
        changes.publish(Change("default", "thread", "conv_1", "run_last"))
        await until(lambda: told[-1] == "run_last")
        lasted = loop.time() - since
        await until(lambda: not changes._recent)

    assert told[0] == "run_0"
    assert told[-1] == "run_last"
    assert len(told) <= lasted / 0.05 + 2


async def test_of_very_many_runs_some_are_told_and_threads_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "REPEAT_INTERVAL_S", 0.05)
    changes, _ = made()
    told: list[Change] = []
    with changes.subscribe("default", told.append):
        changes.publish(*(Change("default", "run", f"run_{number}") for number in range(500)))
        changes.publish(*(Change("default", "thread", f"conv_{number}") for number in range(100)))
        await until(lambda: not changes._recent)
        changes.publish(Change("default", "run", "run_later"))

    kinds = [change.kind for change in told]
    assert (kinds.count("run"), kinds.count("thread")) == (33, 100)
    assert told[-1].ref == "run_later"


async def test_others_are_told_together_and_we_do_not_hear_ourselves() -> None:
    changes, database = made("postgresql")
    other, _ = made("postgresql")
    mine: list[Change] = []
    theirs: list[Change] = []
    with changes.subscribe("default", mine.append), other.subscribe("default", theirs.append):
        changes.publish(Change("default", "thread", "conv_1", "run_1"), Change("default", "run", "run_1"))
        changes.publish(Change("default", "board", "brd_1"))
        await changes.stop()
        (notice,) = [Notification("changed", names) for _, names in database.told]
        for one in (changes, other):
            one.on_notification(notice.names)
            one.on_notification(["", "a/b", "x/default/nothing/ref/", "x/default/thread/conv_1/run_1/more"])

    wanted = [Change("default", "thread", "conv_1", "run_1"), Change("default", "run", "run_1")]
    wanted.append(Change("default", "board", "brd_1"))
    assert mine == theirs == wanted


async def test_a_database_that_is_away_loses_notices_and_nothing_else() -> None:
    changes, database = made("postgresql")
    database.fault = Overloaded("away")
    with pytest.raises(Overloaded):
        await changes.start()
    changes.publish(Change("default", "run", "run_1"))
    await changes.stop()
    database.fault = None
    await changes.start()
    changes.publish(Change("default", "run", "run_2"))
    await changes.stop()

    assert [names[0].rpartition("run/")[2] for _, names in database.told] == ["run_2/"]
    assert database.touched is not None


SPANS = Change("default", "spans", ALL_REFS)


@pytest.mark.parametrize("change", [SPANS, Change("default", "rule", "rule_1")])
async def test_new_spans_and_what_rules_score_are_told_seldom_and_at_last(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "SLOW_REPEAT_INTERVAL_S", 0.1)
    changes, database = made("postgresql")
    told: list[float] = []
    loop = asyncio.get_running_loop()
    since = loop.time()
    with changes.subscribe("default", lambda _: told.append(loop.time())):
        for _ in range(200):
            changes.publish(change)
            await asyncio.sleep(0.001)
        changes.publish(change)
        last = loop.time()
        await until(lambda: not changes._recent and not changes._recently_sent)
        await changes.stop()
        lasted = loop.time() - since

    assert told[-1] >= last
    assert len(told) <= lasted / 0.1 + 2
    assert 2 <= len(database.told) <= lasted / 0.1 + 2
    assert {name.partition("/")[2] for _, names in database.told for name in names} == {"/".join((*change[:3], ""))}


async def test_whoever_leaves_tells_others_of_the_last_spans() -> None:
    changes, database = made("postgresql")
    other, _ = made("postgresql")
    changes.publish(SPANS)
    await changes.stop()
    changes.publish(SPANS)
    changes.publish(SPANS)
    assert len(database.told) == 1
    await changes.stop()
    heard: list[Change] = []
    with other.subscribe("default", heard.append):
        other.on_notification(database.told[1][1])

    assert len(database.told) == 2
    assert heard == [SPANS]


# What the database tells


@pytest.fixture
async def touched(database: Database) -> list[Change]:
    """What its writes changed."""
    heard: list[Change] = []
    await database.watch(heard.extend)
    return heard


async def settled(database: Database, touched: list[Change]) -> set[Change]:
    """All that was told by now."""
    mark = Change("default", "testset", "mark")

    def work(db: Connection) -> None:
        mark_changed(db, mark)

    await database.write(work)
    await until(lambda: mark in touched)
    told = set(touched) - {mark}
    touched.clear()
    return told


async def test_a_write_that_fails_tells_nothing(database: Database, touched: list[Change]) -> None:
    def work(db: Connection, fails: bool) -> None:
        mark_changed(db, Change("default", "thread", f"conv_{fails}"))
        if fails:
            raise ValueError

    results = await asyncio.gather(
        *(database.write(work, fails=number % 2 == 0) for number in range(6)), return_exceptions=True
    )

    assert [type(result) for result in results] == [ValueError, type(None)] * 3
    assert await settled(database, touched) == {Change("default", "thread", "conv_False")}


async def test_threads_boards_and_variants_tell(database: Database, touched: list[Change]) -> None:
    thread, board = Change("default", "thread", "conv_1"), Change("default", "board", "brd_1")
    said = [Message.user("a"), Message.assistant("b")]
    grid = Grid(columns=(BoardColumn(id="c", workflow="w"),), rows=(BoardRow(id="r"),))
    kept = Board(id="brd_1", grid=grid, created_at=AT, updated_at=AT)
    wanted = VariantDraft(workflow="w", name="v", parameters={})

    async def does(work: Any, *args: Any, **more: Any) -> set[Change]:
        await database.write(work, "default", *args, **more)
        return await settled(database, touched)

    assert await does(boards.create_board, kept) == {board}
    assert await does(threads.create_thread, NewThread(id="conv_1", at=AT, board="brd_1")) == {thread}
    assert await does(boards.fill_cells, "brd_1", [Cell(row="r", column="c", thread="conv_1")]) == {board}
    assert await does(threads.append_messages, "conv_1", None, said, origin="client", at=AT) == {thread}
    assert await does(threads.move_head, "conv_1", None) == {thread}
    assert await does(threads.claim_thread, "conv_1", "run_1") == {Change("default", "thread", "conv_1", "run_1")}
    assert await does(threads.claim_thread, "conv_1", "run_2") == set()
    assert await does(threads.release_thread, "conv_1", "run_2") == set()
    assert await does(threads.release_thread, "conv_1", "run_1") == {Change("default", "thread", "conv_1", "run_1")}
    assert await does(threads.delete_thread, "conv_1") == {thread, board}
    assert await does(boards.replace_board, "brd_1", grid, keep=None, at=AT, check=lambda _: None) == {board}
    assert await does(boards.delete_board, "brd_1", check=lambda _: None) == {board}
    variant = Change("default", "variant", "var_1")
    assert await does(variants.create_variant, wanted, id="var_1", at=AT) == {variant}
    assert await does(variants.commit_version, "var_1", wanted, base=1, at=AT) == set()
    newer = VariantDraft(workflow="w", name="v", parameters={"a": 1})
    assert await does(variants.commit_version, "var_1", newer, base=1, at=AT) == {variant}
    assert await does(variants.update_variant, "var_1", at=AT, check=lambda _: None, archived=True) == {variant}


async def test_reviews_and_what_is_said_in_them_tell(database: Database, touched: list[Change]) -> None:
    review = Change("default", "review", "rv_1")
    common: dict[str, Any] = {"name": "R", "evaluation": None, "key": None, "created_at": AT, "updated_at": AT}
    kept = Review(id="rv_1", reviewers=2, blind=True, total=2, questions=[], source={}, **common)

    async def does(work: Any, *args: Any, **more: Any) -> set[Change]:
        await database.write(work, "default", *args, **more)
        return await settled(database, touched)

    assert await does(reviews.create_review, kept, [NewReviewItem(trace="a" * 32), NewReviewItem(trace="b" * 32)]) == {
        review
    }
    assert await does(review_items.lease_next_item, kept, "ann", AT) == set()
    assert await does(review_items.save_answer, kept, 0, "ann", {"correct": True}, at=AT) == {review}
    assert await does(review_items.skip_item, kept, 1, "ann", AT) == {review}
    assert await does(review_items.mark_item_gone, "rv_1", 1) == {review}
    assert await does(reviews.update_review, "rv_1", AT, state="closed") == {review}
    assert await does(reviews.delete_review, "rv_1") == {review}


async def test_rules_and_what_they_score_tell(database: Database, touched: list[Change]) -> None:
    rule = Change("default", "rule", "rule_1")
    common: dict[str, Any] = {"filter": None, "evaluators": [], "key": None, "created_at": AT, "updated_at": AT}
    kept = LiveEvaluator(id="rule_1", name="R", sample=1.0, per_minute=60, session=False, enabled=True, **common)
    one: dict[str, Any] = {"project": "default", "rule": "rule_1", "subject": "t", "trace": "a" * 32, "place": 1}
    taken = ClaimedCase(**one, attempts=0, start_at=AT)
    held = {**one, "state": "running", "due": AT, "process": "p", "attempts": 0}

    async def does(work: Any, *args: Any, **more: Any) -> set[Change]:
        await database.write(work, *args, **more)
        return await settled(database, touched)

    assert await does(online_rules.create_live_evaluator, "default", kept) == {rule}
    assert await does(online_cases.finish_case, "p", taken, [], AT, session=None) == set()
    assert await does(lambda db: db.execute(insert(cases_table).values(held))) == set()
    assert await does(online_cases.finish_case, "p", taken, [], AT, session=None) == {rule}
    assert await does(online_rules.update_live_evaluator, "default", "rule_1", AT, enabled=False) == {rule}
    assert await does(online_rules.delete_live_evaluator, "default", "rule_1") == {rule}


async def test_new_spans_tell_each_project_that_they_are_of(database: Database, touched: list[Change]) -> None:
    await insert_rows(database, span_row("a"), span_row("b", 1), span_row("c", 2, project="yours"))

    assert await settled(database, touched) == {Change("mine", "spans", ALL_REFS), Change("yours", "spans", ALL_REFS)}


async def test_a_database_that_is_opened_late_tells_too() -> None:
    later = LazyDatabase("sqlite://")
    heard: list[Change] = []
    await later.watch(heard.extend)

    assert await settled(later, heard) == set()
    await later.close()


async def test_whoever_has_left_is_not_told(tmp_path: Any) -> None:
    database = open_database(str(tmp_path / "palaver.db"))
    gone = asyncio.new_event_loop()

    async def watch() -> None:
        await database.watch(lambda _: None)

    await asyncio.to_thread(gone.run_until_complete, watch())
    gone.close()
    heard: list[Change] = []
    await database.watch(heard.extend)

    assert await settled(database, heard) == set()
    await database.close()
