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


class FakeDatabase:
    """A fake database that records notifications and can be made to fail."""

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


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - set from another thread, without an event
            await asyncio.sleep(0.005)


def make_feed(kind: str = "sqlite") -> tuple[ChangeFeed, FakeDatabase]:
    database = FakeDatabase(kind)
    return ChangeFeed(database), database  # type: ignore[arg-type]


async def test_a_change_reaches_every_subscriber_of_its_project() -> None:
    changes, _ = make_feed()
    received: dict[str, list[Change]] = {"one": [], "two": [], "other": []}
    with (
        changes.subscribe("default", received["one"].append),
        changes.subscribe("default", received["two"].append),
        changes.subscribe("other", received["other"].append),
    ):
        changes.publish([Change("default", "thread", "conv_1", "run_1")])
    changes.publish([Change("default", "thread", "conv_2")])

    assert received == {
        "one": [Change("default", "thread", "conv_1", "run_1")],
        "two": [Change("default", "thread", "conv_1", "run_1")],
        "other": [],
    }


async def test_a_change_of_all_projects_reaches_every_subscriber() -> None:
    changes, _ = make_feed()
    received: list[Change] = []
    with changes.subscribe("one", received.append), changes.subscribe("two", received.append):
        changes.publish([Change(ALL_PROJECTS, "workflow", "tutor")])

    assert received == [Change(ALL_PROJECTS, "workflow", "tutor")] * 2


async def test_frequent_changes_are_throttled_and_the_last_one_is_always_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changing, "REPEAT_INTERVAL_S", 0.05)
    changes, _ = make_feed()
    received: list[str | None] = []
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    with changes.subscribe("default", lambda change: received.append(change.run)):
        for number in range(200):
            changes.publish([Change("default", "thread", "conv_1", f"run_{number}")])
            await asyncio.sleep(0.001)
        changes.publish([Change("default", "thread", "conv_1", "run_last")])
        await wait_until(lambda: received[-1] == "run_last")
        elapsed = loop.time() - started_at
        await wait_until(lambda: not changes._recent)

    assert received[0] == "run_0"
    assert received[-1] == "run_last"
    assert len(received) <= elapsed / 0.05 + 2


async def test_changes_of_many_runs_are_limited_but_those_of_threads_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "REPEAT_INTERVAL_S", 0.05)
    changes, _ = make_feed()
    received: list[Change] = []
    with changes.subscribe("default", received.append):
        changes.publish([Change("default", "run", f"run_{number}") for number in range(500)])
        changes.publish([Change("default", "thread", f"conv_{number}") for number in range(100)])
        await wait_until(lambda: not changes._recent)
        changes.publish([Change("default", "run", "run_later")])

    kinds = [change.kind for change in received]
    assert (kinds.count("run"), kinds.count("thread")) == (33, 100)
    assert received[-1].ref == "run_later"


async def test_other_processes_are_notified_in_one_batch_and_echoes_are_ignored() -> None:
    changes, database = make_feed("postgresql")
    other, _ = make_feed("postgresql")
    mine: list[Change] = []
    theirs: list[Change] = []
    with changes.subscribe("default", mine.append), other.subscribe("default", theirs.append):
        changes.publish([Change("default", "thread", "conv_1", "run_1"), Change("default", "run", "run_1")])
        changes.publish([Change("default", "board", "brd_1")])
        await changes.stop()
        (notification,) = [Notification("changed", names) for _, names in database.told]
        for one in (changes, other):
            one.on_notification(notification.names)
            one.on_notification(["", "a/b", "x/default/nothing/ref/", "x/default/thread/conv_1/run_1/more"])

    expected = [Change("default", "thread", "conv_1", "run_1"), Change("default", "run", "run_1")]
    expected.append(Change("default", "board", "brd_1"))
    assert mine == theirs == expected


async def test_notifications_are_lost_while_the_database_is_down_and_sent_afterwards() -> None:
    changes, database = make_feed("postgresql")
    database.fault = Overloaded("away")
    with pytest.raises(Overloaded):
        await changes.start()
    changes.publish([Change("default", "run", "run_1")])
    await changes.stop()
    database.fault = None
    await changes.start()
    changes.publish([Change("default", "run", "run_2")])
    await changes.stop()

    assert [names[0].rpartition("run/")[2] for _, names in database.told] == ["run_2/"]
    assert database.touched is not None


SPANS = Change("default", "spans", ALL_REFS)


