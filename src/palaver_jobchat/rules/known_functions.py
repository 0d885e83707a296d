"""The rule that a job calls only functions that its adaptor has."""

from collections.abc import Iterator
from difflib import get_close_matches

from palaver_jobchat.rules.base import Job, Remark, Rule

# In every adaptor; its description is often the one of a type, and then does not name it.
_ALWAYS = frozenset({"execute"})


def _judge(job: Job) -> Iterator[Remark]:
    docs = job.docs
    if docs is None:
        return
    known = {entry.name for entry in docs.entries if entry.kind == "function"} | _ALWAYS
    for operation in job.operations.all:
        # What a namespace holds is in no description.
        if not operation.bare or operation.name in known:
            continue
        close = get_close_matches(operation.name[:100], known, n=1)
        hint = f" Is `{close[0]}` meant?" if close else ""
        message = f"{docs.adaptor.name}@{docs.version} has no function `{operation.name}`.{hint}"
        yield Remark("error", operation.call.line, message)


RULE = Rule(id="known_functions", description="Every function that the job calls is one of its adaptor.", judge=_judge)
