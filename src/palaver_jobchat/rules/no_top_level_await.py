"""The rule that `await` stands in functions only."""

from collections.abc import Iterator

from palaver_jobchat.javascript import FUNCTIONS
from palaver_jobchat.rules.base import Job, Remark, Rule


def _judge(job: Job) -> Iterator[Remark]:
    for node in job.root.walk(outside=FUNCTIONS):
        if node.kind == "await_expression" or (node.kind == "for_in_statement" and node.has("await")):
            yield Remark(
                "error", node.line, "`await` cannot stand here: operations run in order, and wait for each other."
            )


RULE = Rule(id="no_top_level_await", description="`await` stands inside functions only.", judge=_judge)
