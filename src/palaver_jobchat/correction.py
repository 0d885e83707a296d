"""The prompt of the correction request: the first prompt, the model's response, and what was wrong with its edits."""

from collections.abc import Iterator, Sequence
from typing import Any

from palaver_jobchat.edit_report import failure_reason
from palaver_jobchat.edits import EditOutcome, EditResult, requested_edits
from palaver_jobchat.javascript import Syntax
from palaver_jobchat.prompt import Prompt, element
from palaver_jobchat.system_prompt import EDIT_JOB

_INSTRUCTIONS = (
    "Edits not named here were applied. Call edit_job once more, with one edit for each that failed, in their order; "
    "or with what mends the syntax. The job's code now:"
)


def correction_prompt(before: Prompt, answer: Sequence[dict[str, Any]], result: EditResult, syntax: Syntax) -> Prompt:
    """Return the prompt for a correction. `answer` holds the content blocks of the model's response."""
    blocks = [_sendable(block) for block in answer if block.get("type") != "text" or str(block.get("text", "")).strip()]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    return Prompt(
        system=before.system,
        messages=[
            *before.messages,
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": list(_results(calls, result, syntax))},
        ],
        tools=before.tools,
    )


def _sendable(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block as the API accepts it: the input of a call must be an object."""
    if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {}}
    return block


def _results(calls: Sequence[dict[str, Any]], result: EditResult, syntax: Syntax) -> Iterator[dict[str, Any]]:
    """Yield one tool result per call with the outcome of its edits; the last one adds the current code."""
    edit_calls = [call for call in calls if call.get("name") == EDIT_JOB["name"]]
    numbered = list(enumerate(result.outcomes, 1))
    for call in calls:
        if call.get("name") != EDIT_JOB["name"]:
            yield _result(call, "There is no such tool.", is_error=True)
            continue
        count = len(requested_edits([call.get("input")]))
        call_edits, numbered = numbered[:count], numbered[count:]
        lines = [line for number, outcome in call_edits for line in _failure(number, outcome)]
        is_last = call is edit_calls[-1]
        if is_last:
            lines += [f"Line {problem.line}, column {problem.column}: {problem.message}." for problem in syntax.errors]
            lines += [] if syntax.ok else ["The code does not parse."]
        is_error = bool(lines)
        if is_last:
            lines += [_INSTRUCTIONS, element("job", result.code)]
        yield _result(call, "\n".join(lines) or "Applied.", is_error=is_error)


def _failure(number: int, outcome: EditOutcome) -> Iterator[str]:
    if outcome.state == "failed":
        yield f"Edit {number} was not applied: {failure_reason(outcome)}."


def _result(call: dict[str, Any], text: str, *, is_error: bool) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": call.get("id"), "content": text}
    return {**result, "is_error": True} if is_error else result
