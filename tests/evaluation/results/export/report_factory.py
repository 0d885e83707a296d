"""Reports of small evaluations, for tests of exports."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from palaver.core.messages import Usage
from palaver.evaluation.results.compare import ComparedVariant, compare_variants
from palaver.evaluation.results.export.report import Report
from palaver.evaluation.results.summary import summarize
from palaver.storage.evaluations.results import CellScore, ResultDetail, StoredResult
from tests.evaluation.results.result_factory import CellOutcome, pack_rows, results, row

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def score(name: str, outcome: CellOutcome, reason: str = "") -> CellScore:
    passed = outcome if isinstance(outcome, bool) else None
    number = float(outcome) if isinstance(outcome, bool | float) else None
    status: Any = outcome if outcome in ("error", "skipped") else "scored"
    return CellScore(
        evaluator=0,
        name=name,
        status=status,
        passed=passed,
        score=number,
        label=None,
        reason=reason,
        details=None,
        seconds=0.25,
        usage=None,
        cost=None,
    )


def result_detail(
    place: int,
    variant: int,
    scores: Sequence[CellScore],
    *,
    cell: int,
    repeat: int = 0,
    error: dict[str, Any] | None = None,
    question: str = "What?",
    answer: str = "That.",
) -> ResultDetail:
    result = StoredResult(
        cell=cell,
        seq=cell + 1,
        row=row(place + 1),
        variant=variant,
        repeat=repeat,
        status="done" if error is None else "failed",
        error=error,
        latency=0.5,
        first_output=0.1,
        usage=Usage(input_tokens=3, output_tokens=4),
        cost=0.01,
        finish="stop",
        attempts=1,
        trace_id="ab" * 16,
        run="run_1",
        started_at=NOON,
        ended_at=NOON,
        preview_in={"renderer": "text", "text": question, "body": question, "cut": 0},
        preview_out={"renderer": "text", "text": answer, "body": answer, "cut": 0},
        scores=list(scores),
    )
    return ResultDetail(result, {"text": answer, "inputs": {"q": question}, "status": "ignored"})


HOSTILE = "</table><script>alert(1)</script> & \"x\" 'y' \x00\x08 |pipe `tick`\n=1+1"


def report(cells: Sequence[ResultDetail], outcomes: dict[str, list[list[list[CellOutcome]]]], **more: Any) -> Report:
    variants = more.pop("variants", ("base", "new"))
    run = results(outcomes, id="ev_1", variants=variants)
    comparisons = [
        compare_variants(ComparedVariant(run, 0), ComparedVariant(run, index)) for index in range(1, len(variants))
    ]
    fields: dict[str, Any] = {
        "id": "ev_1",
        "name": "prompt v3",
        "state": "partly",
        "testset": "questions",
        "revision": 4,
        "variants": variants,
        "rows": run.shape.rows,
        "repeats": run.shape.repeats,
        "created_at": "2026-11-16T11:59:00Z",
        "ended_at": "2026-11-16T12:00:00Z",
        "summary": summarize(run),
        "comparisons": comparisons,
        "cells": lambda: iter(cells),
    }
    return Report(**fields | more)


FAILURE = {"code": "timeout", "message": "It took longer than 60 s."}
CELLS = (
    result_detail(0, 0, [score("exact", True), score("similar", 0.9)], cell=0),
    result_detail(0, 1, [score("exact", False, "'That.' is not 'This.'"), score("similar", 0.5)], cell=1),
    result_detail(
        1, 0, [score("exact", True), score("similar", "error", "needs_text: it is an object")], cell=2, question=""
    ),
    result_detail(1, 1, [], cell=3, error=FAILURE, question=""),
)
PLAIN = report(
    CELLS,
    {"exact": [[[True], [False]], [[True], ["failed"]]], "similar": [[[0.9], [0.5]], [["error"], ["failed"]]]},
)

FLAKY = report(
    [
        result_detail(0, 0, [score("exact", True)], cell=0),
        result_detail(0, 0, [score("exact", False, "no")], cell=1, repeat=1),
        result_detail(0, 0, [score("exact", True)], cell=2, repeat=2),
    ],
    {"exact": [[[True, False, True]]]},
    variants=("base",),
)

_OUTCOMES: dict[str, list[list[list[CellOutcome]]]] = {"exact": [[[True]], [[True]], [[False]]]}
CHANGED = report(
    [],
    _OUTCOMES,
    variants=("base",),
    comparisons=[
        compare_variants(
            ComparedVariant(results(_OUTCOMES, id="ev_0"), 0),
            ComparedVariant(results(_OUTCOMES, id="ev_1", rows=pack_rows(1) + pack_rows(2, 3, content=1)), 0),
        )
    ],
)
"""Compared with an earlier evaluation; two of three rows have changed."""

BAD = report(
    [result_detail(0, 0, [score(HOSTILE, False, HOSTILE)], cell=0, question=HOSTILE, answer=HOSTILE)],
    {HOSTILE: [[[False]]]},
    variants=(HOSTILE,),
    name=HOSTILE,
    testset=HOSTILE,
    reason=HOSTILE,
    failed_gates=[HOSTILE],
)
