"""The rule that `$` stands only where it means something: in the arguments of operations, and not in functions."""

from collections.abc import Iterator

from palaver_jobchat.javascript import FUNCTIONS, Node
from palaver_jobchat.rules.base import Job, Remark, Rule
from palaver_jobchat.rules.operations import chained

_CHANGES = frozenset({"assignment_expression", "augmented_assignment_expression"})


def _judge(job: Job) -> Iterator[Remark]:
    operations = {operation.call for operation in job.operations.all}
    for node in job.scopes.free("$"):
        if _is_changed(node):
            yield Remark("error", node.line, "`$` cannot be assigned to. Change state inside `fn`.")
        elif not any(outer.kind == "arguments" and outer.parent in operations for outer in node.ancestors()):
            yield Remark("error", node.line, "`$` means something only in the arguments of an operation.")
        elif functions := [outer for outer in node.ancestors() if outer.kind in FUNCTIONS]:
            # `$.items.map(item => …$…)` reads $ within what is read from $, which may work.
            level = "warning" if all(_helps(function, operations) for function in functions) else "error"
            yield Remark(level, node.line, "Inside a function `$` is not state. Use the function's own `state`.")
        elif node.field != "object":
            yield Remark("warning", node.line, "`$` alone stays `$`. For the whole state give `state => state`.")


def _is_changed(node: Node) -> bool:
    """Whether it, or something of it, is on the left of an assignment, counted up or deleted."""
    child = node
    for outer in node.ancestors():
        if outer.kind in ("member_expression", "subscript_expression"):
            if child.field != "object":
                return False
        elif outer.kind in _CHANGES:
            return child.field == "left"
        elif outer.kind == "unary_expression":
            operator = outer.child("operator")
            return operator is not None and operator.text == "delete"
        else:
            return outer.kind == "update_expression"
        child = outer
    return False


def _helps(function: Node, operations: set[Node]) -> bool:
    """Whether a function is given to a call that is no operation, nor follows one."""
    call = function.parent.parent if function.parent is not None and function.parent.kind == "arguments" else None
    return call is not None and call not in operations and chained(call) is None


RULE = Rule(
    id="lazy_state",
    description="`$` stands only in the arguments of operations, and not in functions.",
    judge=_judge,
)
