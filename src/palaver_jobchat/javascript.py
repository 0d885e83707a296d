"""Parse JavaScript: syntax errors, a syntax tree for the rules, and the code blocks of a Markdown text.

Parsing never raises, and its time is limited.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec
import tree_sitter
import tree_sitter_javascript


class SyntaxProblem(msgspec.Struct, frozen=True):
    line: int
    column: int
    message: str


class Syntax(msgspec.Struct, frozen=True):
    ok: bool = True
    errors: tuple[SyntaxProblem, ...] = ()


MAX_PARSE_SECONDS = 0.5
"""CPU time of the thread. Jobs need 0.03 s; some prose would need minutes of error recovery."""
MAX_REPORTED_PROBLEMS = 3
"""Errors after the first are often its consequences."""

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

# Small, because each read releases the GIL and checks the time. (The parser's progress callback crashes the process
# in tree-sitter 0.26.0.)
_CHUNK_BYTES = 1024
_LANGUAGE = tree_sitter.Language(tree_sitter_javascript.language())
# The grammar accepts these, but engines that run jobs don't.
_UNSUPPORTED = tree_sitter.Query(
    _LANGUAGE, "[(jsx_element) (jsx_self_closing_element)] @jsx (try_statement !handler !finalizer) @try"
)
_LITERALS = tree_sitter.Query(_LANGUAGE, "[(string) (template_string) (regex) (jsx_text)] @literal (comment) @comment")
_UNSUPPORTED_MESSAGES = {"jsx": "JSX is not supported", "try": "`try` without `catch` or `finally`"}
# NUL is valid in a string but unknown to the grammar; a lone surrogate cannot be encoded. Both are replaced by \x01,
# which is also valid in strings and comments only.
_UNREADABLE = re.compile("[\0\ud800-\udfff]")
_KEPT_KEYWORDS = frozenset({"async", "await"})
_CLOSING_BRACKETS = {"(": ")", "[": "]", "{": "}", "${": "}"}
_QUOTES = frozenset("'\"`")
_MAX_QUOTED_CHARACTERS = 30


class Span(msgspec.Struct, frozen=True):
    """A range of characters."""

    start: int
    end: int
    is_comment: bool = False


class Node:
    """A node of the syntax tree. Punctuation and most keywords are left out."""

    __slots__ = ("_source", "children", "end", "field", "kind", "line", "parent", "start")

    def __init__(
        self, kind: str, field: str | None, span: tuple[int, int], line: int, parent: "Node | None", source: bytes
    ) -> None:
        self.kind = kind
        """The grammar's name: `call_expression`."""
        self.field = field
        """Field name in the parent: `arguments`."""
        self.start, self.end = span
        self.line = line
        self.parent = parent
        self.children: list[Node] = []
        self._source = source

    def __repr__(self) -> str:
        return f"<{self.kind} in line {self.line}>"

    @property
    def text(self) -> str:
        return self._source[self.start : self.end].decode(errors="replace")

    def child(self, field: str) -> "Node | None":
        return next((child for child in self.children if child.field == field), None)

    def has(self, kind: str) -> bool:
        return any(child.kind == kind for child in self.children)

    def ancestors(self) -> "Iterator[Node]":
        """Yield the enclosing nodes, innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def walk(self, *, skip_inside: Collection[str] = ()) -> "Iterator[Node]":
        """Yield the node and its descendants in order, but nothing inside nodes of the kinds in `skip_inside`."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            if node is self or node.kind not in skip_inside:
                stack += reversed(node.children)

    @property
    def function(self) -> "Node | None":
        """The innermost enclosing function."""
        return next((node for node in self.ancestors() if node.kind in FUNCTIONS), None)


