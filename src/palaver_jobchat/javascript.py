"""Reading JavaScript: whether code is any, where it is not, and its tree for those who judge it.

No text makes this raise or take long. What code should say is none of its business: that is rules/.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Final

import msgspec
import tree_sitter
import tree_sitter_javascript


class SyntaxProblem(msgspec.Struct, frozen=True):
    """One place that is not JavaScript."""

    line: int
    column: int
    message: str


class Syntax(msgspec.Struct, frozen=True):
    """Whether code is JavaScript, and the first places where it is not."""

    ok: bool = True
    errors: tuple[SyntaxProblem, ...] = ()


MAX_PARSE_SECONDS = 0.5
"""Seconds of this thread's own time. Whole jobs need 0.03; some prose would need minutes, as errors mend each other."""
MAX_REPORTED_PROBLEMS = 3
"""Faults that are told. Those after the first are often its echo."""

FUNCTIONS: Final = frozenset(
    {
        "arrow_function",
        "function_declaration",
        "function_expression",
        "generator_function",
        "generator_function_declaration",
        "method_definition",
    }
)
"""The kinds of nodes that are functions."""

# Small pieces, as every call for the next one lets other threads run and looks at the clock. (The parser's own
# callback for that, of tree-sitter 0.26.0, brings the process down.)
_CHUNK_BYTES = 1024
_LANGUAGE = tree_sitter.Language(tree_sitter_javascript.language())
# The grammar takes these too, but an engine that runs jobs does not.
_FOREIGN = tree_sitter.Query(
    _LANGUAGE, "[(jsx_element) (jsx_self_closing_element)] @jsx (try_statement !handler !finalizer) @try"
)
_FOREIGN_MESSAGES = {"jsx": "JSX is not JavaScript", "try": "`try` needs `catch` or `finally`"}
# A NUL may stand in a string, which the grammar does not know, and a lone surrogate has no bytes at all. This character
# may stand in strings and comments, and nowhere else, as they.
_UNREADABLE = re.compile("[\0\ud800-\udfff]")
_KEPT_KEYWORDS = frozenset({"async", "await"})
_CLOSERS = {"(": ")", "[": "]", "{": "}", "${": "}"}
_QUOTES = frozenset("'\"`")
_MAX_QUOTED_CHARACTERS = 30


class Node:
    """A piece of code: what it is, where it stands, and of what it consists. Signs and most keywords are left out."""

    __slots__ = ("_source", "children", "end", "field", "kind", "line", "parent", "start")

    def __init__(
        self, kind: str, field: str | None, span: tuple[int, int], line: int, parent: "Node | None", source: bytes
    ) -> None:
        self.kind = kind
        """As the grammar names it: `call_expression`."""
        self.field = field
        """What it is to its parent: `arguments`."""
        self.start, self.end = span
        self.line = line
        self.parent = parent
        self.children: list[Node] = []
        self._source = source

    def __repr__(self) -> str:
        return f"<{self.kind} in line {self.line}>"

    @property
    def text(self) -> str:
        """The code itself."""
        return self._source[self.start : self.end].decode(errors="replace")

    def child(self, field: str) -> "Node | None":
        """The child that is this to the node."""
        return next((child for child in self.children if child.field == field), None)

    def has(self, kind: str) -> bool:
        """Whether a child is of this kind."""
        return any(child.kind == kind for child in self.children)

    def ancestors(self) -> "Iterator[Node]":
        """What it stands in, from the inside to the whole."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def walk(self, *, skip_inside: Collection[str] = ()) -> "Iterator[Node]":
        """The node and all in it, in order; of the kinds in `outside` the node only, and nothing in it."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            if node is self or node.kind not in skip_inside:
                waiting += reversed(node.children)

    @property
    def function(self) -> "Node | None":
        """The innermost function that it stands in."""
        return next((node for node in self.ancestors() if node.kind in FUNCTIONS), None)


class Program:
    """Code that was read once; the tree is made when somebody asks for it."""

    def __init__(self, code: str, source: bytes, tree: tree_sitter.Tree, syntax: Syntax, *, is_complete: bool) -> None:
        self.code = code
        self.syntax = syntax
        self.is_complete = is_complete
        """Whether all of it was read: not if that took too long."""
        self._source = source
        self._tree = tree

    @cached_property
    def _built(self) -> tuple[Node, int]:
        return _build_tree(self._tree.root_node, self._source)

    @property
    def root(self) -> Node:
        """The whole code."""
        return self._built[0]

    @property
    def depth(self) -> int:
        """How deep its pieces stand in each other."""
        return self._built[1]


def check_syntax(code: str) -> Syntax:
    """Whether code is JavaScript, and the first places where it is not."""
    return parse_program(code).syntax


def parse_program(code: str) -> Program:
    """The code, read. May be called in any thread."""
    source = _UNREADABLE.sub("\x01", code).encode()
    pieces, stopped = _timed_reader(source)
    tree = tree_sitter.Parser(_LANGUAGE).parse(pieces)
    if (end := stopped()) is not None:
        fault = _problem_at(source, end, "reading it took too long, and the rest was not read")
        return Program(code, source, tree, Syntax(ok=False, errors=(fault,)), is_complete=False)
    faults = tuple(_find_problems(tree.root_node, source))
    return Program(code, source, tree, Syntax(ok=not faults, errors=faults), is_complete=True)


def _timed_reader(source: bytes) -> tuple[Callable[[int, object], bytes], Callable[[], int | None]]:
    """What gives the parser its text, until the time is over; and what tells where that was."""
    latest = time.thread_time() + MAX_PARSE_SECONDS
    end: int | None = None

    def piece(offset: int, _: object) -> bytes:
        nonlocal end
        if end is None and offset < len(source) and time.thread_time() > latest:
            end = offset
        return source[offset : offset + _CHUNK_BYTES] if end is None else b""

    return piece, lambda: end


