"""The rule that a job neither imports nor exports."""

from collections.abc import Iterator

from palaver_jobchat.rules.base import Job, Remark, Rule


def _judge(job: Job) -> Iterator[Remark]:
    for node in job.root.walk():
        match node.kind:
            case "import_statement":
                yield Remark("error", node.line, "A job cannot import: the adaptor's functions are simply there.")
            case "export_statement":
                yield Remark("error", node.line, "A job cannot export: its output is the state.")
            case "call_expression":
                callee = node.child("function")
                if callee is None:
                    continue
                required = callee.kind == "identifier" and callee.text == "require"
                if callee.kind == "import" or (required and job.scopes.binding(callee) is None):
                    yield Remark(
                        "error", node.line, f"A job cannot use `{callee.text}`: it has its adaptor's functions."
                    )
            case _:
                pass


RULE = Rule(id="no_import", description="There is no import, export or require.", judge=_judge)