class Program:
    """Parsed code. The tree is built on first use."""

    def __init__(self, source: bytes, tree: tree_sitter.Tree, problems: Sequence[SyntaxProblem]) -> None:
        self.syntax = Syntax(ok=not problems, errors=tuple(problems))
        self._source = source
        self._tree = tree

    @cached_property
    def _tree_and_depth(self) -> tuple[Node, int]:
        return _build_tree(self._tree.root_node, self._source)

    @property
    def literals(self) -> list[Span]:
        """The outermost strings, templates, regular expressions, JSX texts and comments, in order."""
        captured = tree_sitter.QueryCursor(_LITERALS).captures(self._tree.root_node)
        nodes = sorted(
            (node.start_byte, node.end_byte, name == "comment") for name, nodes in captured.items() for node in nodes
        )
        spans: list[Span] = []
        byte = position = 0
        for start, end, is_comment in nodes:
            if start >= byte:
                position += len(self._source[byte:start].decode(errors="ignore"))
                length = len(self._source[start:end].decode(errors="ignore"))
                spans.append(Span(position, position + length, is_comment))
                byte, position = end, position + length
        return spans

    @property
    def root(self) -> Node:
        return self._tree_and_depth[0]

    @property
    def depth(self) -> int:
        """Maximum nesting depth of nodes."""
        return self._tree_and_depth[1]


def check_syntax(code: str) -> Syntax:
    return parse_program(code).syntax


def parse_program(code: str) -> Program:
    """Parse code. Thread-safe."""
    source = _UNREADABLE.sub("\x01", code).encode()
    read, stop_offset = _timed_reader(source)
    tree = tree_sitter.Parser(_LANGUAGE).parse(read)
    if (end := stop_offset()) is not None:
        problems = [_problem_at(source, end, "parsing timed out; the rest of the code was not checked")]
    else:
        problems = _find_problems(tree.root_node, source)
    return Program(source, tree, problems)


def _timed_reader(source: bytes) -> tuple[Callable[[int, object], bytes], Callable[[], int | None]]:
    """Return the parser's read callback, which ends at the time limit, and a getter of the offset where it did."""
    deadline = time.thread_time() + MAX_PARSE_SECONDS
    end: int | None = None

    def read(offset: int, _: object) -> bytes:
        nonlocal end
        if end is None and offset < len(source) and time.thread_time() > deadline:
            end = offset
        return source[offset : offset + _CHUNK_BYTES] if end is None else b""

    return read, lambda: end


def _find_problems(root: tree_sitter.Node, source: bytes) -> list[SyntaxProblem]:
    """Return the first syntax errors, in order."""
    problems: list[SyntaxProblem] = []
    stack = [root] if root.has_error else []
    while stack and len(problems) < MAX_REPORTED_PROBLEMS:
        node = stack.pop()
        if node.is_missing:
            missing = "name or value" if node.is_named else _quote(node.type)
            problems.append(_problem_at(source, node.start_byte, f"missing {missing}"))
        elif node.is_error:
            offset, message = _describe_error(node, source)
            problems.append(_problem_at(source, offset, message))
        else:
            stack += [child for child in reversed(node.children) if child.has_error]
    if not problems:
        captured = tree_sitter.QueryCursor(_UNSUPPORTED).captures(root)
        positions = sorted((node.start_byte, name) for name, nodes in captured.items() for node in nodes)
        problems = [
            _problem_at(source, offset, _UNSUPPORTED_MESSAGES[name])
            for offset, name in positions[:MAX_REPORTED_PROBLEMS]
        ]
    return problems


def _describe_error(node: tree_sitter.Node, source: bytes) -> tuple[int, str]:
    """Return the offset and message of an error: of the last unclosed bracket, if any, else where the parser failed."""
    open_brackets: list[tree_sitter.Node] = []
    for child in node.children:
        if child.type in _CLOSING_BRACKETS:
            open_brackets.append(child)
        elif open_brackets and child.type == _CLOSING_BRACKETS[open_brackets[-1].type]:
            open_brackets.pop()
    if open_brackets:
        return open_brackets[-1].start_byte, f"unclosed `{open_brackets[-1].type}`"
    first = node.children[0].type if node.children else ""
    if first in _QUOTES:
        return node.start_byte, f"unterminated string: no closing {first}"
    text = source[node.start_byte : node.end_byte].decode(errors="replace").split("\n", 1)[0].strip()
    return (
        node.start_byte,
        f"unexpected {_quote(text if len(text) <= _MAX_QUOTED_CHARACTERS else text[:_MAX_QUOTED_CHARACTERS] + '…')}",
    )


