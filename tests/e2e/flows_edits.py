"""A chat that proposes code edits without a model, for the browser tests."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from msgspec import Meta, Struct

from palaver import Data, Message, chat
from palaver.testing import echo

__all__ = ["echo", "mender"]

JOB = """\
// Fetches what is new, and keeps it.
get('/v1/patients', { query: { since: $.cursor } });

fn(state => {
  const { entry = [] } = state.data;
  console.log(`There are ${entry.length} of them.`);
  return { ...state, patients: entry.map(({ id, name }) => ({ id, name })) };
});

post('/v1/archive', state => state.patients);
"""


class Job(Struct):
    """A job, and what it was last given and gave."""

    expression: Annotated[
        str | None, Meta(description="The job's code.", extra_json_schema={"contentMediaType": "text/javascript"})
    ] = None
    adaptor: str | None = None
    input: Annotated[Any, Meta(description="What the job is given.")] = None


EXAMPLE = {"expression": JOB, "adaptor": "http@6.5.4", "input": {"cursor": "2026-01-01"}}
FINDINGS = [
    {
        "rule": "no_credentials",
        "level": "error",
        "line": 2,
        "message": "A token stands in the code; keep it in the credential.",
    },
    {
        "rule": "keeps_state",
        "level": "warning",
        "line": 7,
        "message": "The object that is returned leaves out what state had.",
    },
    {"rule": "top_level_operations", "level": "note", "line": None, "message": "Only operations stand at the top."},
]


@chat
async def mender(
    messages: list[Message],
    context: Annotated[Job | None, Meta(examples=[EXAMPLE])] = None,
    suggest_code: bool | None = None,
) -> AsyncIterator[Any]:
    """Moves a job's calls to the next version of the service, and says what to look at."""
    code = (context.expression if context else None) or ""
    question = messages[-1].text
    yield f"The job has {len(code.splitlines())} lines"
    await asyncio.sleep(0.05)
    version = next((number for number in range(1, 9) if f"/v{number}/" in code), 0)
    yield f" and calls version {version}; I will move it to version **{version + 1}**.\n\n"
    # Late on purpose: it is shown above the text all the same.
    yield Data(
        name="notice",
        value={"level": "info", "text": "Test mode: no model was called. What follows was written beforehand."},
    )
    new = code.replace(f"/v{version}/", f"/v{version + 1}/") if code.strip() else "get('/v1/patients');\n"
    if "Windows" in question:
        new = new.replace("\n", "\r\n")
    value = {
        "language": "javascript",
        "target": "patients",
        "old": code,
        "new": new,
        "syntax": {"ok": True, "errors": []},
        "edits": [
            {
                "action": "replace_all",
                "old": f"/v{version}/",
                "new": f"/v{version + 1}/",
                "state": "applied",
                "how": "exact",
            }
        ],
    }
    if "nameless" not in question:
        value["input"] = "/context/expression"
    if "unchecked" not in question:
        value["findings"] = [] if "clean" in question else FINDINGS
    yield Data(name="code-edit", value=value)
