"""Every format round-trips every JSON value, with any chunk boundaries."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaver.errors import PalaverError
from palaver.testsets.columns import ColumnCounter, find_mixed_columns
from palaver.testsets.files import (
    FileRow,
    Format,
    csv_file,
    json_file,
    open_reader,
    read_file,
    write_file,
)
from palaver.testsets.rows import canonical_json
from tests.testsets.strategies import JSON, ROWS


@pytest.fixture(autouse=True, scope="module")
def _small_parse_chunks() -> Iterator[None]:
    """Make the readers parse small chunks instead of buffering, so that every chunk boundary is covered."""
    with patch.object(json_file, "_MIN_PARSE_BYTES", 3), patch.object(csv_file, "_MIN_PARSE_CHARS", 1):
        yield


every_format = pytest.mark.parametrize("form", get_args(Format))
META_COLUMNS = ("__id__", "__dedup_id__", "__flags__", "__tags__", "__meta__")


def _write(rows: Sequence[FileRow], form: Format, meta: Sequence[str] = ()) -> bytes:
    counter = ColumnCounter()
    for row in rows:
        counter.add(row.data)
    names, mixed = [column.name for column in counter.columns()], find_mixed_columns(counter.columns())
    return b"".join(write_file(rows, names, form, meta=meta, mixed=mixed))


def _split(text: bytes, positions: list[int]) -> list[bytes]:
    ends = sorted({index % (len(text) + 1) for index in positions})
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


@every_format
@settings(max_examples=60)
@given(rows=ROWS, positions=st.lists(st.integers(0, 2_000), max_size=20))
def test_rows_are_read_as_they_were_written(form: Format, rows: list[dict[str, Any]], positions: list[int]) -> None:
    text = _write([FileRow(row) for row in rows], form)

    result = read_file(_split(text, positions), form)

    assert [canonical_json(row.data) for row in result] == [canonical_json(row) for row in rows]
    assert (result.report.rows, result.report.bytes, result.report.wrapped) == (len(rows), len(text), 0)


@every_format
@settings(max_examples=30)
@given(rows=ROWS, metadata=st.lists(st.dictionaries(st.sampled_from(META_COLUMNS), JSON, min_size=1), max_size=6))
def test_row_metadata_round_trips(form: Format, rows: list[Any], metadata: list[Any]) -> None:
    file_rows = [FileRow(row, meta) for row, meta in zip(rows, metadata, strict=False)]
    text = _write(file_rows, form, META_COLUMNS)

    result = list(read_file([text], form))

    assert [(canonical_json(row.data), canonical_json(row.meta)) for row in result] == [
        (canonical_json(row.data), canonical_json(row.meta)) for row in file_rows
    ]


@every_format
def test_a_file_can_be_read_byte_by_byte(form: Format) -> None:
    rows = [{"text": "päivää\r\n☃ \U0001f600", "chat": [{"role": "user", "content": 'a "quoted", word'}]}, {}, {"n": 1}]
    text = _write([FileRow(row) for row in rows], form)
    reader = open_reader(form)

    result = [row for index in range(len(text)) for row in reader.feed(text[index : index + 1])]
    result += reader.end()

    assert [row.data for row in result] == rows


@every_format
def test_rows_may_be_written_with_their_ids(form: Format) -> None:
    rows = [
        FileRow({"__id__": "of the data", "q": 1}, {"__id__": "row_00000000050000000000000007"}),
        FileRow({}, {"__id__": "row_1"}),
    ]
    text = b"".join(write_file(rows, ["__id__", "q"], form, meta=["__id__"]))

    assert [(row.data, row.meta) for row in read_file([text], form)] == [
        ({"__id__": "of the data", "q": 1}, {"__id__": "row_00000000050000000000000007"}),
        ({}, {"__id__": "row_1"}),
    ]


_SYNTAX_FRAGMENTS = st.lists(
    st.sampled_from([b'"', b",", b"\n", b"\r", b"[", b"]", b"{", b"}", b":", b"1", b"\\", b"a", b"\xff", b"\xc3\xa9"])
)


@every_format
@settings(max_examples=60)
@given(text=st.one_of(st.binary(), _SYNTAX_FRAGMENTS.map(b"".join)), size=st.integers(1, 10))
def test_any_bytes_give_the_same_rows_or_error_for_any_chunk_size(form: Format, text: bytes, size: int) -> None:
    outcomes: list[Any] = []
    for step in (size, 10_000):
        try:
            rows = [*read_file([text[index : index + step] for index in range(0, len(text), step)], form)]
            outcomes.append([(row.data, row.meta, row.line) for row in rows])
        except PalaverError as error:
            outcomes.append(error.code)

    assert outcomes[0] == outcomes[1]
