"""Syntax errors of JavaScript; no text makes the parser raise or take long."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat import javascript
from palaver_jobchat.javascript import Syntax, SyntaxProblem, check_syntax, parse_program


@pytest.mark.parametrize(
    "code",
    [
        "",
        "  \n",
        "get('/a');",
        "fn(async state => ({ ...state, a: state?.b ?? 1 }));",
        "// é\r\nget(`/${$.data.id}`)\r\n",
        "get('a NUL: \0, half a pair: \ud800');",
        "try { a(); } catch { b(); }",
        "await get('/a');",
        "[" * 20_000 + "]" * 20_000,
    ],
)
def test_valid_javascript_has_no_syntax_errors(code: str) -> None:
    assert check_syntax(code) == Syntax(ok=True)


@pytest.mark.parametrize(
    ("code", "problems"),
    [
        ("fn(state => {\n  return state;\n", [SyntaxProblem(1, 13, "unclosed `{`")]),
        ("fn(state => {\n  return state;\n}", [SyntaxProblem(1, 3, "unclosed `(`")]),
        ("(]\n[}", [SyntaxProblem(2, 1, "unclosed `[`")]),
        ("get('a'));", [SyntaxProblem(1, 9, "unexpected `)`")]),
        ("x('é', {b: 1 c: 2});", [SyntaxProblem(1, 14, "unexpected `c: 2`")]),
        ("'abc\nget(1)", [SyntaxProblem(1, 1, "unterminated string: no closing '")]),
        ("if (a {\n b();\n}", [SyntaxProblem(1, 6, "missing `)`")]),
        ("c('é' + )", [SyntaxProblem(1, 8, "missing name or value")]),
        ("@@@\0", [SyntaxProblem(1, 1, "unexpected `@@@\ufffd`")]),
        ("get('a');\nfn(s => <b/>)", [SyntaxProblem(2, 9, "JSX is not supported")]),
        ("try { a() }\nb()", [SyntaxProblem(1, 1, "`try` without `catch` or `finally`")]),
    ],
)
def test_invalid_javascript_has_syntax_errors_with_positions(code: str, problems: list[SyntaxProblem]) -> None:
    assert check_syntax(code) == Syntax(ok=False, errors=tuple(problems))


def test_at_most_three_syntax_errors_are_reported() -> None:
    assert [fault.line for fault in check_syntax("get(1));\n" * 9).errors] == [1, 2, 3]


def test_long_unexpected_text_is_truncated_in_the_message() -> None:
    assert check_syntax("#" * 99).errors[0].message == f"unexpected `{'#' * 30}…`"


def test_parsing_stops_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "MAX_PARSE_SECONDS", -1)

    program = parse_program("é\n" * 2000)

    assert program.syntax == Syntax(
        ok=False, errors=(SyntaxProblem(1, 1, "parsing timed out; the rest of the code was not checked"),)
    )


def test_parsing_slow_prose_stops_at_the_time_limit() -> None:
    (fault,) = check_syntax("a 'b " * 30_000).errors

    assert fault.message == "parsing timed out; the rest of the code was not checked"


def test_nodes_have_kind_line_and_enclosing_function() -> None:
    program = parse_program("get('a',\n  async ({ b }) => `x${b}`);")

    call = program.root.children[0].children[0]
    function = next(node for node in call.walk() if node.kind == "arrow_function")
    name = next(node for node in function.walk() if node.text == "${b}")
    assert (repr(call), function.line, function.has("async")) == ("<call_expression in line 1>", 2, True)
    assert [node.kind for node in call.children] == ["identifier", "arguments"]
    assert (name.function, function.function, call.child("nothing")) == (function, None, None)
    assert name not in list(call.walk(skip_inside={"arrow_function"}))
    assert program.depth == 7


def test_concurrent_syntax_checks_give_the_same_results() -> None:
    codes = ["get('/a');\n" * 200, "get('/a'\n" * 50, "", "{" * 999]
    expected = [check_syntax(code) for code in codes]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(check_syntax, codes * 5))

    assert results == expected * 5


@given(st.text(st.characters(), max_size=200) | st.text("(){}[]`$'\"/\\;=>.,ab \n\r\0\ud800é", max_size=60))
def test_any_text_is_parsed_and_error_positions_are_within_it(code: str) -> None:
    program = parse_program(code)

    assert program.syntax.ok == (not program.syntax.errors)
    lines = code.split("\n")
    for fault in program.syntax.errors:
        assert 1 <= fault.line <= len(lines)
        assert 1 <= fault.column <= len(lines[fault.line - 1]) + 1
    assert all(1 <= node.line <= len(lines) and node.text is not None for node in program.root.walk())
