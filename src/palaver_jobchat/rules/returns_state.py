"""The rule that functions give the state back, on every path."""

from collections.abc import Iterator
from typing import Final

from palaver_jobchat.javascript import FUNCTIONS, Node
from palaver_jobchat.rules.base import Job, Remark, Rule
from palaver_jobchat.rules.operations import Step, parameters, unwrapped
from palaver_jobchat.rules.returning import returned, returns_always, value, values
from palaver_jobchat.rules.scopes import names

_NO_STATE: Final = frozenset(
    """
    array arrow_function binary_expression false function_expression null number regex string template_string true
    unary_expression undefined update_expression
    """.split()
)
_LIST_METHODS: Final = frozenset("every filter find flatMap forEach includes join map push slice some sort".split())


def _judge(job: Job) -> Iterator[Remark]:
    steps = {step.function for step in job.steps}
    for step in job.steps:
        yield from _step(step)
    for operation in job.operations.all:
        for argument in operation.arguments if operation.bare else ():
            function = unwrapped(argument)
            if function.kind in FUNCTIONS and function not in steps and not returns_always(function):
                message = f"This function gives `{operation.name}` nothing on some path: it should return a value."
                yield Remark("warning", function.line, message)


def _step(step: Step) -> Iterator[Remark]:
    function = step.function
    if not returns_always(function):
        where = "on every path" if any(value(statement) for statement in returned(function)) else "at its end"
        message = f"The function given to `{step.of}` must return state {where}, or the next operation gets none."
        yield Remark("error", function.line, message)
    for statement in returned(function):
        if value(statement) is None:
            yield Remark("error", statement.line, "This `return` gives no state to the next operation.")
    for expression in values(function):
        if (what := _not_state(expression, step)) is not None:
            yield Remark("error", expression.line, f"The function given to `{step.of}` returns {what}, not state.")


def _not_state(expression: Node, step: Step) -> str | None:
    """What an expression is, if it surely is no state."""
    whole, parts = _state_names(step)
    match expression.kind:
        case kind if kind in _NO_STATE:
            return "a plain value"
        case "identifier" if expression.text in parts:
            return "a part of state"
        case "member_expression" | "subscript_expression" if _root(expression) in whole:
            return "a part of state"
        case "assignment_expression":
            right = expression.child("right")
            assigned = unwrapped(right) if right is not None else None
            # `state => (state = { ...state })` is odd, but right.
            left = expression.child("left")
            return None if assigned is None or (left is not None and left.text in whole) else "what it assigned"
        case "call_expression":
            return _not_state_called(expression, whole)
        case _:
            return None


def _not_state_called(call: Node, whole: frozenset[str]) -> str | None:
    callee = call.child("function")
    method = callee.child("property") if callee is not None and callee.kind == "member_expression" else None
    if callee is None or method is None:
        return None
    root = _root(callee)
    if root == "console":
        return "nothing"
    target = callee.child("object")
    if root in whole and target is not None and target.kind != "identifier" and method.text in _LIST_METHODS:
        return "a part of state"
    return None


def _state_names(step: Step) -> tuple[frozenset[str], frozenset[str]]:
    """What the state is called in a function, and what its parts are, if it is taken apart at once."""
    given = parameters(step.function)
    if len(given) <= step.state:
        return frozenset(), frozenset()
    parameter = given[step.state]
    if parameter.kind == "identifier":
        return frozenset({parameter.text}), frozenset()
    rests = frozenset(name.text for node in parameter.children if node.kind == "rest_pattern" for name in names(node))
    return frozenset(), frozenset(name.text for name in names(parameter)) - rests


def _root(node: Node) -> str:
    """The name that `a.b[c].d` begins with; none where it begins with something else, as a call."""
    while node.kind in ("member_expression", "subscript_expression"):
        target = node.child("object")
        if target is None:
            break
        node = unwrapped(target)
    return node.text if node.kind == "identifier" else ""


RULE = Rule(
    id="returns_state",
    description="Functions given to `fn`, `each`, `fnIf`, `.then`, `.catch` or as callback return state on every path.",
    judge=_judge,
)
