"""The test set `jobchat_questions`: its content, and that Job Chat with a scripted model passes it."""

from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palaver import Case, Message
from palaver.evaluation.network_context import OfflineContext
from palaver.testing import client
from palaver_jobchat import evaluators, payload
from palaver_jobchat.evaluators import job_expected, job_rules
from palaver_jobchat.evaluators import scores as job_scores
from palaver_jobchat.service import build_workflow
from palaver_jobchat.settings import Settings
from palaver_jobchat.testing.script import read_script
from tests.engine.run_factory import reply_of, run_to_end
from tests.jobchat.entry_points import entry_points

PACKAGE, PATH = entry_points("palaver.testsets")["jobchat_questions"].split(":")
LINES = files(PACKAGE).joinpath(PATH).read_bytes().splitlines()
ROWS: list[dict[str, Any]] = [msgspec.json.decode(line) for line in LINES]
NON_INPUT_COLUMNS = {"topic", "content", "history", "expected"}
COLUMNS = {
    *("topic", "content", "history", "context", "suggest_code", "use_new_prompt", "download_adaptor_docs"),
    *("expected", "model_script"),
}
NO_EDIT_SCRIPT = [{"text": "I leave it as it is."}]
REWRITE_SCRIPT = [
    {
        "blocks": [
            {"text": "Done."},
            {"tool": {"name": "edit_job", "input": {"edits": [{"action": "rewrite", "new_code": "other();\n"}]}}},
        ]
    }
]


@pytest.fixture
def job_chat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Job Chat with a scripted model and without network access."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALAVER_JOBCHAT_ONLINE", "0")
    monkeypatch.setenv("PALAVER_JOBCHAT_CACHE", str(tmp_path / "cache"))
    return build_workflow(Settings(provider="scripted", online=False, cache=str(tmp_path / "cache")))


async def run_row(job_chat: Any, row: dict[str, Any]) -> Case:
    """Return Job Chat's answer to a row as a case."""
    history = [
        Message.user(turn["content"]) if turn["role"] == "user" else Message.assistant(turn["content"])
        for turn in row.get("history", [])
    ]
    inputs = {name: value for name, value in row.items() if name not in NON_INPUT_COLUMNS}
    (reply,) = reply_of(await run_to_end(job_chat, *history, Message.user(row["content"]), inputs=inputs)).messages
    return Case(row=row, inputs=inputs, expected=row["expected"], messages=(reply,), text=reply.text)


async def score_case(case: Case, *evaluators: Any) -> dict[str, tuple[str, bool | None, str]]:
    return {
        one.evaluator: (one.status, one.passed, one.reason)
        for evaluator in evaluators
        for one in await evaluator.bind({}, OfflineContext()).score(case)
    }


# Content


def test_each_topic_has_at_least_five_questions() -> None:
    topics = Counter(row["topic"] for row in ROWS)

    assert set(topics) == {"operations", "state", "cursors", "logs", "edits", "no-edit", "scope", "versions"}
    assert min(topics.values()) >= 5
    assert len(ROWS) >= 40
    assert {name for row in ROWS for name in row} == COLUMNS


def test_rows_are_unique_and_stored_as_compact_json_lines() -> None:
    assert len(set(LINES)) == len(LINES) == len(ROWS)
    assert [msgspec.json.encode(row) for row in ROWS] == LINES


def test_each_row_has_a_valid_payload_script_and_expectation() -> None:
    for row in ROWS:
        parsed = payload.parse_payload(
            {name: value for name, value in row.items() if name not in ("topic", "expected")}
        )
        expected = job_scores.parse_expected(row["expected"])

        assert len(read_script(row["model_script"])) >= 1
        assert isinstance(expected.edit, bool)
        assert parsed.mode == "edits" or expected.edit is False


def test_rows_include_crlf_jobs_blank_jobs_and_two_adaptor_versions() -> None:
    jobs = [row["context"]["expression"] for row in ROWS if "expression" in row.get("context", {})]

    assert any("\r\n" in job for job in jobs)
    assert any(not job.strip() for job in jobs)
    assert {row["context"]["adaptor"] for row in ROWS if row["topic"] == "versions"} >= {
        "@openfn/language-http@6.0.0",
        "@openfn/language-http@6.5.4",
    }


# Results


async def test_every_scripted_answer_passes(job_chat: Any) -> None:
    all_evaluators = [value for name, value in vars(evaluators).items() if name.startswith("job_")]
    for row in ROWS:
        case = await run_row(job_chat, row)

        results = await score_case(case, *all_evaluators)

        assert {name: score for name, score in results.items() if score[0] == "error" or score[1] is False} == {}
        assert results["job_expected"] == ("scored", True, "")
        has_code = row["expected"]["edit"] or (_is_plain(row) and "```js" in case.text)
        assert ("job_rules.parses" in results) == has_code


async def test_answers_that_do_the_opposite_fail(job_chat: Any) -> None:
    """A test set that every answer passes would not measure a real model."""
    for row in ROWS:
        script = NO_EDIT_SCRIPT if row["expected"]["edit"] or _is_plain(row) else REWRITE_SCRIPT

        results = await score_case(await run_row(job_chat, {**row, "model_script": script}), job_expected)

        assert (row["content"], *results["job_expected"][:2]) == (row["content"], "scored", False)


async def test_answer_with_a_function_of_another_adaptor_version_fails(job_chat: Any) -> None:
    rows = [row for row in ROWS if row["content"] == "Fetch only what changed since the last run."]
    new, old = sorted(rows, key=lambda row: row["context"]["adaptor"], reverse=True)

    results = await score_case(
        await run_row(job_chat, {**old, "model_script": new["model_script"]}), job_rules, job_expected
    )

    assert [name for name, (_, passed, _) in results.items() if not passed] == [
        "job_rules.known_functions",
        "job_expected",
    ]


async def test_rows_can_be_sent_to_the_service_unchanged(job_chat: Any) -> None:
    async with client(job_chat) as http:
        responses = [await http.post("/services/job_chat", json=row) for row in ROWS]

    assert [answer.status_code for answer in responses] == [200] * len(ROWS)
    assert [answer.json().get("suggested_code") is not None for answer in responses] == [
        row["expected"]["edit"] for row in ROWS
    ]


def _is_plain(row: dict[str, Any]) -> bool:
    return not row.get("suggest_code") and not row.get("use_new_prompt")