@pytest.mark.parametrize("change", [SPANS, Change("default", "rule", "rule_1")])
async def test_span_and_live_evaluator_changes_are_throttled_and_the_last_is_sent(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "SLOW_REPEAT_INTERVAL_S", 0.1)
    changes, database = make_feed("postgresql")
    received_at: list[float] = []
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    with changes.subscribe("default", lambda _: received_at.append(loop.time())):
        for _ in range(200):
            changes.publish([change])
            await asyncio.sleep(0.001)
        changes.publish([change])
        last = loop.time()
        await wait_until(lambda: not changes._recent and not changes._recently_sent)
        await changes.stop()
        elapsed = loop.time() - started_at

    assert received_at[-1] >= last
    assert len(received_at) <= elapsed / 0.1 + 2
    assert 2 <= len(database.told) <= elapsed / 0.1 + 2
    assert {name.partition("/")[2] for _, names in database.told for name in names} == {"/".join((*change[:3], ""))}


async def test_stopping_sends_the_last_throttled_notification() -> None:
    changes, database = make_feed("postgresql")
    other, _ = make_feed("postgresql")
    changes.publish([SPANS])
    await changes.stop()
    changes.publish([SPANS])
    changes.publish([SPANS])
    assert len(database.told) == 1
    await changes.stop()
    received: list[Change] = []
    with other.subscribe("default", received.append):
        other.on_notification(database.told[1][1])

    assert len(database.told) == 2
    assert received == [SPANS]


# Changes reported by the database


@pytest.fixture
async def touched(database: Database) -> list[Change]:
    """The changes reported by writes to the database."""
    changes: list[Change] = []
    await database.watch(changes.extend)
    return changes


async def take_changes(database: Database, touched: list[Change]) -> set[Change]:
    """Return the changes reported so far, and clear them."""
    mark = Change("default", "testset", "mark")

    def work(db: Connection) -> None:
        mark_changed(db, mark)

    await database.write(work)
    await wait_until(lambda: mark in touched)
    reported = set(touched) - {mark}
    touched.clear()
    return reported


async def test_a_failed_write_reports_no_change(database: Database, touched: list[Change]) -> None:
    def work(db: Connection, fails: bool) -> None:
        mark_changed(db, Change("default", "thread", f"conv_{fails}"))
        if fails:
            raise ValueError

    results = await asyncio.gather(
        *(database.write(work, fails=number % 2 == 0) for number in range(6)), return_exceptions=True
    )

    assert [type(result) for result in results] == [ValueError, type(None)] * 3
    assert await take_changes(database, touched) == {Change("default", "thread", "conv_False")}


async def test_writes_to_threads_boards_and_variants_report_changes(database: Database, touched: list[Change]) -> None:
    thread, board = Change("default", "thread", "conv_1"), Change("default", "board", "brd_1")
    messages = [Message.user("a"), Message.assistant("b")]
    grid = Grid(columns=(BoardColumn(id="c", workflow="w"),), rows=(BoardRow(id="r"),))
    stored_board = Board(id="brd_1", grid=grid, created_at=AT, updated_at=AT)
    draft = VariantDraft(workflow="w", name="v", parameters={})

    async def changes_of(work: Any, *args: Any, **more: Any) -> set[Change]:
        await database.write(work, "default", *args, **more)
        return await take_changes(database, touched)

    assert await changes_of(boards.create_board, stored_board) == {board}
    assert await changes_of(threads.create_thread, NewThread(id="conv_1", at=AT, board="brd_1")) == {thread}
    assert await changes_of(boards.fill_cells, "brd_1", [Cell(row="r", column="c", thread="conv_1")]) == {board}
    assert await changes_of(threads.append_messages, "conv_1", None, messages, origin="client", at=AT) == {thread}
    assert await changes_of(threads.move_head, "conv_1", None) == {thread}
    assert await changes_of(threads.claim_thread, "conv_1", "run_1") == {Change("default", "thread", "conv_1", "run_1")}
    assert await changes_of(threads.claim_thread, "conv_1", "run_2") == set()
    assert await changes_of(threads.release_thread, "conv_1", "run_2") == set()
    assert await changes_of(threads.release_thread, "conv_1", "run_1") == {
        Change("default", "thread", "conv_1", "run_1")
    }
    assert await changes_of(threads.delete_thread, "conv_1") == {thread, board}
    assert await changes_of(boards.replace_board, "brd_1", grid, keep=None, at=AT, check=lambda _: None) == {board}
    assert await changes_of(boards.delete_board, "brd_1", check=lambda _: None) == {board}
    variant = Change("default", "variant", "var_1")
    assert await changes_of(variants.create_variant, draft, id="var_1", at=AT) == {variant}
    assert await changes_of(variants.commit_version, "var_1", draft, base=1, at=AT) == set()
    newer = VariantDraft(workflow="w", name="v", parameters={"a": 1})
    assert await changes_of(variants.commit_version, "var_1", newer, base=1, at=AT) == {variant}
    assert await changes_of(variants.update_variant, "var_1", at=AT, check=lambda _: None, archived=True) == {variant}


