"""JSON files: an array of rows at any supported path, parsed incrementally."""

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import InvalidValue, TooLarge
from palaver.testsets.files import FileRow, json_file, read_file, write_file
from palaver.testsets.limits import TestsetLimits
from palaver.testsets.rows import canonical_json
from tests.testsets.strategies import JSON


@pytest.fixture(autouse=True, scope="module")
def _small_parse_chunks() -> Iterator[None]:
    """Make the reader parse after 3 bytes instead of buffering, so that every chunk boundary is covered."""
    with patch.object(json_file, "_MIN_PARSE_BYTES", 3):
        yield


def _read(text: str | bytes, size: int = 1_000, **options: Any) -> list[FileRow]:
    full_text = text if isinstance(text, bytes) else text.encode()
    return list(
        read_file([full_text[index : index + size] for index in range(0, len(full_text), size)], "json", **options)
    )


def test_an_array_is_written_with_one_row_per_line() -> None:
    assert b"".join(write_file([], [], "json")) == b"[\n]\n"
    assert (
        b"".join(write_file([FileRow({"b": 1, "a": 2}), FileRow({})], ["a", "b"], "json"))
        == b'[\n{"a":2,"b":1},\n{}\n]\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1}, {"a": [2, "]"]}]',
        '\ufeff\n [ {"a":1} ,{"a":[2,"]"]}]\n',
        '{"rows": [{"a": 1}, {"a": [2, "]"]}]}',
        '{"name": "x", "more": {"rows": [5]}, "n": [1, {"a": "}"}], "rows": [{"a": 1}, {"a": [2, "]"]}], "z": null}',
    ],
)
def test_the_array_of_rows_is_found_at_the_root_or_under_rows(text: str) -> None:
    for size in (1, 2, 5, 1_000):
        assert [row.data for row in _read(text, size)] == [{"a": 1}, {"a": [2, "]"]}]


def test_an_agenta_test_set_is_read_with_its_metadata() -> None:
    text = """{"id": "set", "flags": {}, "data": {"testcase_ids": ["t1"], "testcases": [
        {"id": "t1", "set_id": "set", "tags": {"hard": true}, "flags": null, "data": {"q": 1, "__dedup_id__": "d"}},
        {"q": 2},
        5
    ]}}"""

    reader = read_file([text.encode()], "json")

    assert list(reader) == [
        FileRow({"q": 1}, {"__id__": "t1", "__tags__": {"hard": True}, "__dedup_id__": "d"}, 2),
        FileRow({"q": 2}, None, 3),
        FileRow({"value": 5}, None, 4),
    ]
    assert reader.report.wrapped == 1


@pytest.mark.parametrize("name", ["testset", "testset_revision"])
def test_a_test_set_in_a_response_of_agentas_api_is_read(name: str) -> None:
    text = f'{{"count": 1, "{name}": {{"slug": "s", "data": {{"testcases": [{{"id": "t1", "data": {{"q": 1}}}}]}}}}}}'

    assert list(read_file([text.encode()], "json")) == [FileRow({"q": 1}, {"__id__": "t1"}, 1)]


def test_rows_with_a_data_column_are_not_unwrapped() -> None:
    assert [row.data for row in _read('[{"data": {"q": 1}, "id": 5}]')] == [{"data": {"q": 1}, "id": 5}]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the JSON is truncated."),
        ("5", 1, "expected an array of rows"),
        ("{}", 1, "expected an array of rows"),
        ('{"row": []}', 1, "expected an array of rows"),
        ('{"data": {"rows": []}}', 1, "expected an array of rows"),
        ('[\n{"a": 1},\n{"a"}]', 3, "invalid JSON: expected ':'"),
        ('[\n{"a": 1},\n]', 3, "unexpected ']'."),
        ("[,]", 1, "unexpected ','."),
        ("[1 2]", 1, "unexpected '2'."),
        ('[{"a": 1}\n', 2, "the JSON is truncated."),
        ('["a\n', 2, "the JSON is truncated."),
        ("[] []", 1, "unexpected '['."),
        ("[truth]", 1, "invalid JSON"),
        ('{"rows": [], "rows": []}', 1, "the file contains more than one array of rows."),
        ('{"rows": [] "x": 1}', 1, "invalid JSON: unexpected "),
        ('{"x": tru, "rows": []}', 1, "invalid JSON"),
        ("{rows: []}", 1, "unexpected 'r'."),
        ("[" + '{"a":' + "[" * 65 + "]" * 65 + "}]", 1, "nested deeper than 64 levels"),
        (b'[\n"\xff"]', 2, "not valid UTF-8."),
    ],
)
@pytest.mark.parametrize("size", [1, 1_000])
def test_errors_are_reported_with_their_line(text: str | bytes, line: int, message: str, size: int) -> None:
    with pytest.raises(InvalidValue) as caught:
        _read(text, size)

    assert caught.value.message.startswith(f"Line {line}: ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (TestsetLimits(rows=1), "[{},{}]"),
        (TestsetLimits(row_bytes=10), '[{"a":"12345"}]'),
        (TestsetLimits(row_bytes=10), '["' + "x" * 70_000),
        (TestsetLimits(file_bytes=5), "[{},{}]"),
    ],
)
def test_files_beyond_a_limit_are_rejected(limits: TestsetLimits, text: str) -> None:
    with pytest.raises(TooLarge):
        _read(text, limits=limits)


@given(st.lists(JSON, max_size=5), st.sampled_from([None, 0, 2]), st.booleans(), st.integers(1, 50))
def test_any_array_is_read_with_any_chunk_size(values: list[Any], indent: Any, ascii_only: bool, size: int) -> None:
    text = json.dumps([{"x": value} for value in values], indent=indent, ensure_ascii=ascii_only)

    assert [canonical_json(row.data["x"]) for row in _read(text, size)] == [canonical_json(value) for value in values]


@given(
    st.lists(JSON, max_size=3), st.integers(0, 200), st.sampled_from(['"', "\\", "[", "]", "{", "}", ",", ":", "1", ""])
)
def test_invalid_json_is_never_accepted(values: list[Any], index: int, piece: str) -> None:
    text = json.dumps({"rows": [{"x": value} for value in values]})
    broken = text[:index] + piece + text[index + 1 :]
    try:
        decoded = msgspec.json.decode(broken)
    except (msgspec.MsgspecError, UnicodeError):
        decoded = None

    if decoded is None:
        with pytest.raises(InvalidValue):
            _read(broken)
    else:
        try:
            result = _read(broken)
        except InvalidValue as error:
            assert "expected an array of rows" in error.message  # noqa: PT017 - a broken name may still be JSON
        else:
            rows = decoded if isinstance(decoded, list) else decoded["rows"]
            assert len(result) == len(rows)