def _quote(text: str) -> str:
    printable = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return f"`{printable}`" if printable and "`" not in printable else printable or "end of line"


def _problem_at(source: bytes, offset: int, message: str) -> SyntaxProblem:
    start = source.rfind(b"\n", 0, offset) + 1
    # The offset may be inside a character.
    column = len(source[start:offset].decode(errors="ignore")) + 1
    return SyntaxProblem(source.count(b"\n", 0, offset) + 1, column, message)


def _build_tree(root: tree_sitter.Node, source: bytes) -> tuple[Node, int]:
    cursor = root.walk()
    top = Node(root.type, None, (0, len(source)), 1, None, source)
    parents, depth = [top], 1
    has_more = cursor.goto_first_child()
    while has_more:
        node = cursor.node
        assert node is not None
        field, kind = cursor.field_name, node.type
        parent = parents[-1]  # Punctuation is not a parent.
        if node.is_named or field is not None or kind in _KEPT_KEYWORDS:
            span, line = (node.start_byte, node.end_byte), node.start_point[0] + 1
            parent = Node(kind, field, span, line, parents[-1], source)
            parents[-1].children.append(parent)
        if cursor.goto_first_child():
            parents.append(parent)
            depth = max(depth, len(parents))
            continue
        while not cursor.goto_next_sibling():
            parents.pop()
            has_more = cursor.goto_parent() and bool(parents)
            if not has_more:
                break
    return top, depth


SUBSTITUTION = "\ufffc"
"""Placeholder of a template's `${…}` in `string_value`."""


def string_value(node: Node) -> str | None:
    """Return the text of a string or template, or None for other nodes."""
    match node.kind:
        case "string":
            return node.text[1:-1]
        case "template_string":
            return "".join(
                SUBSTITUTION if child.kind == "template_substitution" else child.text for child in node.children
            )
        case _:
            return None


def common_prefix(first: str, second: str) -> str:
    for length, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return first[:length]
    return min(first, second, key=len)


_OPENING_FENCE = re.compile(r"(?P<indent>[ \t]*(?:>[ \t]?)*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^`\n]*")
_LANGUAGES = frozenset({"js", "javascript", "mjs", "cjs"})


class CodeBlock(msgspec.Struct, frozen=True):
    code: str
    line: int
    """Line of the text where the code starts."""


def javascript_blocks(text: str) -> list[CodeBlock]:
    """Return the JavaScript blocks of a Markdown text. An unclosed block, of a truncated answer, extends to the end."""
    blocks: list[CodeBlock] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []
    start_line = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if opening is None:
            opening, lines, start_line = _OPENING_FENCE.fullmatch(line), [], number + 1
        elif _is_closing_fence(line, opening["fence"]):
            blocks += _code_block(opening, lines, start_line)
            opening = None
        else:
            # Without the indentation or quote marks of the list or quotation that the block is part of.
            lines.append(line.removeprefix(common_prefix(line, opening["indent"])))
    return blocks + _code_block(opening, lines, start_line) if opening is not None else blocks


def _is_closing_fence(line: str, fence: str) -> bool:
    mark = line.strip(" \t>")
    return mark.startswith(fence) and not mark.strip(fence[0])


def _code_block(opening: re.Match[str], lines: list[str], start_line: int) -> list[CodeBlock]:
    code = "\n".join(lines)
    return [CodeBlock(code, start_line)] if opening["language"].lower() in _LANGUAGES and code.strip() else []
