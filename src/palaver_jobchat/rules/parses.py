"""The rule that a job is JavaScript."""

from collections.abc import Iterator

from palaver_jobchat.rules.base import Job, Remark, Rule


def _judge(job: Job) -> Iterator[Remark]:
    for fault in job.program.syntax.errors:
        message = f"This is not JavaScript: {fault.message} (column {fault.column})."
        yield Remark("error", fault.line, message)
    if job.program.syntax.ok and job.too_deep:
        yield Remark("note", 1, "This code is nested too deeply to be checked.")


RULE = Rule(id="parses", description="The job is JavaScript.", judge=_judge, any_code=True)