async def test_writes_to_reviews_and_their_items_report_changes(database: Database, touched: list[Change]) -> None:
    review = Change("default", "review", "rv_1")
    common: dict[str, Any] = {"name": "R", "evaluation": None, "key": None, "created_at": AT, "updated_at": AT}
    stored_review = Review(id="rv_1", reviewers=2, blind=True, total=2, questions=[], source={}, **common)

    async def changes_of(work: Any, *args: Any, **more: Any) -> set[Change]:
        await database.write(work, "default", *args, **more)
        return await take_changes(database, touched)

    assert await changes_of(
        reviews.create_review, stored_review, [NewReviewItem(trace="a" * 32), NewReviewItem(trace="b" * 32)]
    ) == {review}
    assert await changes_of(review_items.lease_next_item, stored_review, "ann", AT) == set()
    assert await changes_of(review_items.save_answer, stored_review, 0, "ann", {"correct": True}, at=AT) == {review}
    assert await changes_of(review_items.skip_item, stored_review, 1, "ann", AT) == {review}
    assert await changes_of(review_items.mark_item_gone, "rv_1", 1) == {review}
    assert await changes_of(reviews.update_review, "rv_1", AT, state="closed") == {review}
    assert await changes_of(reviews.delete_review, "rv_1") == {review}


async def test_writes_to_live_evaluators_and_their_cases_report_changes(
    database: Database, touched: list[Change]
) -> None:
    rule = Change("default", "rule", "rule_1")
    common: dict[str, Any] = {"filter": None, "evaluators": [], "key": None, "created_at": AT, "updated_at": AT}
    evaluator = LiveEvaluator(id="rule_1", name="R", sample=1.0, per_minute=60, session=False, enabled=True, **common)
    case_fields: dict[str, Any] = {
        "project": "default",
        "rule": "rule_1",
        "subject": "t",
        "trace": "a" * 32,
        "place": 1,
    }
    claimed = ClaimedCase(**case_fields, attempts=0, start_at=AT)
    case_row = {**case_fields, "state": "running", "due": AT, "process": "p", "attempts": 0}

    async def changes_of(work: Any, *args: Any, **more: Any) -> set[Change]:
        await database.write(work, *args, **more)
        return await take_changes(database, touched)

    assert await changes_of(online_rules.create_live_evaluator, "default", evaluator) == {rule}
    assert await changes_of(online_cases.finish_case, "p", claimed, [], AT, session=None) == set()
    assert await changes_of(lambda db: db.execute(insert(cases_table).values(case_row))) == set()
    assert await changes_of(online_cases.finish_case, "p", claimed, [], AT, session=None) == {rule}
    assert await changes_of(online_rules.update_live_evaluator, "default", "rule_1", AT, enabled=False) == {rule}
    assert await changes_of(online_rules.delete_live_evaluator, "default", "rule_1") == {rule}


async def test_new_spans_report_one_change_for_each_of_their_projects(
    database: Database, touched: list[Change]
) -> None:
    await insert_rows(database, span_row("a"), span_row("b", 1), span_row("c", 2, project="yours"))

    assert await take_changes(database, touched) == {
        Change("mine", "spans", ALL_REFS),
        Change("yours", "spans", ALL_REFS),
    }


async def test_a_lazy_database_reports_changes() -> None:
    lazy = LazyDatabase("sqlite://")
    changes: list[Change] = []
    await lazy.watch(changes.extend)

    assert await take_changes(lazy, changes) == set()
    await lazy.close()


async def test_a_watcher_whose_event_loop_is_closed_is_skipped(tmp_path: Any) -> None:
    database = open_database(str(tmp_path / "palaver.db"))
    closed_loop = asyncio.new_event_loop()

    async def watch() -> None:
        await database.watch(lambda _: None)

    await asyncio.to_thread(closed_loop.run_until_complete, watch())
    closed_loop.close()
    changes: list[Change] = []
    await database.watch(changes.extend)

    assert await take_changes(database, changes) == set()
    await database.close()
