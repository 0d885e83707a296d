"""The operations of a job, and the functions that are given to them.

An operation is a call outside all functions: of a function that the job does not declare itself (`get`), or of one in
a namespace (`http.get`). It may be an argument of another: `each($.items, post(…))`.
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
"""Names of JavaScript's own; no operation has one of them."""

# Which arguments of the functions that all adaptors share run as steps of the job: from the first number to the last.
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
    """One call of an adaptor's function."""

    call: Node
    name: str
    """`get`, or `http.get`."""
    is_bare: bool
    """Whether it is in no namespace."""

    @property
    def arguments(self) -> list[Node]:
        """What it is given."""
        return arguments(self.call)


class StateFunction(msgspec.Struct, frozen=True):
    """A function that takes the state and has to give it back."""

    function: Node
    callee: str
    """What it was given to: `fn`, `.then`."""
    state_index: int = 0
    """Which of its parameters the state is."""


class Operations(msgspec.Struct, frozen=True):
    """All operations of a job, in order, and the handlers of `.then` and `.catch` after them."""

    all: tuple[Operation, ...]
    handlers: tuple[StateFunction, ...]
    functions: dict[str, Node]
    """Those that are declared at the top level, and can be given by name."""

    def steps(self, callbacks: Mapping[str, int]) -> tuple[StateFunction, ...]:
        """Every function that runs as a step of the job, each once.

        They are known of the functions that all adaptors share; `callbacks` says of others which argument is one.
        """
        found = {step.function: step for step in self.handlers}
        for operation in self.all:
            place = callbacks.get(operation.name, -1)
            first, last = _STEP_ARGUMENTS.get(operation.name, (place, place))
            for argument in operation.arguments[first : last + 1] if first >= 0 else ():
                if (function := self.function(argument)) is not None:
                    found.setdefault(function, StateFunction(function, operation.name))
        return tuple(found.values())

    def function(self, argument: Node) -> Node | None:
        """The function that an argument is, or names."""
        argument = unwrap(argument)
        if argument.kind == "identifier":
            return self.functions.get(argument.text)
        return argument if argument.kind in FUNCTIONS else None


def find_operations(root: Node, scopes: Scopes) -> Operations:
    """The operations of a program."""
    found: list[Operation] = []
    handlers: list[StateFunction] = []
    functions = dict(_declared_functions(root))
    outline = Operations((), (), functions)
    for statement in root.children:
        if statement.kind != "expression_statement":
            continue
        for node in statement.walk(skip_inside=FUNCTIONS):
            if node.kind != "call_expression":
                continue
            if (word := chain_method(node)) is not None:
                for place, argument in enumerate(arguments(node)[:2] if word != "finally" else ()):
                    if (function := outline.function(argument)) is not None:
                        # What handles an error gets that first: in `.catch(…)`, and as the second of `.then(…, …)`.
                        handlers.append(StateFunction(function, f".{word}", 1 if word == "catch" else place))
            elif (name := _operation_name(node, scopes)) is not None:
                found.append(Operation(node, name, "." not in name))
    return Operations(tuple(found), tuple(handlers), functions)


def unwrap(node: Node) -> Node:
    """An expression without the parentheses and `await` around it."""
    while node.kind in _WRAPPERS and (inner := [child for child in node.children if child.kind != "comment"]):
        node = inner[-1]
    return node


def arguments(call: Node) -> list[Node]:
    """What is given in a call, without comments."""
    given = call.child("arguments")
    if given is None or given.kind != "arguments":
        return []
    return [child for child in given.children if child.kind != "comment"]


def chain_method(call: Node) -> Literal["then", "catch", "finally"] | None:
    """Whether a call is the `.then(…)`, `.catch(…)` or `.finally(…)` of another."""
    member = call.child("function")
    if member is None or member.kind != "member_expression":
        return None
    target, word = member.child("object"), member.child("property")
    if target is None or word is None or unwrap(target).kind != "call_expression":
        return None
    match word.text:
        case "then" | "catch" | "finally" as text:
            return text
        case _:
            return None


def chain_start(call: Node) -> Node:
    """The call that a chain begins with."""
    while chain_method(call) is not None:
        member = call.child("function")
        target = member.child("object") if member is not None else None
        assert target is not None
        call = unwrap(target)
    return call


def _operation_name(call: Node, scopes: Scopes) -> str | None:
    """The operation's name, if the call is one."""
    callee = call.child("function")
    given = call.child("arguments")
    if callee is None or given is None or given.kind != "arguments":
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
    """The parameters of a function, without comments."""
    single, several = function.child("parameter"), function.child("parameters")
    if single is not None:
        return [single]
    return [child for child in several.children if child.kind != "comment"] if several is not None else []
