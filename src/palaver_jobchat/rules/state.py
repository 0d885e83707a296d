"""Rules about `state`: functions return it, keep it, and use `$` and `state` only where they exist."""

from collections.abc import Iterator
from typing import Final

from palaver_jobchat.javascript import FUNCTIONS, Node
from palaver_jobchat.rules.base import Job, Remark, rule
from palaver_jobchat.rules.operations import (
    JAVASCRIPT_GLOBALS,
    StateFunction,
    arguments,
    chain_method,
    chain_start,
    unwrap,
)
from palaver_jobchat.rules.scopes import declared_names

_LOOPS = frozenset({"for_statement", "for_in_statement", "while_statement", "do_statement"})


def returns_always(function: Node) -> bool:
    """Whether every path through a function ends in `return` or `throw`."""
    body = function.child("body")
    return body is not None and (body.kind != "statement_block" or ends(body))


def return_statements(function: Node) -> Iterator[Node]:
    """Yield the `return` statements of a function, without those of nested functions."""
    body = function.child("body")
    if body is None or body.kind != "statement_block":
        return
    for node in body.walk(skip_inside=FUNCTIONS):
        if node.kind == "return_statement":
            yield node


def return_value(statement: Node) -> Node | None:
    return next((child for child in statement.children if child.kind != "comment"), None)


def return_values(function: Node) -> Iterator[Node]:
    """Yield every expression that a function may return, with each branch of a conditional expression."""
    body = function.child("body")
    if body is not None and body.kind != "statement_block":
        yield from choices(body)
    for statement in return_statements(function):
        if (expression := return_value(statement)) is not None:
            yield from choices(expression)


def choices(expression: Node) -> Iterator[Node]:
    """Yield the expressions that a conditional or logical expression may evaluate to."""
    stack = [expression]
    while stack:
        node = unwrap(stack.pop())
        if node.kind == "ternary_expression":
            stack += [child for child in node.children if child.field in ("consequence", "alternative")]
        elif node.kind == "binary_expression" and _operator(node) in ("??", "||", "&&"):
            stack += [child for child in node.children if child.field in ("left", "right")]
        elif node.kind == "sequence_expression" and node.children:
            stack.append(node.children[-1])
        else:
            yield node


def ends(statement: Node) -> bool:
    """Whether a statement never completes normally, so that nothing after it is reached."""
    match statement.kind:
        case "return_statement" | "throw_statement":
            return True
        case "statement_block":
            return any(ends(child) for child in statement.children)
        case "if_statement":
            branches = [statement.child("consequence"), statement.child("alternative")]
            return all(branch is not None and ends(branch) for branch in branches)
        case "else_clause":
            return any(ends(child) for child in statement.children)
        case "try_statement":
            return _try_ends(statement)
        case "catch_clause" | "finally_clause":
            body = statement.child("body")
            return body is not None and ends(body)
        case "switch_statement":
            return _switch_ends(statement)
        case "for_statement" | "while_statement" | "do_statement":
            return _loop_ends(statement)
        case "labeled_statement":
            body, label = statement.child("body"), statement.child("label")
            has_break = any(
                node.kind == "break_statement" and label is not None and _label(node) == label.text
                for node in statement.walk(skip_inside=FUNCTIONS)
            )
            return body is not None and not has_break and ends(body)
        case _:
            return False


def _try_ends(statement: Node) -> bool:
    body, handler, finalizer = (statement.child(field) for field in ("body", "handler", "finalizer"))
    if finalizer is not None and ends(finalizer):
        return True
    return body is not None and ends(body) and (handler is None or ends(handler))


def _switch_ends(statement: Node) -> bool:
    """Whether there is a default case, no `break`, and the last case ends: the others fall through to it."""
    body = statement.child("body")
    cases = [child for child in body.children if child.kind != "comment"] if body is not None else []
    if not any(case.kind == "switch_default" for case in cases) or _has_break(statement):
        return False
    return any(ends(child) for child in cases[-1].children)


def _loop_ends(statement: Node) -> bool:
    """Whether a loop is endless, or its body is executed and ends."""
    body = statement.child("body")
    if _has_break(statement):
        return False
    if statement.kind == "do_statement" and body is not None and ends(body):
        return not any(node.kind == "continue_statement" for node in body.walk(skip_inside=FUNCTIONS))
    condition = statement.child("condition")
    if condition is None or condition.kind == "empty_statement":
        return statement.kind == "for_statement"
    return unwrap(condition).kind == "true"


def _has_break(statement: Node) -> bool:
    """Whether a `break` leaves this loop or switch. A labelled one is assumed to."""
    inner = {*FUNCTIONS, *_LOOPS, "switch_statement"}
    breaks = (node for node in statement.walk(skip_inside=FUNCTIONS) if node.kind == "break_statement")
    for node in breaks:
        if _label(node) is not None:
            return True
        nearest = next((outer for outer in node.ancestors() if outer.kind in inner), None)
        if nearest is statement:
            return True
    return False


def _label(node: Node) -> str | None:
    label = node.child("label")
    return label.text if label is not None else None


