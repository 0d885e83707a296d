"""JSON Lines export of an evaluation."""

from msgspec import json

from palaver.evaluation.results.export import formats
from tests.evaluation.results.export.report_factory import PLAIN
from tests.evaluation.results.result_factory import row


def test_the_first_line_is_the_evaluation_and_each_other_line_a_complete_cell() -> None:
    first, *cells = [json.decode(line) for line in formats.write_jsonl(PLAIN)]

    assert (first["type"], first["id"], first["name"], first["state"]) == ("evaluation", "ev_1", "prompt v3", "partly")
    assert [one["name"] for one in first["summary"]["variants"]] == ["base", "new"]
    assert [one["candidate"] for one in first["comparisons"]] == ["ev_1:new"]
    assert cells[1] == {
        "type": "cell",
        "id": "cell_1",
        "row": row(1),
        "variant": "new",
        "repeat": 0,
        "status": "done",
        "error": None,
        "latency": 0.5,
        "first_output": 0.1,
        "usage": {"input_tokens": 3, "output_tokens": 4},
        "cost": 0.01,
        "finish": "stop",
        "attempts": 1,
        "trace_id": "ab" * 16,
        "run": "run_1",
        "started_at": "2026-11-16T12:00:00Z",
        "ended_at": "2026-11-16T12:00:00Z",
        "scores": [
            {
                "evaluator": "exact",
                "status": "scored",
                "passed": False,
                "score": 0.0,
                "label": None,
                "reason": "'That.' is not 'This.'",
                "details": {},
                "seconds": 0.25,
                "usage": None,
                "cost": None,
            },
            {
                "evaluator": "similar",
                "status": "scored",
                "passed": None,
                "score": 0.5,
                "label": None,
                "reason": "",
                "details": {},
                "seconds": 0.25,
                "usage": None,
                "cost": None,
            },
        ],
        "text": "That.",
        "inputs": {"q": "What?"},
    }
    assert [cell["id"] for cell in cells] == ["cell_0", "cell_1", "cell_2", "cell_3"]
