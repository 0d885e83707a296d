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
    """A reader that takes the pending messages."""

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


async def test_the_messages_of_a_response_are_sent_in_order() -> None:
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


async def test_adjacent_pending_chunks_are_merged() -> None:
    reader = Reader()
    line = reader.line(1)
    for piece in (b"a", b"b", b"c"):
        await line.put(piece)

    first = reader.take_all()
    await line.put(b"d")

    assert first == [{"id": 1, "data": "abc"}]
    assert reader.take_all() == [{"id": 1, "data": "d"}]


async def test_responses_take_turns() -> None:
    reader = Reader()
    lines = [reader.line(number) for number in range(3)]
    for line in lines:
        line.open(200, [])
        await line.put(b"x")
        line.end()

    taken = [message["id"] for message in reader.take_all()]

    assert taken == [0, 1, 2] * 3


async def test_a_large_response_waits_for_the_reader_without_blocking_others() -> None:
    reader = Reader()
    loud, quiet = reader.line(1), reader.line(2)
    writing = asyncio.create_task(loud.put(b"x" * (10 * MAX_PENDING_BYTES)))
    await asyncio.sleep(0)
    await quiet.put(b"y")

    first, second = reader.take(), reader.take()
    assert not writing.done()
    rest: list[Any] = []
    async with asyncio.timeout(60):
        while not writing.done():
            await asyncio.sleep(0)
            rest += reader.take_all()
    rest += reader.take_all()

    chunk = {"id": 1, "data": "x" * MAX_PENDING_BYTES}
    assert (first, second) == (chunk, {"id": 2, "data": "y"})
    assert rest == [chunk] * 9


async def test_each_response_buffers_at_most_max_pending_bytes() -> None:
    reader = Reader()
    lines = [reader.line(number) for number in range(64)]
    writing = [asyncio.create_task(line.put(b"x" * (20 * MAX_PENDING_BYTES))) for line in lines]
    await asyncio.sleep(0)

    waiting = [reader.take() for _ in lines]
    for task in writing:
        task.cancel()

    assert {len(message["data"]) for message in waiting} == {MAX_PENDING_BYTES}
    assert reader.take() is None


async def test_dropping_a_response_discards_its_data_and_unblocks_its_writer() -> None:
    reader = Reader()
    line = reader.line(1)
    line.open(200, [])
    writing = asyncio.create_task(line.put(b"x" * (10 * MAX_PENDING_BYTES)))
    await asyncio.sleep(0)

    line.drop()
    await asyncio.wait_for(writing, 5)

    assert reader.take_all() == []
    assert reader.over == []


async def test_a_failed_response_sends_its_data_and_then_the_error() -> None:
    reader = Reader()
    line = reader.line(1)
    await line.put(b"half")
    line.fail("interrupted", "The response was interrupted.")

    assert reader.take_all() == [
        {"id": 1, "data": "half"},
        {"id": 1, "error": {"code": "interrupted", "message": "The response was interrupted."}},
    ]
    assert reader.over == [1]


@given(st.text(), st.lists(st.integers(0, 400), max_size=8), st.lists(st.booleans(), min_size=9, max_size=9))
async def test_a_text_arrives_complete_wherever_its_bytes_are_split(
    text: str, cuts: list[int], reads: list[bool]
) -> None:
    raw = text.encode()
    offsets = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    reader = Reader()
    line = reader.line(1)
    taken: list[Any] = []
    for (start, end), read in zip(pairwise(offsets), reads, strict=False):
        await line.put(raw[start:end])
        taken += reader.take_all() if read else []
    line.end()
    taken += reader.take_all()

    assert "".join(message["data"] for message in taken[:-1]) == text
    assert taken[-1] == {"id": 1, "end": True}
    assert all(message["data"] for message in taken[:-1])


async def test_invalid_utf8_becomes_replacement_characters() -> None:
    reader = Reader()
    line = reader.line(1)
    await line.put(b"a\xff\xc3")
    line.end()

    assert reader.take_all() == [{"id": 1, "data": "a\ufffd"}, {"id": 1, "data": "\ufffd"}, {"id": 1, "end": True}]


async def test_only_the_last_pending_change_of_an_object_is_sent() -> None:
    reader = Reader()
    for run in ("run_1", "run_2"):
        reader.outbox.put_change(Change("default", "thread", "conv_1", run))
    reader.outbox.put_change(Change("default", "board", "brd_1"))

    assert reader.take_all() == [
        {"changed": "thread", "ref": "conv_1", "run": "run_2"},
        {"changed": "board", "ref": "brd_1"},
    ]


async def test_pending_changes_are_limited() -> None:
    reader = Reader()
    for number in range(5_000):
        reader.outbox.put_change(Change("default", "run", f"run_{number}"))

    assert len(reader.take_all()) == 1_000


async def test_pending_messages_are_limited_and_further_writers_wait() -> None:
    reader = Reader()
    writing = [asyncio.create_task(reader.outbox.put_message(b"1")) for _ in range(100)]
    await asyncio.sleep(0)
    done = sum(task.done() for task in writing)
    taken = len(reader.take_all())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    taken += len(reader.take_all())
    await asyncio.wait_for(asyncio.gather(*writing), 5)

    assert (done, taken) == (64, 100)
