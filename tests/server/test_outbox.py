"""The outbox of a tab's WebSocket: fair order, merged chunks, and backpressure."""

import asyncio
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palaver.server.tab_socket.outbox import MAX_PENDING_BYTES, Outbox, ResponseQueue
from palaver.storage.notifications import Change


class Reader:
    """Somebody who takes what waits."""

    def __init__(self) -> None:
        self.woken = 0
        self.over: list[int] = []
        self.outbox = Outbox(self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def line(self, number: int) -> ResponseQueue:
        return ResponseQueue(number, self.outbox, lambda: self.over.append(number))

    def take(self) -> Any:
        message = self.outbox.next_message()
        return None if message is None else msgspec.json.decode(message)

    def take_all(self) -> list[Any]:
        taken: list[Any] = []
        while (message := self.take()) is not None:
            taken.append(message)
        return taken


async def test_an_answer_goes_out_in_its_order() -> None:
    reader = Reader()
    line = reader.line(1)

    line.open(200, [])
    await line.put(b"a")
    line.end()

    assert reader.take_all() == [
        {"id": 1, "status": 200, "headers": {}},
        {"id": 1, "data": "a"},
        {"id": 1, "end": True},
    ]
    assert reader.over == [1]
    assert reader.woken


async def test_neighbouring_pieces_that_wait_go_out_as_one() -> None:
    reader = Reader()
    line = reader.line(1)
    for piece in (b"a", b"b", b"c"):
        await line.put(piece)

    first = reader.take_all()
    await line.put(b"d")

    assert first == [{"id": 1, "data": "abc"}]
    assert reader.take_all() == [{"id": 1, "data": "d"}]


async def test_answers_take_turns() -> None:
    reader = Reader()
    lines = [reader.line(number) for number in range(3)]
    for line in lines:
        line.open(200, [])
        await line.put(b"x")
        line.end()

    taken = [message["id"] for message in reader.take_all()]

    assert taken == [0, 1, 2] * 3


async def test_one_that_says_much_waits_for_the_reader_and_the_others_do_not() -> None:
    reader = Reader()
    loud, quiet = reader.line(1), reader.line(2)
    speaking = asyncio.create_task(loud.put(b"x" * (10 * MAX_PENDING_BYTES)))
    await asyncio.sleep(0)
    await quiet.put(b"y")

    first, second = reader.take(), reader.take()
    assert not speaking.done()
    rest = 0
    while not speaking.done() or (message := reader.take()) is not None:
        await asyncio.sleep(0)
        message = reader.take()
        rest += len(message["data"]) if message is not None else 0

    assert (first["id"], second) == (1, {"id": 2, "data": "y"})
    assert len(first["data"]) == MAX_PENDING_BYTES
    assert len(first["data"]) + rest <= 10 * MAX_PENDING_BYTES


async def test_no_more_than_a_little_of_each_waits() -> None:
    reader = Reader()
    lines = [reader.line(number) for number in range(64)]
    speaking = [asyncio.create_task(line.put(b"x" * (20 * MAX_PENDING_BYTES))) for line in lines]
    await asyncio.sleep(0)

    waiting = [reader.take() for _ in lines]
    for task in speaking:
        task.cancel()

    assert {len(message["data"]) for message in waiting} == {MAX_PENDING_BYTES}
    assert reader.take() is None


async def test_what_nobody_wants_is_forgotten_and_its_maker_goes_on() -> None:
    reader = Reader()
    line = reader.line(1)
    line.open(200, [])
    speaking = asyncio.create_task(line.put(b"x" * (10 * MAX_PENDING_BYTES)))
    await asyncio.sleep(0)

    line.drop()
    await asyncio.wait_for(speaking, 5)

    assert reader.take_all() == []
    assert reader.over == []


async def test_an_answer_that_breaks_off_says_so_after_what_was_said() -> None:
    reader = Reader()
    line = reader.line(1)
    await line.put(b"half")
    line.fail("interrupted", "The answer broke off.")

    assert reader.take_all() == [
        {"id": 1, "data": "half"},
        {"id": 1, "error": {"code": "interrupted", "message": "The answer broke off."}},
    ]
    assert reader.over == [1]


@given(st.text(), st.lists(st.integers(0, 400), max_size=8), st.lists(st.booleans(), min_size=9, max_size=9))
async def test_a_text_arrives_whole_wherever_it_was_cut(text: str, cuts: list[int], reads: list[bool]) -> None:
    raw = text.encode()
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    reader = Reader()
    line = reader.line(1)
    taken: list[Any] = []
    for (start, end), read in zip(pairwise(places), reads, strict=False):
        await line.put(raw[start:end])
        taken += reader.take_all() if read else []
    line.end()
    taken += reader.take_all()

    assert "".join(message["data"] for message in taken[:-1]) == text
    assert taken[-1] == {"id": 1, "end": True}
    assert all(message["data"] for message in taken[:-1])


async def test_what_is_no_text_is_shown_as_such() -> None:
    reader = Reader()
    line = reader.line(1)
    await line.put(b"a\xff\xc3")
    line.end()

    assert reader.take_all() == [{"id": 1, "data": "a\ufffd"}, {"id": 1, "data": "\ufffd"}, {"id": 1, "end": True}]


async def test_of_changes_that_wait_the_last_is_told() -> None:
    reader = Reader()
    for run in ("run_1", "run_2"):
        reader.outbox.put_change(Change("default", "thread", "conv_1", run))
    reader.outbox.put_change(Change("default", "board", "brd_1"))

    assert reader.take_all() == [
        {"changed": "thread", "ref": "conv_1", "run": "run_2"},
        {"changed": "board", "ref": "brd_1"},
    ]


async def test_there_is_an_end_to_changes_that_wait() -> None:
    reader = Reader()
    for number in range(5_000):
        reader.outbox.put_change(Change("default", "run", f"run_{number}"))

    assert len(reader.take_all()) == 1_000


async def test_there_is_an_end_to_notes_that_wait() -> None:
    reader = Reader()
    noting = [asyncio.create_task(reader.outbox.put_message(b"1")) for _ in range(100)]
    await asyncio.sleep(0)
    done = sum(task.done() for task in noting)
    taken = len(reader.take_all())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    taken += len(reader.take_all())
    await asyncio.wait_for(asyncio.gather(*noting), 5)

    assert (done, taken) == (64, 100)
