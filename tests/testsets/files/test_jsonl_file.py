"""JSON Lines: one object per line."""

from typing import Any

import pytest

from palaver.errors import InvalidValue, TooLarge
from palaver.testsets.files import FileRow, read_file, write_file
from palaver.testsets.limits import TestsetLimits

CHAT = [{"role": "user", "content": "hi"}]


def _read(text: str | bytes, **options: Any) -> list[FileRow]:
    return list(read_file([text if isinstance(text, bytes) else text.encode()], "jsonl", **options))


def test_keys_are_written_in_the_order_of_the_columns() -> None:
    rows = [{"b": 1, "a": "é"}, {"c": None, "b": 2}]

    assert (
        b"".join(write_file(map(FileRow, rows), ["a", "b", "c"], "jsonl")).decode()
        == '{"a":"é","b":1}\n{"b":2,"c":null}\n'
    )


def test_empty_lines_a_byte_order_mark_and_crlf_are_skipped() -> None:
    assert _read('\ufeff\r\n{"a": 1}\r\n \n\n{"a": 2}') == [FileRow({"a": 1}, None, 2), FileRow({"a": 2}, None, 5)]
    assert _read("") == []


def test_values_that_are_not_objects_are_wrapped_and_counted() -> None:
    text = f'{CHAT}\n[1, 2]\n5\n"x"\nnull\n{{}}\n'.replace("'", '"')

    reader = read_file([text.encode()], "jsonl")

    assert [row.data for row in reader] == [
        {"messages": CHAT},
        {"value": [1, 2]},
        {"value": 5},
        {"value": "x"},
        {"value": None},
        {},
    ]
    assert (reader.report.wrapped, reader.report.rows) == (5, 6)


def test_agenta_metadata_keys_are_read_as_row_metadata() -> None:
    assert _read('{"__id__": "x", "q": 1, "__flags__": null, "\\"__id__\\"": 2, "__x__": 3}') == [
        FileRow({"q": 1, "__id__": 2, "__x__": 3}, {"__id__": "x", "__flags__": None}, 1)
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"a": 1}\n{"a"}\n', 2, "invalid JSON: expected ':'"),
        ('{"a": 1} {"a": 2}', 1, "trailing characters"),
        ('\n{"a": 1', 2, "truncated"),
        (b'{}\n{"a": "\xff"}', 2, "not valid UTF-8."),
        ('{"a": "\\ud800"}', 1, "unpaired surrogate"),
        ('{"a": 1e400}', 1, "number out of range"),
        ('{"a": NaN}', 1, "invalid character"),
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", 1, "nested deeper than 64 levels"),
        ("[" * 5_000, 1, "nested deeper than 64 levels"),
    ],
)
def test_errors_are_reported_with_their_line(text: str | bytes, line: int, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        _read(text)

    assert caught.value.message.startswith(f"Line {line}: ")
    assert message in caught.value.message
    assert caught.value.details == {"line": line}


def test_cells_may_be_nested_64_levels_deep() -> None:
    [row] = _read('{"a": ' + "[" * 64 + "]" * 64 + "}")

    assert list(row.data) == ["a"]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (TestsetLimits(rows=1), "{}\n{}\n"),
        (TestsetLimits(row_bytes=10), '{"a":"12345"}'),
        (TestsetLimits(row_bytes=10), "x" * 70_000),
        (TestsetLimits(file_bytes=5), "{}\n{}\n"),
    ],
)
def test_files_beyond_a_limit_are_rejected(limits: TestsetLimits, text: str) -> None:
    with pytest.raises(TooLarge):
        _read(text, limits=limits)


def test_spaces_do_not_count_for_the_size_of_a_row() -> None:
    assert _read('{"a":                  1}', limits=TestsetLimits(row_bytes=10)) == [FileRow({"a": 1}, None, 1)]
