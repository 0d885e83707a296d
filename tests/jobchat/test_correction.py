"""The request to the model to correct its edits."""

from typing import Any

from palaver_jobchat.assistant import correction_prompt
from palaver_jobchat.edit_report import EditedJob
from palaver_jobchat.edits import apply_edits, requested_edits
from palaver_jobchat.javascript import Syntax, SyntaxProblem
from palaver_jobchat.payload import JobContext, Payload
from palaver_jobchat.prompt import build_prompt, element

FIRST_PROMPT = build_prompt(Payload(content="rename it", context=JobContext(expression="a();\na();\n"), mode="edits"))
INSTRUCTION = (
    "All edits not listed here were applied. Call edit_job once more, with one edit for each failed edit, in order, or "
    "with edits that fix the errors. The job's current code:"
)


def call(number: int, tool_input: Any, name: str = "edit_job") -> dict[str, Any]:
    return {"type": "tool_use", "id": f"call{number}", "name": name, "input": tool_input}


def replace(old: str, new: str) -> dict[str, str]:
    return {"action": "replace", "old_code": old, "new_code": new}


def test_correction_lists_failures_per_call_and_the_code_once() -> None:
    first, second = {"edits": [replace("a", "b"), replace("a();\na", "c();\na")]}, {"edits": [replace("z", "y")]}
    answer = [
        {"type": "text", "text": "I'll rename it."},
        {"type": "text", "text": " "},
        call(1, first),
        call(2, {}, "search"),
        call(3, second),
    ]
    result = apply_edits("a();\na();\n", requested_edits([first, second]))

    prompt = correction_prompt(FIRST_PROMPT, answer, EditedJob(result))

    assert (prompt.system, prompt.tools, prompt.messages[:-2]) == (
        FIRST_PROMPT.system,
        FIRST_PROMPT.tools,
        FIRST_PROMPT.messages,
    )
    assert prompt.messages[-2] == {"role": "assistant", "content": [answer[0], *answer[2:]]}
    assert prompt.messages[-1] == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "call1",
                "content": "Edit 1 was not applied: its old code matches 2 places (lines 1 and 2).",
                "is_error": True,
            },
            {"type": "tool_result", "tool_use_id": "call2", "content": "Unknown tool.", "is_error": True},
            {
                "type": "tool_result",
                "tool_use_id": "call3",
                "content": "Edit 3 was not applied: its old code is not in the job.\n"
                f"{INSTRUCTION}\n{element('job', result.code)}",
                "is_error": True,
            },
        ],
    }


def test_correction_names_the_position_of_a_syntax_error() -> None:
    tool_input = {"edits": [{"action": "rewrite", "new_code": "a("}]}
    result = apply_edits("a();\na();\n", requested_edits([tool_input]))
    syntax = Syntax(ok=False, errors=(SyntaxProblem(1, 3, "something is missing"),))

    (block,) = correction_prompt(FIRST_PROMPT, [call(1, tool_input)], EditedJob(result, syntax)).messages[-1]["content"]

    assert block["is_error"] is True
    assert block["content"] == (
        f"Line 1, column 3: something is missing.\nThe code does not parse.\n{INSTRUCTION}\n{element('job', 'a(')}"
    )


def test_tool_input_that_is_not_an_object_is_sent_back_as_an_empty_object() -> None:
    tool_input = {"edits": [replace("a();\na", "b();\na")]}
    result = apply_edits("a();\na();\n", requested_edits([tool_input, "no"]))

    prompt = correction_prompt(FIRST_PROMPT, [call(1, tool_input), call(2, "no")], EditedJob(result))

    assert [block["input"] for block in prompt.messages[-2]["content"]] == [tool_input, {}]
    applied, malformed = prompt.messages[-1]["content"]
    assert applied == {"type": "tool_result", "tool_use_id": "call1", "content": "Applied."}
    assert malformed["content"].startswith("Edit 2 was not applied: it is malformed.")
