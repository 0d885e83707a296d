"""The second and last request, when edits failed or broke the job: the first one, the answer, and what was wrong."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from palaver_jobchat.edit_report import failure_reason
from palaver_jobchat.edits import EditOutcome, EditResult, requested_edits
from palaver_jobchat.javascript import Syntax
from palaver_jobchat.prompt import Prompt, element
from palaver_jobchat.system_prompt import EDIT_JOB

TOOL_CHOICE: Final = {"type": "tool", "name": EDIT_JOB["name"]}
"""A correction is made by the tool, and by nothing else."""

_ASKING = (
    "Edits not named here were applied. Call edit_job once more, with one edit for each that failed, in their order; "
    "or with what mends the syntax. The job's code now:"
)


def correction(before: Prompt, answer: Sequence[dict[str, Any]], result: EditResult, syntax: Syntax) -> Prompt:
    """The request that asks for a correction. `answer` is the model's: its blocks of text and of calls."""
    said = [_sendable(block) for block in answer if block.get("type") != "text" or str(block.get("text", "")).strip()]
    calls = [block for block in said if block.get("type") == "tool_use"]
    return Prompt(
        system=before.system,
        messages=[
            *before.messages,
            {"role": "assistant", "content": said},
            {"role": "user", "content": list(_results(calls, result, syntax))},
        ],
        tools=before.tools,
    )


def _sendable(block: dict[str, Any]) -> dict[str, Any]:
    """The block as the API takes it back: a call's input is an object, also when the model wrote something else."""
    if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {}}
    return block


def _results(calls: Sequence[dict[str, Any]], result: EditResult, syntax: Syntax) -> Iterator[dict[str, Any]]:
    """One result for each call: what became of its edits; the last one also tells how the job stands."""
    ours = [call for call in calls if call.get("name") == EDIT_JOB["name"]]
    numbered = list(enumerate(result.outcomes, 1))
    for call in calls:
        if call.get("name") != EDIT_JOB["name"]:
            yield _result(call, "There is no such tool.", is_error=True)
            continue
        count = len(requested_edits([call.get("input")]))
        edits, numbered = numbered[:count], numbered[count:]
        lines = [line for number, outcome in edits for line in _failure(number, outcome)]
        is_last = call is ours[-1]
        if is_last:
            lines += [f"Line {fault.line}, column {fault.column}: {fault.message}." for fault in syntax.errors]
            lines += [] if syntax.ok else ["The code does not parse."]
        is_error = bool(lines)
        if is_last:
            lines += [_ASKING, element("job", result.code)]
        yield _result(call, "\n".join(lines) or "Applied.", is_error=is_error)


def _failure(number: int, outcome: EditOutcome) -> Iterator[str]:
    if outcome.state == "failed":
        yield f"Edit {number} was not applied: {failure_reason(outcome)}."


def _result(call: dict[str, Any], text: str, *, is_error: bool) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": call.get("id"), "content": text}
    return {**result, "is_error": True} if is_error else result
