"""What functions return: on which paths, and which values."""

from collections.abc import Iterator

from palaver_jobchat.javascript import FUNCTIONS, Node
from palaver_jobchat.rules.operations import unwrap

_LOOPS = frozenset({"for_statement", "for_in_statement", "while_statement", "do_statement"})


def returns_always(function: Node) -> bool:
    """Whether every way through a function ends in `return` or `throw`."""
    body = function.child("body")
    return body is not None and (body.kind != "statement_block" or ends(body))


def return_statements(function: Node) -> Iterator[Node]:
    """The `return` statements of a function itself, not of those in it."""
    body = function.child("body")
    if body is None or body.kind != "statement_block":
        return
    for node in body.walk(outside=FUNCTIONS):
        if node.kind == "return_statement":
            yield node


def return_value(statement: Node) -> Node | None:
    """What a `return` gives back."""
    return next((child for child in statement.children if child.kind != "comment"), None)


def return_values(function: Node) -> Iterator[Node]:
    """Every expression that a function may return: of a choice (`a ? b : c`) each."""
    body = function.child("body")
    if body is not None and body.kind != "statement_block":
        yield from choices(body)
    for statement in return_statements(function):
        if (expression := return_value(statement)) is not None:
            yield from choices(expression)


def choices(expression: Node) -> Iterator[Node]:
    """What an expression may amount to."""
    waiting = [expression]
    while waiting:
        node = unwrap(waiting.pop())
        if node.kind == "ternary_expression":
            waiting += [child for child in node.children if child.field in ("consequence", "alternative")]
        elif node.kind == "binary_expression" and _operator(node) in ("??", "||", "&&"):
            waiting += [child for child in node.children if child.field in ("left", "right")]
        elif node.kind == "sequence_expression" and node.children:
            waiting.append(node.children[-1])
        else:
            yield node


def ends(statement: Node) -> bool:
    """Whether nothing after a statement is reached."""
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
            broken = any(
                node.kind == "break_statement" and label is not None and _label(node) == label.text
                for node in statement.walk(outside=FUNCTIONS)
            )
            return body is not None and not broken and ends(body)
        case _:
            return False


def _try_ends(statement: Node) -> bool:
    body, handler, finalizer = (statement.child(field) for field in ("body", "handler", "finalizer"))
    if finalizer is not None and ends(finalizer):
        return True
    return body is not None and ends(body) and (handler is None or ends(handler))


def _switch_ends(statement: Node) -> bool:
    """With a default, and nothing that leaves it: cases run into the next, so that only the last has to end."""
    body = statement.child("body")
    cases = [child for child in body.children if child.kind != "comment"] if body is not None else []
    if not any(case.kind == "switch_default" for case in cases) or _is_left(statement):
        return False
    return any(ends(child) for child in cases[-1].children)


def _loop_ends(statement: Node) -> bool:
    """If it never stops by itself; or, once at least run, in the middle."""
    body = statement.child("body")
    if _is_left(statement):
        return False
    if statement.kind == "do_statement" and body is not None and ends(body):
        return not any(node.kind == "continue_statement" for node in body.walk(outside=FUNCTIONS))
    condition = statement.child("condition")
    if condition is None or condition.kind == "empty_statement":
        return statement.kind == "for_statement"
    return unwrap(condition).kind == "true"


def _is_left(statement: Node) -> bool:
    """Whether a `break` inside leaves this loop or switch; one with a label is taken to."""
    inner = {*FUNCTIONS, *_LOOPS, "switch_statement"}
    breaks = (node for node in statement.walk(outside=FUNCTIONS) if node.kind == "break_statement")
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
