"""The rule that `fn` is called by its name of today."""

from collections.abc import Iterator

from palaver_jobchat.rules.base import Job, Remark, Rule


def _judge(job: Job) -> Iterator[Remark]:
    for node in job.scopes.free("alterState"):
        yield Remark("warning", node.line, "`alterState` is the old name of `fn`, and going away. Use `fn`.")


RULE = Rule(id="no_alter_state", description="`fn` is used, not `alterState`.", judge=_judge)