def _operator(node: Node) -> str:
    operator = node.child("operator")
    return operator.text if operator is not None else ""


_PLAIN_VALUES: Final = frozenset(
    """
    array arrow_function binary_expression false function_expression null number regex string template_string true
    unary_expression undefined update_expression
    """.split()
)
_LIST_METHODS: Final = frozenset("every filter find flatMap forEach includes join map push slice some sort".split())


@rule("returns_state")
def returns_state(job: Job) -> Iterator[Remark]:
    steps = {step.function for step in job.steps}
    for step in job.steps:
        yield from _check_step(step)
    for operation in job.operations.all:
        for argument in operation.arguments if operation.is_bare else ():
            function = unwrap(argument)
            if function.kind in FUNCTIONS and function not in steps and not returns_always(function):
                message = f"The function passed to `{operation.name}` doesn't return a value on every path."
                yield Remark("warning", function.line, message)


def _check_step(step: StateFunction) -> Iterator[Remark]:
    function = step.function
    if not returns_always(function):
        where = (
            "on every path"
            if any(return_value(statement) for statement in return_statements(function))
            else "at the end"
        )
        message = f"The function passed to `{step.callee}` must return state {where}, or the next operation gets none."
        yield Remark("error", function.line, message)
    for statement in return_statements(function):
        if return_value(statement) is None:
            yield Remark("error", statement.line, "This `return` passes no state to the next operation.")
    for expression in return_values(function):
        if (what := _non_state_description(expression, step)) is not None:
            yield Remark("error", expression.line, f"The function passed to `{step.callee}` returns {what}, not state.")


def _non_state_description(expression: Node, step: StateFunction) -> str | None:
    """Return what an expression is, if it is certainly not the state."""
    state_names, parts = _state_names(step)
    match expression.kind:
        case kind if kind in _PLAIN_VALUES:
            return "a plain value"
        case "identifier" if expression.text in parts:
            return "part of state"
        case "member_expression" | "subscript_expression" if _root(expression) in state_names:
            return "part of state"
        case "assignment_expression":
            right = expression.child("right")
            assigned = unwrap(right) if right is not None else None
            # `state => (state = { ...state })` is odd but correct.
            left = expression.child("left")
            return None if assigned is None or (left is not None and left.text in state_names) else "the assigned value"
        case "call_expression":
            return _non_state_call(expression, state_names)
        case _:
            return None


def _non_state_call(call: Node, state_names: set[str]) -> str | None:
    callee = call.child("function")
    method = callee.child("property") if callee is not None and callee.kind == "member_expression" else None
    if callee is None or method is None:
        return None
    root = _root(callee)
    if root == "console":
        return "nothing"
    target = callee.child("object")
    if root in state_names and target is not None and target.kind != "identifier" and method.text in _LIST_METHODS:
        return "part of state"
    return None


def _state_names(step: StateFunction) -> tuple[set[str], set[str]]:
    """Return the names of the state in a function, and those of its parts if the parameter destructures it."""
    parameter = step.parameter
    if parameter is not None and parameter.kind == "identifier":
        return {parameter.text}, set()
    return set(), set() if parameter is None else _names_without_rest(parameter)


def _names_without_rest(pattern: Node) -> set[str]:
    """Return the names that a pattern declares, but not `rest` of `...rest`."""
    rest = {name.text for node in pattern.children if node.kind == "rest_pattern" for name in declared_names(node)}
    return {name.text for name in declared_names(pattern)} - rest


def _root(node: Node) -> str:
    """Return the first name of `a.b[c].d`; empty if it starts with something else, such as a call."""
    while node.kind in ("member_expression", "subscript_expression"):
        target = node.child("object")
        if target is None:
            break
        node = unwrap(target)
    return node.text if node.kind == "identifier" else ""


@rule("keeps_state")
def keeps_state(job: Job) -> Iterator[Remark]:
    last = _last_operation(job)
    for step in job.steps:
        parts = _part_names(step)
        for expression in return_values(step.function):
            if expression.kind != "object" or _spreads_state(expression, parts):
                continue
            if last is not None and last.start <= step.function.start < last.end:
                yield Remark("note", expression.line, "This drops the rest of the state at the end of the job.")
            else:
                message = "This drops the rest of the state, including `configuration`. Return `{ ...state, … }`."
                yield Remark("warning", expression.line, message)


def _last_operation(job: Job) -> Node | None:
    """Return the last operation if it only transforms state: there it may reduce the state on purpose."""
    statements = [child for child in job.root.children if child.kind == "expression_statement"]
    expression = unwrap(statements[-1].children[0]) if statements and statements[-1].children else None
    if expression is None or expression.kind != "call_expression":
        return None
    callee = chain_start(expression).child("function")
    return expression if callee is not None and callee.text in ("fn", "fnIf", "alterState") else None


def _spreads_state(expression: Node, parts: frozenset[str]) -> bool:
    """Whether an object keeps the state: by `...state`, or by setting `configuration` itself."""
    for child in expression.children:
        key = child.child("key") if child.kind == "pair" else child
        if key is not None and key.text.strip("'\"") == "configuration":
            return True
        if child.kind == "spread_element" and child.children:
            spread = unwrap(child.children[-1])
            if spread.kind == "call_expression" or (spread.kind == "identifier" and spread.text not in parts):
                return True
    return False


