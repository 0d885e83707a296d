"""The export formats by name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from palaver.evaluation.results.export import csv, html, jsonl, junit, markdown
from palaver.evaluation.results.export.report import Report

ExportName = Literal["junit", "markdown", "csv", "jsonl", "html"]


class ExportFormat(NamedTuple):
    ending: str
    """File name extension."""
    media_type: str
    write: Callable[[Report], Iterator[bytes]]


EXPORT_FORMATS: Mapping[ExportName, ExportFormat] = {
    "junit": ExportFormat("xml", junit.MEDIA_TYPE, junit.write),
    "markdown": ExportFormat("md", markdown.MEDIA_TYPE, markdown.write),
    "csv": ExportFormat("csv", csv.MEDIA_TYPE, csv.write),
    "jsonl": ExportFormat("jsonl", jsonl.MEDIA_TYPE, jsonl.write),
    "html": ExportFormat("html", html.MEDIA_TYPE, html.write),
}
