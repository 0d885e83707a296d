"""A rehearsal: real edits of the caller's job without a model."""

from types import SimpleNamespace
from typing import Any

import pytest

from palaver_jobchat import payload
from palaver_jobchat.edits import apply_edits, requested_edits
from palaver_jobchat.models.anthropic import Anthropic
from palaver_jobchat.models.base import ResponseFinished, TextDelta, ToolCallFinished, UsageReport
from palaver_jobchat.models.rehearsal import rehearsal_step
from palaver_jobchat.prompt import Prompt, build_prompt
from palaver_jobchat.testing import FakeAnthropic
from tests.jobchat.models.model_requests import NO_RETRY, collect_events, usage_of

OPENING = "Test mode: no model was called."
JOB = "get('/patients');\n\nfn(state => {\n  const ids = state.data.map(x => x.id);\n  return { ...state, ids };\n});\n"
STEP = """\
fn(state => {
  const records = Array.isArray(state.data) ? state.data : [state.data];
  console.log(`${records.length} records`);
  return state;
});"""


def question_prompt(question: str, job: str = "", *, log: str = "", suggest: bool = True) -> Prompt:
    context = {"expression": job, "log": log}
    return build_prompt(
        payload.parse_payload({"content": question, "context": context, "suggest_code": suggest}, payload.LIMITS)
    )


async def run_rehearsal(question: Prompt, **request_fields: Any) -> tuple[str, list[object]]:
    """Return the text and the edits that the real client receives."""
    with FakeAnthropic(rehearsal_step) as fake:
        events = await collect_events(
            Anthropic(api_key="rehearsal", base_url=fake.url, retry_policy=NO_RETRY), question, **request_fields
        )
    assert events[0] == UsageReport(usage_of(0, 0))
    assert isinstance(events[-1], ResponseFinished)
    text = "".join(one.text for one in events if isinstance(one, TextDelta))
    return text, requested_edits([one.input for one in events if isinstance(one, ToolCallFinished)])


async def test_empty_job_gets_a_small_example_job() -> None:
    text, edits = await run_rehearsal(question_prompt("Write a job that fetches patients."))

    assert text == f"{OPENING} I'll write a small job that fetches patients and logs how many there are."
    assert apply_edits("", edits).code == f"get('/patients', {{ query: {{ limit: 100 }} }});\n\n{STEP}\n"


@pytest.mark.parametrize(
    ("question", "code", "where"),
    [
        ("rename state to s", JOB.replace("state", "s"), "in 3 places"),
        ("Please rename `x` to `patient`?", JOB.replace("x => x", "patient => patient"), "in 2 places"),
        ("Rename 'id' to 'key'", JOB.replace("x.id)", "x.key)"), "in one place"),
    ],
)
async def test_rename_changes_each_occurrence_of_the_identifier(question: str, code: str, where: str) -> None:
    text, edits = await run_rehearsal(question_prompt(question, JOB))

    assert text.startswith(f"{OPENING} I'll rename ")
    assert text.endswith(f"{where}.")
    assert apply_edits(JOB, edits).code == code


async def test_rename_of_an_unknown_name_changes_nothing() -> None:
    text, edits = await run_rehearsal(question_prompt("rename foo to bar", JOB))

    assert (text, edits) == (f"{OPENING} `foo` doesn't occur in the job, so there's nothing to rename.", [])


@pytest.mark.parametrize(
    "job", [JOB, JOB.replace("\n", "\r\n"), "get('/a');\nget('/a');\n", "get('/a')", "a();\na();\na();", "a();\n" * 50]
)
async def test_any_other_change_adds_a_step_at_the_end(job: str) -> None:
    text, edits = await run_rehearsal(question_prompt("Add a log of how many there are", job))
    result = apply_edits(job, edits)

    newline = "\r\n" if "\r\n" in job else "\n"
    assert text == f"{OPENING} I'll add a step at the end that logs how many records there are."
    assert [outcome.state for outcome in result.outcomes] == ["applied"]
    assert result.code.rstrip() == job.rstrip() + 2 * newline + STEP.replace("\n", newline)

    second_text, second_edits = await run_rehearsal(question_prompt("Add a log of how many there are", result.code))
    assert (second_text, second_edits) == (
        f"{OPENING} The job already logs how many records there are, so I won't change it.",
        [],
    )


async def test_a_question_is_answered_and_changes_nothing() -> None:
    text, edits = await run_rehearsal(
        question_prompt("What does this job do?", "get('/a');\nhttp.each(x, y);\nfoo();\n")
    )

    assert edits == []
    assert text == (
        f"{OPENING} The job has 3 operations:\n\n"
        "1. `get` fetches a resource and puts it in state.data.\n"
        "2. `http.each` runs an operation once for every item.\n"
        "3. `foo` is a function of the adaptor.\n\n"
        "To see a suggested edit, ask for a change, such as “rename … to …”."
    )


async def test_question_without_a_job_explains_what_a_job_is() -> None:
    text, edits = await run_rehearsal(question_prompt("How do I write a job?"))

    assert edits == []
    assert text.startswith(f"{OPENING} A job is a list of operations that run in order.")


@pytest.mark.parametrize(
    ("log", "excerpt"),
    [
        ("R/T start\nTypeError: oh no\n  at job.js:4:9", "It refers to line 4 of the job:\n\n```js\nconst ids"),
        ("a\nError: line 1 is bad", "It refers to line 1 of the job:\n\n```js\nget('/patients');\n```"),
        ("a\nReferenceError: ids is not defined", "`ids` is on line 4 of the job:\n\n```js\nconst ids"),
        ("a\nrequest failed with 404", "reports an error:\n\n```\nrequest failed with 404\n```"),
    ],
)
async def test_answer_points_to_the_error_in_the_log(log: str, excerpt: str) -> None:
    text, edits = await run_rehearsal(question_prompt("Why does it fail?", JOB, log=log))

    assert edits == []
    assert text.startswith(f"{OPENING} Line 2 of the log reports an error:")
    assert excerpt in text


async def test_log_without_an_error_is_ignored() -> None:
    text, _ = await run_rehearsal(question_prompt("What does it do?", JOB, log="all is well"))

    assert text.startswith(f"{OPENING} The job has 2 operations:")


async def test_code_is_in_the_text_if_edits_are_not_allowed() -> None:
    text, edits = await run_rehearsal(question_prompt("Add a log", JOB, suggest=False))

    assert edits == []
    assert text.endswith(f"\n\n```js\n{STEP}\n```")


async def test_correction_request_gets_no_edits() -> None:
    assert await run_rehearsal(question_prompt("Add a log", JOB), must_edit=True) == (OPENING, [])


def test_message_with_plain_string_content_is_answered() -> None:
    request: Any = SimpleNamespace(body={"messages": [{"role": "user", "content": "What is a job?"}]})

    assert rehearsal_step(request)["blocks"][0]["text"].startswith(OPENING)
