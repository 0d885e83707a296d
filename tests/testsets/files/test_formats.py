"""Formats by file name or media type."""

import pytest

from palaver.errors import UnsupportedMediaType
from palaver.testsets.files import MEDIA_TYPES, Format, format_of


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("cases.jsonl", "jsonl"),
        ("CASES.NDJSON", "jsonl"),
        ("a/b.c/cases.json", "json"),
        ("cases.csv", "csv"),
        ("cases.tsv", "csv"),
        ("cases.parquet", "parquet"),
        ("text/csv; charset=utf-8", "csv"),
        ("Application/JSON", "json"),
        *[(media_type, form) for form, media_type in MEDIA_TYPES.items()],
    ],
)
def test_the_format_is_detected_by_file_name_or_media_type(name: str, form: Format) -> None:
    assert format_of(name) == form


@pytest.mark.parametrize(
    "name",
    [
        "cases.xlsx",
        "cases.XLS",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.ms-excel",
    ],
)
def test_a_spreadsheet_is_refused_with_a_hint(name: str) -> None:
    with pytest.raises(UnsupportedMediaType, match='Save the file as "CSV UTF-8"'):
        format_of(name)


@pytest.mark.parametrize("name", ["", "cases", "cases.txt", "multipart/form-data", "text/plain"])
def test_unknown_formats_are_rejected(name: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="Unsupported format"):
        format_of(name)
