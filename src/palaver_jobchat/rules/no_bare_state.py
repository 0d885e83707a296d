"""The rule that `state` is used only where there is one: inside functions that take it."""

from collections.abc import Iterator

from palaver_jobchat.rules.base import Job, Remark, Rule


def _judge(job: Job) -> Iterator[Remark]:
    for node in job.scopes.free("state"):
        message = (
            "There is no `state` yet when this is read. Use `$`, or a function that takes `state`."
            if node.function is None
            else "This function does not take `state`, and there is no other."
        )
        yield Remark("error", node.line, message)


RULE = Rule(id="no_bare_state", description="`state` is used only in functions that take it.", judge=_judge)
