"""Export as JSON Lines: the evaluation with its figures, then every cell with its full body."""

from collections.abc import Iterator
from typing import Any

import msgspec

from palaver.core import json
from palaver.evaluation.plan.plan import format_cell_id
from palaver.evaluation.results.export.report import Report
from palaver.storage.evaluations.results import ResultDetail, StoredResult, StoredScore

MEDIA_TYPE = "application/x-ndjson"


def write(report: Report) -> Iterator[bytes]:
    head = {name: value for name, value in msgspec.structs.asdict(report).items() if name != "cells"}
    yield json.encode({"type": "evaluation", **head}) + b"\n"
    for whole in report.cells():
        yield json.encode(_encode_cell(report, whole)) + b"\n"


def _encode_cell(report: Report, whole: ResultDetail) -> dict[str, Any]:
    result: StoredResult = whole.result
    fields = msgspec.structs.asdict(result)
    for name in ("cell", "seq", "scores", "preview_in", "preview_out"):
        del fields[name]
    body: dict[str, Any] = whole.body or {}
    return {
        "type": "cell",
        "id": format_cell_id(result.cell),
        **fields,
        "variant": report.variants[result.variant],
        "scores": [_encode_score(score) for score in result.scores],
        **{name: value for name, value in body.items() if name not in fields},
    }


def _encode_score(score: StoredScore) -> dict[str, Any]:
    fields = msgspec.structs.asdict(score)
    del fields["evaluator"], fields["name"]
    return {"evaluator": score.name, **fields, "details": score.details or {}}