def _part_names(step: StateFunction) -> frozenset[str]:
    """Return the names of parts of the state: `data` after `const { data, ...rest } = state`, but not `rest`."""
    parameter = step.parameter
    names = _destructured_parts(parameter) if parameter is not None else set[str]()
    body = step.function.child("body")
    for node in body.walk(skip_inside=FUNCTIONS) if body is not None else ():
        if node.kind != "variable_declarator":
            continue
        name, value = node.child("name"), node.child("value")
        if name is None or value is None or parameter is None:
            continue
        source = unwrap(value)
        if source.kind == "identifier" and source.text == parameter.text:
            names |= _destructured_parts(name)
        elif source.kind == "member_expression" and source.text.startswith(
            (f"{parameter.text}.", f"{parameter.text}?.")
        ):
            names |= {declared.text for declared in declared_names(name)}
    return frozenset(names)


def _destructured_parts(pattern: Node) -> set[str]:
    """Return the names of the parts that a pattern takes from the state."""
    return _names_without_rest(pattern) if pattern.kind == "object_pattern" else set()


_ASSIGNMENTS = frozenset({"assignment_expression", "augmented_assignment_expression"})


@rule("lazy_state")
def lazy_state(job: Job) -> Iterator[Remark]:
    operations = {operation.call for operation in job.operations.all}
    for node in job.scopes.free_references("$"):
        if _is_assigned(node):
            yield Remark("error", node.line, "Can't assign to `$`. Change state inside `fn`.")
        elif not any(outer.kind == "arguments" and outer.parent in operations for outer in node.ancestors()):
            yield Remark("error", node.line, "`$` only works in the arguments of an operation.")
        elif functions := [outer for outer in node.ancestors() if outer.kind in FUNCTIONS]:
            # `$.items.map(item => …$…)` may work.
            level = "warning" if all(_is_plain_callback(function, operations) for function in functions) else "error"
            yield Remark(level, node.line, "`$` doesn't work inside a function. Use the function's `state` parameter.")
        elif node.field != "object":
            yield Remark(
                "warning", node.line, "`$` alone isn't resolved. To pass the whole state, use `state => state`."
            )


def _is_assigned(node: Node) -> bool:
    """Whether a node or a member of it is assigned, incremented or deleted."""
    child = node
    for outer in node.ancestors():
        if outer.kind in ("member_expression", "subscript_expression"):
            if child.field != "object":
                return False
        elif outer.kind in _ASSIGNMENTS:
            return child.field == "left"
        elif outer.kind == "unary_expression":
            operator = outer.child("operator")
            return operator is not None and operator.text == "delete"
        else:
            return outer.kind == "update_expression"
        child = outer
    return False


def _is_plain_callback(function: Node, operations: set[Node]) -> bool:
    """Whether a function is passed to a call that is neither an operation nor chained to one."""
    call = function.parent.parent if function.parent is not None and function.parent.kind == "arguments" else None
    return call is not None and call not in operations and chain_method(call) is None


@rule("no_bare_state")
def no_bare_state(job: Job) -> Iterator[Remark]:
    for node in job.scopes.free_references("state"):
        message = (
            "`state` isn't defined here. Use `$`, or a function with a `state` parameter."
            if node.function is None
            else "This function has no `state` parameter, so `state` is undefined."
        )
        yield Remark("error", node.line, message)


_STATE_NAMES: Final = frozenset({"state", "next", "nextState"})
# These return a value of the state and are meant to be called with it.
_VALUE_FUNCTIONS: Final = frozenset(
    """
    asData dataPath dataValue field fields index jsonValue lastReferenceValue referencePath source sourceValue toArray
    """.split()
)


@rule("no_state_call")
def no_state_call(job: Job) -> Iterator[Remark]:
    for node in job.root.walk():
        if node.kind != "call_expression" or (name := _called_operation(job, node)) is None:
            continue
        values = arguments(node)
        if len(values) == 1 and values[0].kind == "identifier" and values[0].text in _STATE_NAMES:
            message = f"`{name}(…)` is invoked directly with state. Make it a separate operation at the top level."
            yield Remark("warning", node.line, message)


def _called_operation(job: Job, call: Node) -> str | None:
    """Return the operation's name if a call calls the result of an operation."""
    callee = call.child("function")
    inner = unwrap(callee) if callee is not None else None
    name = inner.child("function") if inner is not None and inner.kind == "call_expression" else None
    if name is None:
        return None
    root = name.child("object") if name.kind == "member_expression" else name
    if root is None or root.kind != "identifier" or root.text in JAVASCRIPT_GLOBALS or name.text in _VALUE_FUNCTIONS:
        return None
    return name.text if job.scopes.binding(root) is None else None


@rule("no_alter_state")
def no_alter_state(job: Job) -> Iterator[Remark]:
    for node in job.scopes.free_references("alterState"):
        yield Remark("warning", node.line, "`alterState` is deprecated. Use `fn`.")
