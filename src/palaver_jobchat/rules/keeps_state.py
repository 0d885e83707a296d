"""The rule that a new state keeps what was in the old one."""

from collections.abc import Iterator

from palaver_jobchat.javascript import FUNCTIONS, Node
from palaver_jobchat.rules.base import Job, Remark, Rule
from palaver_jobchat.rules.operations import Step, parameters, start, unwrapped
from palaver_jobchat.rules.returning import values
from palaver_jobchat.rules.scopes import names


def _judge(job: Job) -> Iterator[Remark]:
    last = _last(job)
    for step in job.steps:
        parts = _parts(step)
        for expression in values(step.function):
            if expression.kind != "object" or _keeps(expression, parts):
                continue
            if last is not None and last.start <= step.function.start < last.end:
                yield Remark("note", expression.line, "This drops the rest of state at the end of the job.")
            else:
                message = "This drops the rest of state, also its configuration. Return `{ ...state, … }`."
                yield Remark("warning", expression.line, message)


def _last(job: Job) -> Node | None:
    """The last operation, if it is one that only makes a state: to leave a small one behind is its purpose there."""
    statements = [child for child in job.root.children if child.kind == "expression_statement"]
    expression = unwrapped(statements[-1].children[0]) if statements and statements[-1].children else None
    if expression is None or expression.kind != "call_expression":
        return None
    callee = start(expression).child("function")
    return expression if callee is not None and callee.text in ("fn", "fnIf", "alterState") else None


def _keeps(expression: Node, parts: frozenset[str]) -> bool:
    """Whether an object has all of state in it: by `...state`, or because it names the configuration itself."""
    for child in expression.children:
        key = child.child("key") if child.kind == "pair" else child
        if key is not None and key.text.strip("'\"") == "configuration":
            return True
        if child.kind == "spread_element" and child.children:
            spread = unwrapped(child.children[-1])
            if spread.kind == "call_expression" or (spread.kind == "identifier" and spread.text not in parts):
                return True
    return False


def _parts(step: Step) -> frozenset[str]:
    """The names of things taken out of state: `data` after `const { data, ...rest } = state`, but not `rest`."""
    given = parameters(step.function)
    parameter = given[step.state] if len(given) > step.state else None
    found = _taken(parameter) if parameter is not None else set[str]()
    body = step.function.child("body")
    for node in body.walk(outside=FUNCTIONS) if body is not None else ():
        if node.kind != "variable_declarator":
            continue
        name, value = node.child("name"), node.child("value")
        if name is None or value is None or parameter is None:
            continue
        source = unwrapped(value)
        if source.kind == "identifier" and source.text == parameter.text:
            found |= _taken(name)
        elif source.kind == "member_expression" and source.text.startswith(
            (f"{parameter.text}.", f"{parameter.text}?.")
        ):
            found |= {one.text for one in names(name)}
    return frozenset(found)


def _taken(pattern: Node) -> set[str]:
    """What a pattern takes out of state. A plain name takes it whole, and `...rest` what is left."""
    if pattern.kind != "object_pattern":
        return set()
    rests = {name.text for node in pattern.children if node.kind == "rest_pattern" for name in names(node)}
    return {name.text for name in names(pattern)} - rests


RULE = Rule(id="keeps_state", description="A new state keeps the old one: `{ ...state, data }`.", judge=_judge)
