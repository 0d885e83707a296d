"""Feedback, on every database."""

import msgspec

from palaver.storage import feedback, runs
from palaver.storage.database import Database
from palaver.storage.feedback import Feedback, FeedbackCounts, FeedbackEntry, FeedbackFilters
from palaver.storage.pagination import Window
from palaver.storage.threads import repository as threads
from tests.storage.thread_factory import NOW, SECOND, P, assistant, create_conversation, run_row

FEEDBACK = Feedback(run="run_1", message="a1", key="k", user="", rating="up", created_at=NOW)


def changed_feedback(**more: object) -> Feedback:
    return msgspec.structs.replace(FEEDBACK, **more)


async def test_last_feedback_of_each_key_user_and_message_counts(database: Database) -> None:
    await database.write(feedback.save_feedback, P, FEEDBACK)
    stored = await database.write(feedback.save_feedback, P, changed_feedback(rating="down", comment="a\0b"))
    await database.write(feedback.save_feedback, P, changed_feedback(user="somebody\0"))
    await database.write(feedback.save_feedback, P, changed_feedback(key="other", message="a2"))
    await database.write(feedback.save_feedback, "team-a", FEEDBACK)

    assert stored.comment == "a\ufffdb"
    assert await database.read(feedback.count_feedback, P, ["run_1"], key="k") == {
        ("run_1", "a1"): FeedbackCounts(1, 1, "down"),
        ("run_1", "a2"): FeedbackCounts(1, 0, None),
    }
    assert await database.read(feedback.count_feedback, P, [], key="k") == {}
    await database.write(feedback.delete_feedback, P, FEEDBACK)
    await database.write(feedback.delete_feedback, P, FEEDBACK)
    assert await database.read(feedback.count_feedback, P, ["run_1"], key=None) == {
        ("run_1", "a1"): FeedbackCounts(1, 0, None),
        ("run_1", "a2"): FeedbackCounts(1, 0, None),
    }


async def test_feedback_is_listed_newest_first_with_its_run_and_filtered(database: Database) -> None:
    await database.write(
        runs.insert_runs,
        [run_row("run_1", None, trace_id="t1", preview_in={"x": 1}), run_row("run_2", "conv_1", workflow="other")],
    )
    late = changed_feedback(run="run_2", rating="down", created_at=NOW + SECOND)
    for opinion in (FEEDBACK, late, changed_feedback(run="run_gone")):
        await database.write(feedback.save_feedback, P, opinion)

    first = await database.read(feedback.list_feedback, P, FeedbackFilters(), Window(1))
    second = await database.read(feedback.list_feedback, P, FeedbackFilters(), Window(1, first.next))

    run_fields = {"thread": None, "trace_id": "t1", "preview_in": {"x": 1}, "preview_out": None}
    assert [value.feedback for value in first.data] == [late]
    assert second.data == [FeedbackEntry(feedback=FEEDBACK, workflow="tutor", **run_fields)]
    assert second.next is None
    for filters, expected in (
        (FeedbackFilters(rating="down"), [late]),
        (FeedbackFilters(workflow="other\0"), []),
        (FeedbackFilters(workflow="other"), [late]),
        (FeedbackFilters(since=NOW + SECOND), [late]),
    ):
        result = await database.read(feedback.list_feedback, P, filters)
        assert [value.feedback for value in result.data] == expected


async def test_feedback_on_a_run_applies_to_its_last_message(database: Database) -> None:
    await create_conversation(database, "one")
    await database.write(runs.insert_runs, [run_row("run_1", "conv_1"), run_row("run_2", None)])
    texts = [assistant("x", "x"), assistant("y", "y")]
    await database.write(
        threads.append_run_output, P, "conv_1", run="run_1", answers="u1", messages=texts, status="done", at=NOW
    )

    assert await database.read(feedback.find_answer_message, P, "run_1") == "y"
    assert await database.read(feedback.find_answer_message, P, "run_2") == ""
    assert await database.read(feedback.find_answer_message, "team-a", "run_1") == ""
