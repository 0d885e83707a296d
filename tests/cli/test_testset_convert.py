"""`palaver testset convert`: convert between formats chosen by the file names."""

from itertools import pairwise
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from palaver.cli.main import cli
from palaver.errors import InvalidValue, PalaverError, TargetNotFound

CSV = b'__id__,q,messages,n\r\nab,007,"[{""role"":""user"",""content"":""hi""}]",\r\ncd,"""=1""",,1.50\r\n'
JSONL = b'{"__id__":"ab","q":"007","messages":[{"role":"user","content":"hi"}]}\n{"__id__":"cd","q":"=1","n":"1.50"}\n'


def _run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli, ["testset", "convert", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_converting_through_all_formats_and_back_gives_the_same_file(tmp_path: Path) -> None:
    names = ["a.csv", "b.jsonl", "c.parquet", "d.json", "e.csv"]
    (tmp_path / "a.csv").write_bytes(CSV)

    for source, target in pairwise(names):
        report = f"Wrote 2 rows with 3 columns to {tmp_path / target}.\n"
        assert _run(tmp_path / source, tmp_path / target).stderr == report

    assert (tmp_path / "b.jsonl").read_bytes() == JSONL
    assert (tmp_path / "e.csv").read_bytes() == CSV
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_types_text_reads_every_cell_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a:b\n1:\n")

    _run(tmp_path / "a.csv", tmp_path / "a.jsonl", "--types", "text", "--delimiter", ":")

    assert (tmp_path / "a.jsonl").read_bytes() == b'{"a":"1","b":""}\n'


def test_values_wrapped_into_rows_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'[5, {"a": 1}]')

    assert "note: 1 value that is not an object was imported" in _run(tmp_path / "a.json", tmp_path / "a.csv").stderr
    assert (tmp_path / "a.csv").read_bytes() == b"value,a\r\n5,\r\n,1\r\n"


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("bad.csv", "out.jsonl", InvalidValue),
        ("missing.csv", "out.jsonl", TargetNotFound),
        ("bad.csv", "out.xlsx", click.UsageError),
        ("good.csv", "no/such/folder/out.jsonl", TargetNotFound),
    ],
)
def test_a_failed_conversion_leaves_the_target_unchanged(
    tmp_path: Path, source: str, target: str, error: type[PalaverError | click.UsageError]
) -> None:
    (tmp_path / "good.csv").write_bytes(b"a\n1\n")
    (tmp_path / "bad.csv").write_bytes(b"a\n1,2\n")
    (tmp_path / "out.jsonl").write_bytes(b"before")

    with pytest.raises(error):
        _run(tmp_path / source, tmp_path / target)

    assert (tmp_path / "out.jsonl").read_bytes() == b"before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.csv", "good.csv", "out.jsonl"]
