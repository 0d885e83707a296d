"""CSV files: headers, delimiters, lines and errors with the line."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import UNSET

from palaver.errors import InvalidValue, TooLarge, UnsupportedMediaType
from palaver.testsets.files import CellTypes, FileRow, FileRows, read_file, write_file
from palaver.testsets.files.csv_file import format_cell, quote_cell
from palaver.testsets.limits import TestsetLimits
from tests.testsets.strategies import ROWS


def _rows(text: str | bytes, **options: Any) -> list[dict[str, Any]]:
    return [row.data for row in _open(text, **options)]


def _open(text: str | bytes, **options: Any) -> FileRows:
    return read_file([text if isinstance(text, bytes) else text.encode()], "csv", **options)


def _write(*rows: dict[str, Any], columns: list[str], meta: tuple[str, ...] = ()) -> str:
    return b"".join(write_file(map(FileRow, rows), columns, "csv", meta=meta)).decode()


def test_the_example_file_is_read_with_typed_cells() -> None:
    text = 'id,messages,expected,note\n007,"[{""role"":""user"",""content"":""hi""}]",42,"""42"""\n'

    assert _rows(text) == [
        {"id": "007", "messages": [{"role": "user", "content": "hi"}], "expected": 42, "note": "42"},
    ]


def test_a_file_is_written_with_commas_and_crlf() -> None:
    text = _write({"a": 1, "b;c": 'x "y", z'}, {"b;c": ""}, {"a": "=1"}, columns=["a", "b;c"])

    assert text == 'a,"b;c"\r\n1,"x ""y"", z"\r\n,""""""\r\n"""=1""",\r\n'


def test_an_empty_row_in_a_single_column_is_a_line_of_quotes() -> None:
    assert _write({}, {"a": "x"}, columns=["a"]) == 'a\r\n""\r\nx\r\n'
    assert _rows('a\r\n""\r\n\r\nx\r\n') == [{}, {"a": "x"}]


def test_a_test_set_without_columns_has_the_header_empty_marker() -> None:
    assert _write({}, {}, columns=[]) == '__empty__\r\n""\r\n""\r\n'
    assert _rows('__empty__\r\n""\r\n""\r\n') == [{}, {}]
    assert _rows('"""__empty__"""\r\n""\r\n1\r\n') == [{}, {"__empty__": 1}]


def test_a_row_with_an_undeclared_column_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="unknown column 'b'"):
        _write({"b": 1}, columns=["a"])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff", "{end}{end}"])
def test_all_line_endings_are_read_and_a_byte_order_mark_is_dropped(start: str, end: str) -> None:
    text = f'{start}a,b{end}1,2{end}{end}"x{end}y",4'.replace("{end}", end)

    assert _rows(text) == [{"a": "1", "b": 2}, {"a": f"x{end}y", "b": 4}]
    for index in range(1, len(text.encode())):
        chunks = [text.encode()[:index], text.encode()[index:]]
        assert [row.data for row in read_file(chunks, "csv")] == _rows(text)


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        ("a,b", ","),
        ("a;b", ";"),
        ("a\tb", "\t"),
        ("a|b", "|"),
        ("a", ","),
        ("a;b,c", ","),
        ("a|b;c;d", ";"),
        ("a|b;c", ","),
        ('"a;b;c",d', ","),
        ('"a,b,c";d', ";"),
        ('"a\n;b",d', ","),
        ('5" pipe;6" pipe', ";"),
        ('"a""b|c""d";e', ";"),
    ],
)
def test_the_delimiter_is_the_most_frequent_one_of_the_header_outside_of_quotes(header: str, delimiter: str) -> None:
    for text in (header, f'{header}\n"x;x;x;x"\n'):
        reader = _open(text)
        assert len(list(reader)) == text.count("x;x;x")
        assert reader.report.delimiter == delimiter


def test_the_delimiter_can_be_set() -> None:
    assert _rows("a;b,c\n1;2,3", delimiter=";") == [{"a": 1, "b,c": "2,3"}]
    assert _rows("a:b\n1:2", delimiter=":") == [{"a": 1, "b": 2}]
    for bad in ("", ";;", '"', "\n"):
        with pytest.raises(InvalidValue, match="delimiter must be a single character"):
            _rows("a", delimiter=bad)


def test_header_cells_are_names_and_never_typed() -> None:
    assert _rows('42,null,[1],""" a"""\n1,2,3,4') == [{"42": 1, "null": 2, "[1]": 3, " a": 4}]
    assert _rows(",b\n1,2") == [{"": 1, "b": 2}]


def test_agenta_metadata_columns_are_read_as_row_metadata() -> None:
    text = '__id__,q,__tags__,"""__id__"""\nab12,hi,"{""a"": 1}",mine\n,hi\n'

    assert list(_open(text)) == [
        FileRow({"q": "hi", "__id__": "mine"}, {"__id__": "ab12", "__tags__": {"a": 1}}, 2),
        FileRow({"q": "hi"}, None, 3),
    ]


def test_cells_that_are_missing_at_the_end_are_absent() -> None:
    assert _rows("a,b,c\n1\n,2\n") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("types", "data"),
    [
        ("auto", {"a": 42, "b": None, "c": "x"}),
        ("text", {"a": "42", "b": "null", "c": '"x"', "d": "", "e": "[1]"}),
    ],
)
def test_cells_are_typed_by_default_and_strings_with_types_text(types: CellTypes, data: dict[str, Any]) -> None:
    expected = data if types == "text" else data | {"e": [1]}

    assert _rows('a,b,c,d,e,f\n42,null,"""x""",,[1]\n', types=types) == [expected]


CHAT_CELL = '"[{""role"":""user"",""content"":""hi""}]"'
CHAT = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["42", "-1", "0.5"], [42, -1, 0.5]),
        (["true", "false"], [True, False]),
        (["42", "", "null"], [42, UNSET, None]),
        (["42", "Paris"], ["42", "Paris"]),
        (
            ["Paris", "", "42", "true", "null", "[1]", '"{""a"":1}"'],
            ["Paris", UNSET, "42", "true", "null", "[1]", '{"a":1}'],
        ),
        (["1", "1.50"], ["1", "1.50"]),
        (["Paris", '"""42"""', '""""""'], ["Paris", "42", ""]),
        (["42", '"""42"""'], [42, "42"]),
        (["42", '"""Paris"""', "Oslo", "null"], [42, "Paris", "Oslo", None]),
        (["[1]", '"{""a"":1}"'], [[1], {"a": 1}]),
        (["Hello", CHAT_CELL, '"{""role"":""user"",""content"":""hi""}"'], ["Hello", CHAT, CHAT[0]]),
        (["Hello", '"{""turns"":[{""user"":""hi""}]}"'], ["Hello", {"turns": [{"user": "hi"}]}]),
    ],
)
@pytest.mark.parametrize("size", [1, 1_000])
def test_a_column_with_a_text_is_text(cells: list[str], values: list[Any], size: int) -> None:
    for ordered_cells, ordered_values in ((cells, values), (cells[::-1], values[::-1])):
        text = "".join(f"{index},{cell}\n" for index, cell in enumerate(ordered_cells, 1)).encode()
        content = b"id,value\n" + text
        chunks = [content[index : index + size] for index in range(0, len(content), size)]

        rows = [row.data for row in read_file(chunks, "csv")]

        assert [row["id"] for row in rows] == [*range(1, len(cells) + 1)]
        assert [row.get("value", UNSET) for row in rows] == ordered_values


def test_a_column_of_texts_and_other_values_is_marked_in_one_cell() -> None:
    rows = [{"a": 1}, {"a": "007"}, {"a": "42"}, {"a": "x"}, {"a": "y"}, {"a": None}]
    text = b"".join(write_file(map(FileRow, rows), ["a"], "csv", mixed=["a"])).decode()

    assert text == 'a\r\n1\r\n"""007"""\r\n"""42"""\r\nx\r\ny\r\nnull\r\n'
    assert _rows(text) == rows


def test_a_quote_inside_an_unquoted_cell_is_literal() -> None:
    assert _rows('a,b\n5" pipe,6""\n') == [{"a": '5" pipe', "b": '6""'}]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "missing header"),
        ("\n\n", 1, "missing header"),
        ("a,b\n1,2\n1,2,3\n", 3, "expected 2 cells, got 3."),
        ("\n\na,b\n1,2\n\n1,2,3\n", 6, "expected 2 cells, got 3."),
        ('a,b\n"x\ny\r\nz",2\n1,2,3\n', 5, "expected 2 cells, got 3."),
        ("a,b,a\n", 1, "duplicate column 'a'."),
        ("\n,\n", 2, "duplicate column ''."),
        ('a,"""a"""\n', 1, "duplicate column "),
        ("__id__,__id__\n", 1, "duplicate column '__id__'."),
        ('a,"""b"\n', 1, 'invalid column name "b: a name that starts with a quote must be a JSON string.'),
        ('a\n1\n"x\n\n', 3, "unclosed quote."),
        ('a,b\n"x"y,2\n', 2, "unexpected text after a closing quote."),
        ('"a\n', 1, "unclosed quote."),
        (b"a,b\n1,2\nx,\xff\n", 3, "not valid UTF-8."),
        (b"a,b\n1,2\nx,\xc3", 3, "not valid UTF-8."),
        ("__empty__\nx\n", 2, "the column __empty__"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_errors_are_reported_with_their_line(text: str | bytes, line: int, message: str, size: int) -> None:
    full_text = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(InvalidValue) as caught:
        list(read_file([full_text[index : index + size] for index in range(0, len(full_text), size)], "csv"))

    assert message in caught.value.message
    assert caught.value.message.startswith(f"Line {line}: ")
    assert (caught.value.pointer, caught.value.details) == (f"/lines/{line}", {"line": line})


def test_rows_have_the_number_of_their_first_line() -> None:
    assert [row.line for row in _open('a\n\n1\n"x\ny"\r\n"z"\r3')] == [3, 4, 6, 7]


def test_a_spreadsheet_is_refused_with_a_hint() -> None:
    with pytest.raises(UnsupportedMediaType, match='Save the file as "CSV UTF-8"'):
        _rows(b"PK\x03\x04rest of an archive")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (TestsetLimits(rows=1), "a\n1\n2\n"),
        (TestsetLimits(columns=1), ",".join(str(number) for number in range(8))),
        (TestsetLimits(row_bytes=20), f"a\n{'x' * 20}\n"),
        (TestsetLimits(row_bytes=10), f'a\n"{"x" * 70_000}'),
        (TestsetLimits(file_bytes=5), "a\n1\n2\n"),
    ],
)
def test_files_beyond_a_limit_are_rejected(limits: TestsetLimits, text: str) -> None:
    with pytest.raises(TooLarge):
        _rows(text, limits=limits)


@settings(max_examples=40)
@given(ROWS)
def test_the_csv_module_reads_the_same_cells(rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = _write(*rows, columns=columns)

    parsed = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]

    empty = [""]
    assert parsed == [[format_cell(row[name]) if name in row else "" for name in columns] or empty for row in rows]
    assert all(quote_cell(cell) in text for row in parsed for cell in row)


@settings(max_examples=40)
@given(ROWS)
def test_no_cell_of_a_file_is_a_formula(rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for cells in csv.reader(io.StringIO(_write(*rows, columns=columns), newline="")):
        for cell in cells:
            assert cell.lstrip()[:1] not in ("=", "+", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
            assert cell.lstrip()[:1] != "-" or float(cell) <= 0
