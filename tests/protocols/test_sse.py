"""Decoding server-sent events and lines, with any chunk boundaries."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import UpstreamFailed
from palaver.protocols import sse
from palaver.protocols.sse import EventStreamDecoder, LineDecoder


def decode(stream: bytes, *cuts: int) -> list[bytes]:
    """All events of a stream that arrives in pieces."""
    reader = EventStreamDecoder()
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    return [event for piece in pieces for event in reader.feed(piece)] + reader.end()


def test_event_is_encoded_as_a_data_line_and_an_empty_line() -> None:
    assert sse.data_event(b'{"a":1}') == b'data: {"a":1}\n\n'


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"data: a\n\ndata: b\n\n", [b"a", b"b"], id="two events"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [b"a", b"b"], id="CR alone"),
        pytest.param(b"data: a\ndata:  b\ndata\n\n", [b"a\n b\n"], id="several lines of data are one"),
        pytest.param(b"data:a\n\n", [b"a"], id="no space after the colon"),
        pytest.param(b": keep-alive\n\n: one\ndata: a\n: two\n\n", [b"a"], id="comments"),
        pytest.param(b"event: x\nid: 1\nretry: 5\ndatum: y\ndata: a\n\n", [b"a"], id="other fields"),
        pytest.param(b"event: x\n\n\n\n", [], id="an event without data is none"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [b"a"], id="a byte order mark"),
        pytest.param(b"data: a\n", [b"a"], id="no empty line at the end"),
        pytest.param(b"data: a\n\ndata: b", [b"a", b"b"], id="no line end at the end"),
        pytest.param(b"", [], id="nothing"),
    ],
)
@given(cuts=st.lists(st.integers(0, 60), max_size=8))
def test_events_do_not_depend_on_chunk_boundaries(stream: bytes, events: list[bytes], cuts: list[int]) -> None:
    assert decode(stream, *cuts) == events


def test_event_is_returned_as_soon_as_it_is_complete() -> None:
    reader = EventStreamDecoder()

    assert [reader.feed(piece) for piece in (b"data: a\n", b"\r", b"\n", b"data: b\n\n")] == [[], [b"a"], [], [b"b"]]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"data: 123456\n"], id="one line"),
        pytest.param([b"data: 1", b"23456"], id="a line that does not end"),
        pytest.param([b"data: 1\n", b"data: 2\n"], id="an event that does not end"),
    ],
)
def test_record_longer_than_the_limit_is_rejected(pieces: list[bytes]) -> None:
    *first, last = pieces
    reader = EventStreamDecoder(max_bytes=10)
    assert [reader.feed(piece) for piece in first] == [[] for _ in first]

    with pytest.raises(UpstreamFailed, match=r"The remote service sent a record larger than 10 bytes\."):
        reader.feed(last)


def test_size_limit_applies_to_each_event_and_not_to_their_sum() -> None:
    assert EventStreamDecoder(max_bytes=10).feed(b"data: 1\n\n" * 5) == [b"1"] * 5


@given(
    lines=st.lists(st.binary().map(lambda line: line.replace(b"\n", b"").rstrip(b"\r"))),
    ends=st.sampled_from([b"\n", b"\r\n"]),
    size=st.integers(1, 7),
)
def test_lines_do_not_depend_on_chunk_boundaries(lines: list[bytes], ends: bytes, size: int) -> None:
    stream = b"".join(line + ends for line in lines) + b"rest"
    reader = LineDecoder()

    read = [line for start in range(0, len(stream), size) for line in reader.feed(stream[start : start + size])]

    assert (read, reader.end(), reader.end()) == (lines, [b"rest"], [])
