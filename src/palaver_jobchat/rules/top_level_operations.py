"""The rule that only operations stand at the top level of a job."""

from collections.abc import Iterator

from palaver_jobchat.javascript import Node
from palaver_jobchat.rules.base import Job, Remark, Rule
from palaver_jobchat.rules.operations import start, unwrapped

# Those that rules of their own speak about are passed by.
_FINE = frozenset({"comment", "empty_statement", "hash_bang_line", "import_statement", "export_statement"})
_DECLARATIONS = frozenset(
    {
        "class_declaration",
        "function_declaration",
        "generator_function_declaration",
        "lexical_declaration",
        "variable_declaration",
    }
)


def _judge(job: Job) -> Iterator[Remark]:
    operations = {operation.call for operation in job.operations.all}
    for statement in job.root.children:
        if statement.kind in _FINE:
            continue
        if statement.kind in _DECLARATIONS:
            yield Remark("note", statement.line, "This stands outside of all operations, where it sees no state.")
        elif statement.kind != "expression_statement":
            yield Remark("error", statement.line, "Only operations may stand here. Put this inside `fn`.")
        elif (message := _refusal(statement, operations)) is not None:
            yield Remark("error", statement.line, message)


def _refusal(statement: Node, operations: set[Node]) -> str | None:
    expressions = [child for child in statement.children if child.kind != "comment"]
    expression = unwrapped(expressions[0]) if expressions else None
    if expression is None or expression.kind == "string":
        return None  # `'use strict'` does nothing, and no harm.
    if expression.kind != "call_expression":
        return "This is not an operation. Put it inside `fn`."
    first = start(expression)
    if first in operations or _speaks_of_state(first):
        return None
    return "This call is not an operation: it runs before the job does. Put it inside `fn`."


def _speaks_of_state(call: Node) -> bool:
    """Whether the call begins with `$`, or calls an operation on state, which are other rules' business."""
    node = call.child("function")
    if node is not None and unwrapped(node).kind == "call_expression":
        return [argument.text for argument in _given(call)] == ["state"]
    while node is not None and node.kind in ("member_expression", "subscript_expression", "call_expression"):
        node = node.child("object") or node.child("function")
    return node is not None and node.text == "$"


def _given(call: Node) -> list[Node]:
    given = call.child("arguments")
    return given.children if given is not None else []


RULE = Rule(
    id="top_level_operations",
    description="Only operations stand at the top level, each with its `.then` and `.catch`.",
    judge=_judge,
)
