"""Rules about the structure of a job: it parses, imports nothing, and has only operations at the top level."""

from collections.abc import Iterator

from palaver_jobchat.javascript import FUNCTIONS, Node
from palaver_jobchat.rules.base import Job, Remark, rule
from palaver_jobchat.rules.operations import chain_start, unwrap
from palaver_jobchat.rules.scopes import Declaration


@rule("parses", accepts_invalid_code=True)
def parses(job: Job) -> Iterator[Remark]:
    for problem in job.program.syntax.errors:
        message = f"Syntax error: {problem.message} (column {problem.column})."
        yield Remark("error", problem.line, message)
    if job.program.syntax.ok and job.is_too_deep:
        yield Remark("note", 1, "The code is nested too deeply to check.")


@rule("no_import")
def no_import(job: Job) -> Iterator[Remark]:
    for node in job.root.walk():
        match node.kind:
            case "import_statement":
                yield Remark(
                    "error", node.line, "Jobs can't use `import`. The adaptor's functions are already available."
                )
            case "export_statement":
                yield Remark("error", node.line, "Jobs can't use `export`; a job's output is its final state.")
            case "call_expression":
                callee = node.child("function")
                if callee is None:
                    continue
                is_require = callee.kind == "identifier" and callee.text == "require"
                if callee.kind == "import" or (is_require and job.scopes.binding(callee) is None):
                    yield Remark(
                        "error",
                        node.line,
                        f"Jobs can't use `{callee.text}`; only the adaptor's functions are available.",
                    )
            case _:
                pass


_SILENT_STATEMENTS = frozenset({"comment", "empty_statement", "hash_bang_line"})
# Imports and exports are reported by another rule.
_ALLOWED_STATEMENTS = _SILENT_STATEMENTS | {"import_statement", "export_statement"}
_DECLARATIONS = frozenset(
    {
        "class_declaration",
        "function_declaration",
        "generator_function_declaration",
        "lexical_declaration",
        "variable_declaration",
    }
)


@rule("top_level_operations")
def top_level_operations(job: Job) -> Iterator[Remark]:
    operations = {operation.call for operation in job.operations.all}
    for statement in job.root.children:
        if statement.kind in _ALLOWED_STATEMENTS:
            continue
        if statement.kind in _DECLARATIONS:
            yield Remark(
                "note", statement.line, "This declaration is outside all operations, so it can't access state."
            )
        elif statement.kind != "expression_statement":
            yield Remark("error", statement.line, "Only operations are allowed at the top level. Put this inside `fn`.")
        elif (message := _statement_problem(statement, operations)) is not None:
            yield Remark("error", statement.line, message)
    kinds = {statement.kind for statement in job.root.children} - _SILENT_STATEMENTS
    if kinds and kinds <= _DECLARATIONS:
        yield Remark("error", 1, "The job has no operations, so it does nothing.")


def _statement_problem(statement: Node, operations: set[Node]) -> str | None:
    expressions = [child for child in statement.children if child.kind != "comment"]
    expression = unwrap(expressions[0]) if expressions else None
    if expression is None or expression.text.strip("'\"") == "use strict":
        return None
    if expression.kind != "call_expression":
        return "This is not an operation. Put it inside `fn`."
    first = chain_start(expression)
    if first in operations or _is_other_rules_concern(first):
        return None
    return "This call is not an operation and runs before the job starts. Put it inside `fn`."


def _is_other_rules_concern(call: Node) -> bool:
    """Whether the call starts with `$` or passes state to an operation, which other rules report."""
    node = call.child("function")
    if node is not None and unwrap(node).kind == "call_expression":
        argument_list = call.child("arguments")
        return argument_list is not None and [child.text for child in argument_list.children] == ["state"]
    while node is not None and node.kind in ("member_expression", "subscript_expression", "call_expression"):
        node = node.child("object") or node.child("function")
    return node is not None and node.text == "$"


@rule("no_top_level_await")
def no_top_level_await(job: Job) -> Iterator[Remark]:
    for node in job.root.walk(skip_inside=FUNCTIONS):
        if node.kind == "await_expression" or (node.kind == "for_in_statement" and node.has("await")):
            yield Remark(
                "error", node.line, "`await` isn't allowed at the top level; operations already run one after another."
            )


@rule("no_duplicate_declarations")
def no_duplicate_declarations(job: Job) -> Iterator[Remark]:
    reported: set[tuple[str, int, int]] = set()
    for declared in job.scopes.declared.values():
        for declarations in declared.values():
            pair = _find_clash(declarations)
            if pair is None or (key := (pair[0].name, pair[0].line, pair[1].line)) in reported:
                continue
            reported.add(key)
            first, second = pair
            yield Remark("error", second.line, f"`{first.name}` is already declared on line {first.line}.")


def _find_clash(declarations: list[Declaration]) -> tuple[Declaration, Declaration] | None:
    """Return the first two conflicting declarations of a name. `var`, functions and one parameter don't conflict."""
    by_kind: dict[str, Declaration] = {}
    for declaration in declarations:
        other_kinds = ("lexical", "parameter") if declaration.kind == "parameter" else ("lexical",)
        other = next(
            (by_kind[kind] for kind in (by_kind if declaration.kind == "lexical" else other_kinds) if kind in by_kind),
            None,
        )
        if other is not None:
            return (other, declaration) if other.line <= declaration.line else (declaration, other)
        if declaration.kind != "self":
            by_kind.setdefault(declaration.kind, declaration)
    return None