def _find_problems(root: tree_sitter.Node, source: bytes) -> list[SyntaxProblem]:
    """The first places that are not JavaScript, in order."""
    found: list[SyntaxProblem] = []
    waiting = [root] if root.has_error else []
    while waiting and len(found) < MAX_REPORTED_PROBLEMS:
        node = waiting.pop()
        if node.is_missing:
            what = "a name or a value" if node.is_named else _quoted(node.type)
            found.append(_problem_at(source, node.start_byte, f"{what} is missing"))
        elif node.is_error:
            offset, message = _describe_error(node, source)
            found.append(_problem_at(source, offset, message))
        else:
            waiting += [child for child in reversed(node.children) if child.has_error]
    if not found:
        captured = tree_sitter.QueryCursor(_FOREIGN).captures(root)
        places = sorted((node.start_byte, name) for name, nodes in captured.items() for node in nodes)
        found = [
            _problem_at(source, offset, _FOREIGN_MESSAGES[name]) for offset, name in places[:MAX_REPORTED_PROBLEMS]
        ]
    return found


def _describe_error(node: tree_sitter.Node, source: bytes) -> tuple[int, str]:
    """Where, and what, an error is: what was opened last and not closed says more than where the parser gave up."""
    opened: list[tree_sitter.Node] = []
    for child in node.children:
        if child.type in _CLOSERS:
            opened.append(child)
        elif opened and child.type == _CLOSERS[opened[-1].type]:
            opened.pop()
    if opened:
        return opened[-1].start_byte, f"this `{opened[-1].type}` is never closed"
    first = node.children[0].type if node.children else ""
    if first in _QUOTES:
        return node.start_byte, f"the text that begins with {first} here never ends"
    text = source[node.start_byte : node.end_byte].decode(errors="replace").split("\n", 1)[0].strip()
    return (
        node.start_byte,
        f"unexpected {_quoted(text if len(text) <= _MAX_QUOTED_CHARACTERS else text[:_MAX_QUOTED_CHARACTERS] + '…')}",
    )


def _quoted(text: str) -> str:
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return f"`{shown}`" if shown and "`" not in shown else shown or "end of a line"


def _problem_at(source: bytes, offset: int, message: str) -> SyntaxProblem:
    start = source.rfind(b"\n", 0, offset) + 1
    # Whole characters only: where reading was given up may be within one.
    column = len(source[start:offset].decode(errors="ignore")) + 1
    return SyntaxProblem(source.count(b"\n", 0, offset) + 1, column, message)


def _build_tree(root: tree_sitter.Node, source: bytes) -> tuple[Node, int]:
    cursor = root.walk()
    top = Node(root.type, None, (0, len(source)), 1, None, source)
    parents, depth = [top], 1
    more = cursor.goto_first_child()
    while more:
        node = cursor.node
        assert node is not None
        field, kind = cursor.field_name, node.type
        made = parents[-1]  # A sign is nobody's parent.
        if node.is_named or field is not None or kind in _KEPT_KEYWORDS:
            span, line = (node.start_byte, node.end_byte), node.start_point[0] + 1
            made = Node(kind, field, span, line, parents[-1], source)
            parents[-1].children.append(made)
        if cursor.goto_first_child():
            parents.append(made)
            depth = max(depth, len(parents))
            continue
        while not cursor.goto_next_sibling():
            parents.pop()
            more = cursor.goto_parent() and bool(parents)
            if not more:
                break
    return top, depth


SUBSTITUTION = "\ufffc"
"""Stands in a template's text where a value comes in."""


def string_value(node: Node) -> str | None:
    """What a string or template says; nothing of other nodes."""
    match node.kind:
        case "string":
            return node.text[1:-1]
        case "template_string":
            return "".join(
                SUBSTITUTION if child.kind == "template_substitution" else child.text for child in node.children
            )
        case _:
            return None


_OPENING = re.compile(r"(?P<indent>[ \t]*(?:>[ \t]?)*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^`\n]*")
_LANGUAGES = frozenset({"js", "javascript", "mjs", "cjs"})


class CodeBlock(msgspec.Struct, frozen=True):
    """One fenced block."""

    code: str
    line: int
    """Of the text, where the code begins."""


def javascript_blocks(text: str) -> list[CodeBlock]:
    """The blocks of JavaScript, in order. One that is never closed, as the answer was cut off, goes to the end."""
    blocks: list[CodeBlock] = []
    opened: re.Match[str] | None = None
    lines: list[str] = []
    begin = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if opened is None:
            opened, lines, begin = _OPENING.fullmatch(line), [], number + 1
        elif _closes(line, opened["fence"]):
            blocks += _code_block(opened, lines, begin)
            opened = None
        else:
            lines.append(_remove_indent(line, opened["indent"]))
    return blocks + _code_block(opened, lines, begin) if opened is not None else blocks


def _closes(line: str, fence: str) -> bool:
    mark = line.strip(" \t>")
    return mark.startswith(fence) and not mark.strip(fence[0])


def _code_block(opened: re.Match[str], lines: list[str], begin: int) -> list[CodeBlock]:
    code = "\n".join(lines)
    return [CodeBlock(code, begin)] if opened["language"].lower() in _LANGUAGES and code.strip() else []


def _remove_indent(line: str, indent: str) -> str:
    """A line of a block that stands in a list or a quotation, without what makes it stand there."""
    same = 0
    while same < min(len(line), len(indent)) and line[same] == indent[same]:
        same += 1
    return line[same:]
