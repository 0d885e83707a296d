"""The operations of a job, and the functions passed to them.

An operation is a call outside of all functions, of a function that the job does not declare itself (`get`) or of one in
a namespace (`http.get`). It may be an argument of another operation: `each($.items, post(…))`.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from palaver_jobchat.javascript import FUNCTIONS, Node
from palaver_jobchat.rules.scopes import Scopes

JAVASCRIPT_GLOBALS: Final = frozenset(
    """
    Array ArrayBuffer BigInt Boolean Buffer Date Error Intl JSON Map Math Number Object Promise Proxy Reflect RegExp
    Set String Symbol TextDecoder TextEncoder URL URLSearchParams WeakMap WeakSet atob btoa clearInterval clearTimeout
    console decodeURI decodeURIComponent encodeURI encodeURIComponent eval globalThis isFinite isNaN parseFloat
    parseInt process queueMicrotask require setInterval setTimeout structuredClone
    """.split()
)
"""Globals of JavaScript, which are not operations."""

# First and last argument that run as steps of the job, by common function of all adaptors.
_STEP_ARGUMENTS: Final = {
    "fn": (0, 0),
    "alterState": (0, 0),
    "fnIf": (1, 1),
    "each": (1, 1),
    "as": (1, 1),
    "combine": (0, 99),
    "execute": (0, 99),
}
_WRAPPERS = frozenset({"parenthesized_expression", "await_expression"})


class Operation(msgspec.Struct, frozen=True):
    call: Node
    name: str
    """`get`, or `http.get`."""
    is_bare: bool
    """Whether the name has no namespace."""

    @property
    def arguments(self) -> list[Node]:
        return arguments(self.call)


class StateFunction(msgspec.Struct, frozen=True):
    """A function that takes the state and must return it."""

    function: Node
    callee: str
    """What it is passed to: `fn`, `.then`."""
    state_index: int = 0
    """Index of the state among its parameters."""

    @property
    def parameter(self) -> Node | None:
        """The parameter that takes the state."""
        return next(iter(parameters(self.function)[self.state_index :]), None)


class Operations(msgspec.Struct, frozen=True):
    """The operations of a job, in order, and the handlers of their `.then` and `.catch`."""

    all: tuple[Operation, ...]
    handlers: tuple[StateFunction, ...]
    functions: dict[str, Node]
    """Functions declared at the top level, which can be passed by name."""

    def steps(self, callbacks: Mapping[str, int]) -> tuple[StateFunction, ...]:
        """Return the functions that run as steps of the job.

        `callbacks` gives the index of the callback argument of adaptor-specific functions.
        """
        steps = {step.function: step for step in self.handlers}
        for operation in self.all:
            index = callbacks.get(operation.name, -1)
            first, last = _STEP_ARGUMENTS.get(operation.name, (index, index))
            for argument in operation.arguments[first : last + 1] if first >= 0 else ():
                if (function := self.function(argument)) is not None:
                    steps.setdefault(function, StateFunction(function, operation.name))
        return tuple(steps.values())

    def function(self, argument: Node) -> Node | None:
        argument = unwrap(argument)
        if argument.kind == "identifier":
            return self.functions.get(argument.text)
        return argument if argument.kind in FUNCTIONS else None


def find_operations(root: Node, scopes: Scopes) -> Operations:
    operations: list[Operation] = []
    handlers: list[StateFunction] = []
    functions = dict(_declared_functions(root))
    outline = Operations((), (), functions)
    for statement in root.children:
        if statement.kind != "expression_statement":
            continue
        for node in statement.walk(skip_inside=FUNCTIONS):
            if node.kind != "call_expression":
                continue
            if (method := chain_method(node)) is not None:
                for index, argument in enumerate(arguments(node)[:2] if method != "finally" else ()):
                    if (function := outline.function(argument)) is not None:
                        # Error handlers get the error first: in `.catch(…)`, and as the second argument of `.then`.
                        handlers.append(StateFunction(function, f".{method}", 1 if method == "catch" else index))
            elif (name := _operation_name(node, scopes)) is not None:
                operations.append(Operation(node, name, "." not in name))
    return Operations(tuple(operations), tuple(handlers), functions)


def unwrap(node: Node) -> Node:
    """Remove parentheses and `await` around an expression."""
    while node.kind in _WRAPPERS and (inner := [child for child in node.children if child.kind != "comment"]):
        node = inner[-1]
    return node


def arguments(call: Node) -> list[Node]:
    """Return the arguments of a call, without comments."""
    argument_list = call.child("arguments")
    if argument_list is None or argument_list.kind != "arguments":
        return []
    return [child for child in argument_list.children if child.kind != "comment"]


def chain_method(call: Node) -> Literal["then", "catch", "finally"] | None:
    """Return the method if a call is the `.then(…)`, `.catch(…)` or `.finally(…)` of another call."""
    member = call.child("function")
    if member is None or member.kind != "member_expression":
        return None
    target, method = member.child("object"), member.child("property")
    if target is None or method is None or unwrap(target).kind != "call_expression":
        return None
    match method.text:
        case "then" | "catch" | "finally" as text:
            return text
        case _:
            return None


def chain_start(call: Node) -> Node:
    while chain_method(call) is not None:
        member = call.child("function")
        target = member.child("object") if member is not None else None
        assert target is not None
        call = unwrap(target)
    return call


def _operation_name(call: Node, scopes: Scopes) -> str | None:
    """Return the name if a call is an operation."""
    callee = call.child("function")
    argument_list = call.child("arguments")
    if callee is None or argument_list is None or argument_list.kind != "arguments":
        return None
    root = callee
    while root.kind == "member_expression" and (target := root.child("object")) is not None:
        root = target
    if root.kind != "identifier" or root.text in JAVASCRIPT_GLOBALS or root.text in ("$", "state"):
        return None
    return callee.text if scopes.binding(root) is None else None


def _declared_functions(root: Node) -> Iterator[tuple[str, Node]]:
    for statement in root.children:
        if statement.kind == "function_declaration" and (name := statement.child("name")) is not None:
            yield name.text, statement
        for declarator in statement.children if statement.kind == "lexical_declaration" else ():
            name, value = declarator.child("name"), declarator.child("value")
            if name is not None and value is not None and unwrap(value).kind in FUNCTIONS:
                yield name.text, unwrap(value)


def parameters(function: Node) -> list[Node]:
    """Return the parameters of a function, without comments."""
    parameter, parameter_list = function.child("parameter"), function.child("parameters")
    if parameter is not None:
        return [parameter]
    return [child for child in parameter_list.children if child.kind != "comment"] if parameter_list is not None else []
