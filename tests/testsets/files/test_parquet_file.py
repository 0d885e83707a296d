"""Parquet: native columns where possible, else JSON text, and files of other programs."""

import io
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from palaver.errors import InvalidValue, NotImplementedYet, TooLarge
from palaver.testsets.files import FileRow, open_reader, open_writer, read_file, write_file
from palaver.testsets.limits import TestsetLimits


def _write_and_open(rows: list[dict[str, Any]]) -> Any:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return parquet.ParquetFile(io.BytesIO(b"".join(write_file(map(FileRow, rows), columns, "parquet"))))


def _write_with_pyarrow(table: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def test_a_column_of_one_kind_is_native_and_any_other_is_json_text() -> None:
    rows: list[dict[str, Any]] = [
        {"s": "a", "i": 1, "f": 1.0, "b": True, "null": "x", "big": 2**63, "two": 1, "o": {"a": 1}},
        {"s": "", "i": -(2**63), "f": -0.0, "b": False, "null": None, "big": 1, "two": 1.0, "o": [1]},
        {},
    ]

    file = _write_and_open(rows)

    assert {field.name: str(field.type) for field in file.schema_arrow} == {
        "s": "string",
        "i": "int64",
        "f": "double",
        "b": "bool",
        "null": "string",
        "big": "string",
        "two": "string",
        "o": "string",
    }
    assert file.schema_arrow.metadata[b"palaver.json"] == b'["null","big","two","o"]'
    assert file.read().to_pylist()[1:] == [
        {"s": "", "i": -(2**63), "f": -0.0, "b": False, "null": "null", "big": "1", "two": "1.0", "o": "[1]"},
        dict.fromkeys(rows[0]),
    ]


def test_columns_written_by_other_programs_become_json() -> None:
    table = pa.table(
        {
            "when": pa.array([datetime(2026, 11, 16, 11, tzinfo=UTC), None]),
            "price": pa.array([Decimal("1.50"), Decimal("2.00")]),
            "raw": pa.array([b"\x00\xff", b""]),
            "numbers": pa.array([float("nan"), 1.5]),
            "small": pa.array([1, 2], pa.int8()),
            "nested": pa.array([{"a": [1, None]}, None]),
            "words": pa.array(["x", "x"]).dictionary_encode(),
            "__id__": pa.array(["one", "two"]),
        }
    )

    assert list(read_file([_write_with_pyarrow(table)], "parquet")) == [
        FileRow(
            {
                "when": "2026-11-16T11:00:00Z",
                "price": "1.50",
                "raw": "AP8=",
                "numbers": None,
                "small": 1,
                "nested": {"a": [1, None]},
                "words": "x",
            },
            {"__id__": "one"},
            1,
        ),
        FileRow({"price": "2.00", "raw": "", "numbers": 1.5, "small": 2, "words": "x"}, {"__id__": "two"}, 2),
    ]


def test_many_rows_are_written_in_row_groups() -> None:
    file = _write_and_open([{"n": number} for number in range(25_000)])

    assert [file.metadata.row_group(group).num_rows for group in range(3)] == [10_000, 10_000, 5_000]


def test_missing_pyarrow_raises_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    for open_file in (lambda: open_reader("parquet"), lambda: open_writer("parquet", [])):
        with pytest.raises(NotImplementedYet, match=r"pip install 'palaver\[parquet\]'"):
            open_file()


@pytest.mark.parametrize("text", [b"", b"PAR1", b"no such thing", b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_a_file_that_is_not_parquet_is_rejected(text: bytes) -> None:
    with pytest.raises(InvalidValue, match=r"^Invalid or unsupported Parquet file"):
        list(read_file([text], "parquet"))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (b"5", r"^The metadata key palaver\.json must contain"),
        (b"[", r"^The metadata key palaver\.json must contain"),
        (b'["n"]', r"^Row 1: a column listed under palaver\.json"),
    ],
)
def test_invalid_palaver_metadata_is_rejected(metadata: bytes, message: str) -> None:
    table = pa.table({"n": [1]}).replace_schema_metadata({b"palaver.json": metadata})

    with pytest.raises(InvalidValue, match=message):
        list(read_file([_write_with_pyarrow(table)], "parquet"))


def test_two_columns_with_the_same_name_are_rejected() -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])

    with pytest.raises(InvalidValue, match=r"^Two columns have the same name"):
        list(read_file([_write_with_pyarrow(table)], "parquet"))


@pytest.mark.parametrize(
    "limits",
    [TestsetLimits(rows=1), TestsetLimits(columns=1), TestsetLimits(row_bytes=100), TestsetLimits(file_bytes=100)],
    ids=["rows", "columns", "row", "file"],
)
def test_files_beyond_a_limit_are_rejected(limits: TestsetLimits) -> None:
    table = pa.table({str(number): ["x" * 200, "y"] for number in range(8)})

    with pytest.raises(TooLarge):
        list(read_file([_write_with_pyarrow(table)], "parquet", limits=limits))
