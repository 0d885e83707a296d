"""The names that a program declares, and their scopes."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from palaver_jobchat.javascript import FUNCTIONS, Node

Kind = Literal["lexical", "var", "function", "parameter", "self"]
"""`lexical` names cannot be redeclared; `self` is the name of a function expression inside itself."""

_SCOPE_KINDS = frozenset(
    {
        *FUNCTIONS,
        "program",
        "statement_block",
        "switch_body",
        "for_statement",
        "for_in_statement",
        "catch_clause",
        "class_static_block",
    }
)
_VAR_SCOPES = frozenset({*FUNCTIONS, "program", "class_static_block"})


class Declaration(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    line: int


class Scopes:
    def __init__(self, root: Node) -> None:
        self._root = root
        self.declared: dict[Node, dict[str, list[Declaration]]] = {}
        for node in root.walk():
            self._declare(node)

    def binding(self, name: Node) -> Node | None:
        """Return the scope that declares a name, or None if the program does not declare it."""
        text = name.text
        for node in name.ancestors():
            if text in self.declared.get(node, ()):
                return node
        return None

    def free_references(self, name: str) -> Iterator[Node]:
        """Yield the uses of a name where the program does not declare it."""
        for node in self._root.walk():
            if (
                node.kind in ("identifier", "shorthand_property_identifier")
                and node.end - node.start == len(name.encode())
                and node.text == name
                and self.binding(node) is None
            ):
                yield node

    def _declare(self, node: Node) -> None:
        match node.kind:
            case "lexical_declaration" | "variable_declaration":
                kind: Kind = "lexical" if node.kind == "lexical_declaration" else "var"
                for declarator in node.children:
                    self._declare_names(node, kind, declarator.child("name"))
            case "for_in_statement" if (keyword := node.child("kind")) is not None:
                self._declare_names(keyword, "var" if keyword.kind == "var" else "lexical", node.child("left"))
            case "class_declaration":
                self._declare_names(node, "lexical", node.child("name"))
            case "function_declaration" | "generator_function_declaration":
                # A job is a module: only inside functions may a function be declared twice.
                in_function = self._scope(node).kind in FUNCTIONS
                self._declare_names(node, "function" if in_function else "lexical", node.child("name"))
                self._declare_parameters(node)
            case "function_expression" | "generator_function" | "arrow_function" | "method_definition":
                name = node.child("name")
                if name is not None and node.kind != "method_definition":
                    self._record(node, Declaration(name.text, "self", name.line))
                self._declare_parameters(node)
            case "catch_clause":
                for name in declared_names(node.child("parameter")):
                    self._record(node, Declaration(name.text, "parameter", name.line))
            case "import_clause":
                for child in node.walk():
                    if child.kind == "identifier" and child.field != "name":
                        self._declare_names(node, "lexical", child)
                    elif child.kind == "import_specifier" and child.child("alias") is None:
                        self._declare_names(node, "lexical", child.child("name"))
            case _:
                pass

    def _declare_parameters(self, function: Node) -> None:
        for field in ("parameters", "parameter"):
            for name in declared_names(function.child(field)):
                self._record(function, Declaration(name.text, "parameter", name.line))

    def _declare_names(self, node: Node, kind: Kind, pattern: Node | None) -> None:
        for name in declared_names(pattern):
            declaration = Declaration(name.text, kind, name.line)
            scope = self._scope(node)
            # A `var` belongs to the function, and conflicts with its name in every block in between. A second `var` of
            # the name adds nothing.
            while kind == "var" and scope.kind not in _VAR_SCOPES and not self._has_var(scope, declaration.name):
                self._record(scope, declaration)
                scope = self._scope(scope)
            self._record(scope, declaration)

    def _has_var(self, scope: Node, name: str) -> bool:
        return any(declaration.kind == "var" for declaration in self.declared.get(scope, {}).get(name, ())[:1])

    def _record(self, scope: Node, declaration: Declaration) -> None:
        self.declared.setdefault(scope, {}).setdefault(declaration.name, []).append(declaration)

    def _scope(self, node: Node) -> Node:
        """Return the scope of a declaration at a node. A function's body and its parameters are one scope."""
        for outer in node.ancestors():
            if outer.kind in _SCOPE_KINDS:
                parent = outer.parent
                is_body = outer.kind == "statement_block" and parent is not None and outer.field == "body"
                if is_body and parent is not None and parent.kind in (*FUNCTIONS, "catch_clause"):
                    return parent
                return outer
        return self._root


def declared_names(pattern: Node | None) -> Iterator[Node]:
    """Yield the names that a pattern declares: a, c and d for `{ a, b: [c], ...d }`."""
    stack = [pattern] if pattern is not None else []
    while stack:
        node = stack.pop()
        match node.kind:
            case "identifier" | "shorthand_property_identifier_pattern":
                yield node
            case "pair_pattern":
                stack += [child for child in node.children if child.field == "value"]
            case "assignment_pattern" | "object_assignment_pattern":
                stack += [child for child in node.children if child.field == "left"]
            case "object_pattern" | "array_pattern" | "rest_pattern" | "formal_parameters":
                stack += reversed(node.children)
            case _:
                pass
