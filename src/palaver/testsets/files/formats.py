"""Which file format a name or a media type means."""

from pathlib import PurePath
from typing import Literal

from palaver.errors import UnsupportedMediaType

Format = Literal["jsonl", "json", "csv", "parquet"]

MEDIA_TYPES: dict[Format, str] = {
    "jsonl": "application/x-ndjson",
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}

_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_READ_TYPES: dict[str, Format] = {
    **{media_type: name for name, media_type in MEDIA_TYPES.items()},
    "application/jsonl": "jsonl",
    "application/ndjson": "jsonl",
    "application/x-jsonlines": "jsonl",
    "application/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/x-parquet": "parquet",
}
_SHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
_SHEET_TYPES = ("spreadsheet", "ms-excel")
SAVE_AS_CSV = 'Spreadsheets are not read: save it as "CSV UTF-8" (in Excel: File, Save As) and send that file.'


def format_of(name: str) -> Format:
    """The format of a file name or media type. Raises UnsupportedMediaType."""
    word = name.partition(";")[0].strip().lower()
    if known := _READ_TYPES.get(word):
        return known
    ending = PurePath(word).suffix
    if ending in _SHEETS or any(kind in word for kind in _SHEET_TYPES if "/" in word):
        raise UnsupportedMediaType(SAVE_AS_CSV)
    if known := _ENDINGS.get(ending):
        return known
    raise UnsupportedMediaType(
        f"{name[:80]!r} is no format of ours. Known: .jsonl, .json, .csv and .parquet, or their media types."
    )
