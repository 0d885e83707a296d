"""The formats that a run can be written in, by name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from palaver.evaluation.reading.exports import csv, html, jsonl, junit, markdown
from palaver.evaluation.reading.exports.report import Report

Form = Literal["junit", "markdown", "csv", "jsonl", "html"]


class Format(NamedTuple):
    """How one is written."""

    ending: str
    """Of a file's name."""
    media_type: str
    write: Callable[[Report], Iterator[bytes]]


FORMATS: Mapping[Form, Format] = {
    "junit": Format("xml", junit.MEDIA_TYPE, junit.write),
    "markdown": Format("md", markdown.MEDIA_TYPE, markdown.write),
    "csv": Format("csv", csv.MEDIA_TYPE, csv.write),
    "jsonl": Format("jsonl", jsonl.MEDIA_TYPE, jsonl.write),
    "html": Format("html", html.MEDIA_TYPE, html.write),
}
