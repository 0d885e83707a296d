"""Scenarios: a job, the model's script, and the expected answer."""

from collections.abc import Callable
from typing import Any, NamedTuple

from palaver_jobchat.testing import FakeAnthropic

Script = list[dict[str, Any]]
ChatFactory = Callable[..., tuple[Any, FakeAnthropic]]
"""Creates the workflow and its fake server from a script and settings (conftest.create_chat)."""

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
DOUBLE_USAGE = {"input_tokens": 20, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
SUCCESS_STATUS = {"success": True, "partial": False, "applied_changes": 1, "total_changes": 1, "syntax_ok": True}
FAILURE_STATUS = {"success": False, "partial": False, "applied_changes": 0, "total_changes": 1, "syntax_ok": True}
PATCHED = {"patches_applied": 1, "patches_total": 1}
UNPATCHED = {"patches_applied": 0, "patches_total": 1}


def replace(old: str, new: str) -> dict[str, Any]:
    return {"action": "replace", "old_code": old, "new_code": new}


def rewrite(new: str) -> dict[str, Any]:
    return {"action": "rewrite", "new_code": new}


def edit(*edits: Any, text: str | None = "I'll do that.") -> dict[str, Any]:
    """Return a step in which the model requests these edits."""
    text_blocks: list[dict[str, Any]] = [] if text is None else [{"text": text}]
    return {"blocks": [*text_blocks, {"tool": {"name": "edit_job", "input": {"edits": list(edits)}}}]}


class Scenario(NamedTuple):
    """`answer` is the expected body without history and meta."""

    job: str | None
    script: Script
    answer: dict[str, Any]
    plain: bool = False


def _applied_answer(response: str, code: str, how: str, usage: dict[str, int] = USAGE) -> dict[str, Any]:
    return {
        "response": response,
        "suggested_code": code,
        "usage": usage,
        "application_status": {**SUCCESS_STATUS, "edits": [{"state": "applied", "how": how}], "findings": []},
        "diff": PATCHED,
    }


def _failed_answer(
    response: str, reason: str, warning: str, usage: dict[str, int] = DOUBLE_USAGE, **more: Any
) -> dict[str, Any]:
    return {
        "response": response,
        "suggested_code": None,
        "usage": usage,
        "application_status": {
            **FAILURE_STATUS,
            "edits": [{"state": "failed", "reason": reason}],
            "warning": warning,
            **more,
        },
        "diff": {**UNPATCHED, "warning": warning},
    }


def _no_job_answer(usage: dict[str, int]) -> dict[str, Any]:
    message = "Jobs can't use `export`; a job's output is its final state."
    warning = f"Line 1 of the resulting code: {message}"
    return {
        "response": _text_with_note(warning),
        "suggested_code": "export default [];\n",
        "usage": usage,
        "application_status": {
            **SUCCESS_STATUS,
            "success": False,
            "edits": [{"state": "applied", "how": "rewrite"}],
            "findings": [{"rule": "no_import", "level": "error", "line": 1, "message": message}],
            "warning": warning,
        },
        "diff": {**PATCHED, "warning": warning},
    }


def _text_with_note(warning: str) -> str:
    return f"I'll do that.\n\nNote: {warning}"


TWO_PLACES = "Edit 1 of 1 was not applied: its old code matches 2 places (lines 1 and 2)."
NOT_FOUND = "Edit 1 of 1 was not applied: its old code is not in the job."
UNREADABLE = "Edit 1 of 1 was not applied: it is malformed."
DOES_NOT_PARSE = "The resulting code does not parse (line 1)."
OVERLOADED = {"error": {"status": 529, "type": "overloaded_error", "message": "Overloaded"}}

SCENARIOS: dict[str, Scenario] = {
    "a question, plainly": Scenario(
        "get('/a');\n",
        [{"text": "It asks for a.", "chunks": 3}],
        {"response": "It asks for a.", "usage": USAGE},
        plain=True,
    ),
    "a question, where edits are possible": Scenario(
        "get('/a');\n",
        [{"text": "It asks for a."}],
        {"response": "It asks for a.", "suggested_code": None, "usage": USAGE},
    ),
    "an empty list of edits": Scenario(
        "get('/a');\n", [edit()], {"response": "I'll do that.", "suggested_code": None, "usage": USAGE}
    ),
    "a call of another tool": Scenario(
        "get('/a');\n",
        [{"blocks": [{"text": "Let me see."}, {"tool": {"name": "search", "input": {}}}]}],
        {"response": "Let me see.", "suggested_code": None, "usage": USAGE},
    ),
    "one place": Scenario(
        "get('/a');\nget('/b');\n",
        [edit(replace("get('/b')", "post('/b')"))],
        _applied_answer("I'll do that.", "get('/a');\npost('/b');\n", "exact"),
    ),
    "no text": Scenario(
        "get('/a');\n",
        [edit(rewrite("post('/a');\n"), text=None)],
        _applied_answer("I've updated the job code.", "post('/a');\n", "rewrite"),
    ),
    "spaces at the end of a line": Scenario(
        "get('/a');  \nget('/b');\n",
        [edit(replace("get('/a');\nget('/b');", "get('/c');"))],
        _applied_answer("I'll do that.", "get('/c');\n", "line-ends"),
    ),
    "another indentation": Scenario(
        "fn(state => {\n    a();\n    return state;\n});\n",
        [edit(replace("a();\nreturn state;\n", "b();\nreturn state;\n"))],
        _applied_answer("I'll do that.", "fn(state => {\n    b();\n    return state;\n});\n", "indent"),
    ),
    "other spaces and no trailing comma": Scenario(
        "get( '/a', {\n  query: {limit: 5,},\n} );\n",
        [edit(replace("query: { limit: 5 }", "query: { limit: 9 }"))],
        _applied_answer("I'll do that.", "get( '/a', {\n  query: { limit: 9 },\n} );\n", "tokens"),
    ),
    "other spaces in a template": Scenario(
        "get( `/a?q=x  y` );\n",
        [edit(replace("get(`/a?q=x y`)", "b()")), edit()],
        _failed_answer(_text_with_note(NOT_FOUND), "not_found", NOT_FOUND),
    ),
    "CRLF": Scenario(
        "get('/a');\r\nget('/b');\r\n",
        [edit(replace("get('/b');\n", "post('/b');\npost('/c');\n"))],
        _applied_answer("I'll do that.", "get('/a');\r\npost('/b');\r\npost('/c');\r\n", "line-ends"),
    ),
    "an empty job": Scenario(
        "", [edit(rewrite("get('/a');\n"))], _applied_answer("I'll do that.", "get('/a');\n", "created")
    ),
    "no job": Scenario(
        None, [edit(replace("nothing", "get('/a');\n"))], _applied_answer("I'll do that.", "get('/a');\n", "created")
    ),
    "several calls in one answer": Scenario(
        "a();\nb();\n",
        [
            {
                "blocks": [
                    {"text": "First."},
                    {"tool": {"name": "edit_job", "input": {"edits": [replace("a()", "c()")]}}},
                    {"text": "Then."},
                    {"tool": {"name": "edit_job", "input": {"edits": [replace("b()", "d()")]}}},
                ]
            }
        ],
        {
            "response": "First.\n\nThen.",
            "suggested_code": "c();\nd();\n",
            "usage": USAGE,
            "application_status": {
                **SUCCESS_STATUS,
                "applied_changes": 2,
                "total_changes": 2,
                "edits": [{"state": "applied", "how": "exact"}, {"state": "applied", "how": "exact"}],
                "findings": [],
            },
            "diff": {"patches_applied": 2, "patches_total": 2},
        },
    ),
    "two places, corrected": Scenario(
        "get('/a');\nget('/a');\n",
        [
            edit(replace("get('/a')", "post('/a')")),
            edit(replace("get('/a');\nget('/a');", "get('/a');\npost('/a');"), text="Sorry."),
        ],
        _applied_answer("I'll do that.", "get('/a');\npost('/a');\n", "corrected", DOUBLE_USAGE),
    ),
    "two places, and again": Scenario(
        "get('/a');\nget('/a');\n",
        [edit(replace("get('/a')", "post('/a')")), edit(replace("get('/a')", "post('/a')"))],
        _failed_answer(_text_with_note(TWO_PLACES), "ambiguous", TWO_PLACES),
    ),
    "overlapping places": Scenario(
        "aaa",
        [edit(replace("aa", "b")), edit()],
        _failed_answer(
            _text_with_note("Edit 1 of 1 was not applied: its old code matches 2 places (line 1)."),
            "ambiguous",
            "Edit 1 of 1 was not applied: its old code matches 2 places (line 1).",
        ),
    ),
    "no place, and the correction fails": Scenario(
        "get('/a');\n",
        [edit(replace("put('/a')", "post('/a')")), OVERLOADED],
        _failed_answer(
            _text_with_note(f"{NOT_FOUND} The correction call failed: OVERLOADED."),
            "not_found",
            f"{NOT_FOUND} The correction call failed: OVERLOADED.",
            USAGE,
        ),
    ),
    "one of two": Scenario(
        "a();\nb();\n",
        [edit(replace("a()", "c()"), replace("x()", "y()")), edit(replace("z()", "y()"))],
        {
            "response": _text_with_note("Edit 2 of 2 was not applied: its old code is not in the job."),
            "suggested_code": "c();\nb();\n",
            "usage": DOUBLE_USAGE,
            "application_status": {
                "success": False,
                "partial": True,
                "applied_changes": 1,
                "total_changes": 2,
                "syntax_ok": True,
                "edits": [{"state": "applied", "how": "exact"}, {"state": "failed", "reason": "not_found"}],
                "findings": [],
                "warning": "Edit 2 of 2 was not applied: its old code is not in the job.",
            },
            "diff": {
                "patches_applied": 1,
                "patches_total": 2,
                "warning": "Edit 2 of 2 was not applied: its old code is not in the job.",
            },
        },
    ),
    "nothing changes": Scenario(
        "a();\n",
        [edit(replace("a()", "a()"))],
        {
            "response": _text_with_note("The edits change nothing."),
            "suggested_code": None,
            "usage": USAGE,
            "application_status": {
                "success": True,
                "partial": False,
                "applied_changes": 0,
                "total_changes": 0,
                "syntax_ok": True,
                "edits": [{"state": "unchanged"}],
                "warning": "The edits change nothing.",
            },
            "diff": {"patches_applied": 0, "patches_total": 0, "warning": "The edits change nothing."},
        },
    ),
    "no JavaScript any more, mended": Scenario(
        "a();\n",
        [edit(replace("a();", "b(;")), edit(replace("b(;", "b();"))],
        _applied_answer("I'll do that.", "b();\n", "exact", DOUBLE_USAGE),
    ),
    "no JavaScript any more, not mended": Scenario(
        "a();\n",
        [edit(replace("a();", "b(;")), edit(replace("b(;", "c(;"))],
        {
            "response": _text_with_note(DOES_NOT_PARSE),
            "suggested_code": "b(;\n",
            "usage": DOUBLE_USAGE,
            "application_status": {
                **SUCCESS_STATUS,
                "success": False,
                "syntax_ok": False,
                "edits": [{"state": "applied", "how": "exact"}],
                "findings": [
                    {
                        "rule": "parses",
                        "level": "error",
                        "line": 1,
                        "message": "Syntax error: missing `)` (column 3).",
                    }
                ],
                "warning": DOES_NOT_PARSE,
            },
            "diff": {**PATCHED, "warning": DOES_NOT_PARSE},
        },
    ),
    "code in a fence": Scenario(
        "",
        [edit(rewrite("```js\nget('/a');\n```\n"))],
        _applied_answer("I'll do that.", "get('/a');\n", "created"),
    ),
    "code that is no job, mended": Scenario(
        "a();\n",
        [edit(rewrite("export default [a()];\n")), edit(rewrite("b();\n"))],
        _applied_answer("I'll do that.", "b();\n", "rewrite", DOUBLE_USAGE),
    ),
    "code that is no job, not mended": Scenario(
        "a();\n",
        [edit(rewrite("export default [];\n")), edit(rewrite("import b from 'b';\nexport default [];\n"))],
        _no_job_answer(DOUBLE_USAGE),
    ),
    "code that is no job, as before": Scenario(
        "export default [1];\n", [edit(rewrite("export default [];\n"))], _no_job_answer(USAGE)
    ),
    "input that is no edit": Scenario(
        "a();\n",
        [{"blocks": [{"text": "I'll do that."}, {"tool": {"name": "edit_job", "input": {"edit": 1}}}]}, edit()],
        _failed_answer(_text_with_note(UNREADABLE), "malformed", UNREADABLE),
    ),
    "input that is no JSON": Scenario(
        "a();\n",
        [{"blocks": [{"text": "I'll do that."}, {"raw_tool": {"name": "edit_job", "json": '{"edi'}}]}, edit()],
        _failed_answer(_text_with_note(UNREADABLE), "malformed", UNREADABLE),
    ),
    "refused": Scenario(
        "a();\n",
        [{"text": "I will not.", "stop": "refusal"}],
        {"response": "I will not.", "suggested_code": None, "usage": USAGE},
    ),
}
