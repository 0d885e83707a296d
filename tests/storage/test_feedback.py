"""Feedback, on every database."""

import msgspec

from palaver.storage import feedback, runs
from palaver.storage.database import Database
from palaver.storage.feedback import Counts, Filters, Given, Opinion
from palaver.storage.pages import Window
from palaver.storage.threads import keeping as threads
from tests.storage.talking import NOW, SECOND, P, assistant, run_row, talk

OPINION = Opinion(run="run_1", message="a1", key="k", user="", rating="up", created_at=NOW)


def other(**more: object) -> Opinion:
    return msgspec.structs.replace(OPINION, **more)


async def test_the_last_opinion_of_each_counts(database: Database) -> None:
    await database.write(feedback.put, P, OPINION)
    kept = await database.write(feedback.put, P, other(rating="down", comment="a\0b"))
    await database.write(feedback.put, P, other(user="somebody\0"))
    await database.write(feedback.put, P, other(key="other", message="a2"))
    await database.write(feedback.put, "team-a", OPINION)

    assert kept.comment == "a\ufffdb"
    assert await database.read(feedback.counts, P, ["run_1"], key="k") == {
        ("run_1", "a1"): Counts(1, 1, "down"),
        ("run_1", "a2"): Counts(1, 0, None),
    }
    assert await database.read(feedback.counts, P, [], key="k") == {}
    await database.write(feedback.remove, P, OPINION)
    await database.write(feedback.remove, P, OPINION)
    assert await database.read(feedback.counts, P, ["run_1"], key=None) == {
        ("run_1", "a1"): Counts(1, 0, None),
        ("run_1", "a2"): Counts(1, 0, None),
    }


async def test_opinions_are_listed_newest_first_with_what_they_are_about(database: Database) -> None:
    await database.write(
        runs.add,
        [run_row("run_1", None, trace_id="t1", preview_in={"x": 1}), run_row("run_2", "conv_1", workflow="other")],
    )
    late = other(run="run_2", rating="down", created_at=NOW + SECOND)
    for opinion in (OPINION, late, other(run="run_gone")):
        await database.write(feedback.put, P, opinion)

    first = await database.read(feedback.list_page, P, Filters(), Window(1))
    second = await database.read(feedback.list_page, P, Filters(), Window(1, first.next))

    about = {"thread": None, "trace_id": "t1", "preview_in": {"x": 1}, "preview_out": None}
    assert [given.opinion for given in first.data] == [late]
    assert second.data == [Given(opinion=OPINION, workflow="tutor", **about)]
    assert second.next is None
    for filters, wanted in (
        (Filters(rating="down"), [late]),
        (Filters(workflow="other\0"), []),
        (Filters(workflow="other"), [late]),
        (Filters(since=NOW + SECOND), [late]),
    ):
        found = await database.read(feedback.list_page, P, filters)
        assert [given.opinion for given in found.data] == wanted


async def test_an_opinion_on_a_run_is_one_on_its_last_message(database: Database) -> None:
    await talk(database, "one")
    await database.write(runs.add, [run_row("run_1", "conv_1"), run_row("run_2", None)])
    said = [assistant("x", "x"), assistant("y", "y")]
    await database.write(threads.join, P, "conv_1", run="run_1", answers="u1", messages=said, status="done", at=NOW)

    assert await database.read(feedback.answer_of, P, "run_1") == "y"
    assert await database.read(feedback.answer_of, P, "run_2") == ""
    assert await database.read(feedback.answer_of, "team-a", "run_1") == ""
