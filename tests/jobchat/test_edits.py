"""Edits of a job: where they apply, when they fail, and what they never change."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.edit_matcher import MAX_MATCHES
from palaver_jobchat.edits import (
    EditOutcome,
    EditResult,
    apply_code_correction,
    apply_correction,
    apply_edits,
    requested_edits,
)


def replace(old: str, new: str, action: str = "replace") -> dict[str, str]:
    return {"action": action, "old_code": old, "new_code": new}


def outcome_summaries(result: EditResult) -> list[str]:
    return [f"{outcome.state} {outcome.how or outcome.reason or ''}".strip() for outcome in result.outcomes]


@pytest.mark.parametrize(
    ("job", "edit", "code", "outcome"),
    [
        # A blank job.
        ("", replace("x", "get('/a');"), "get('/a');", "applied created"),
        (" \n", {"new_code": "get('/a');"}, "get('/a');", "applied created"),
        ("\r\n", {"action": "rewrite", "new_code": "a\nb\n"}, "a\r\nb\r\n", "applied created"),
        ("", replace("x", " \n"), "", "unchanged"),
        ("", {"action": "rewrite"}, "", "failed malformed"),
        # A rewrite.
        ("a", {"action": "rewrite", "new_code": "b\r\n"}, "b\n", "applied rewrite"),
        ("a", {"action": "rewrite", "new_code": "a"}, "a", "unchanged"),
        ("a", {"action": "rewrite", "new_code": " "}, "a", "failed malformed"),
        ("a", {"action": "rewrite"}, "a", "failed malformed"),
        # An exact match.
        ("get('/a');", replace("'/a'", "'/b'"), "get('/b');", "applied exact"),
        ("get('/a');", replace("'/a'", r"$& \1 \g<0>"), r"get($& \1 \g<0>);", "applied exact"),
        ("a b a", replace("a", "c"), "a b a", "failed ambiguous"),
        ("aaa", replace("aa", "b"), "aaa", "failed ambiguous"),
        ("aaa", replace("aa", "b", "replace_all"), "ba", "applied exact"),
        ("a b a", replace("a", "c", "replace_all"), "c b c", "applied exact"),
        ("abc", replace("b", ""), "ac", "applied exact"),
        ("abc", replace("z", "z"), "abc", "unchanged"),
        ("abc", replace("z", "y"), "abc", "failed not_found"),
        ("abc", replace("", "y"), "abc", "failed malformed"),
        ("abc", replace("b", "y", "insert"), "abc", "failed malformed"),
        # Code in a Markdown fence.
        ("", {"new_code": "```js\nget('/a');\n```"}, "get('/a');\n", "applied created"),
        ("a\r\nb\r\n", {"action": "rewrite", "new_code": "```\r\nc\r\n```\r\n"}, "c\r\n", "applied rewrite"),
        ("a", {"action": "rewrite", "new_code": "\n~~~javascript\nb\nc\n"}, "b\nc\n", "applied rewrite"),
        ("a", {"action": "rewrite", "new_code": "```js\n```"}, "a", "failed malformed"),
        ("a b", replace("a", "```js\nc\n```"), "c b", "applied exact"),
        ("a b", replace("```\na\n```", "```\nc\nd\n```"), "c\nd b", "applied exact"),
        ("/*\n```js\na\n```\n*/", replace("```js\na\n```", "```js\nb\n```"), "/*\n```js\nb\n```\n*/", "applied exact"),
        ("a", replace("a", "`${b}`"), "`${b}`", "applied exact"),
        # A match that ignores line ends.
        ("a\r\nb\r\n", replace("a\nb", "a\nc"), "a\r\nc\r\n", "applied line-ends"),
        ("a\r\nb\r\n", replace("a\r\nb", "c\nd"), "c\r\nd\r\n", "applied exact"),
        ("a\r\nb\r\nx\r\n", replace("\nb\n", "\nc\n"), "a\r\nc\r\nx\r\n", "applied line-ends"),
        ("a\r\nb\na\nb\r\n", replace("\nb", "\nc"), "a\r\nb\na\nb\r\n", "failed ambiguous"),
        ("a  \nb\t\nx", replace("a\nb\n", "c\n"), "c\nx", "applied line-ends"),
        ("a\nb\nx", replace("a  \nb", "c"), "c\nx", "applied line-ends"),
        ("a\r\nb  \r\nx", replace("a\nb ", "a\nc "), "a\r\nc \r\nx", "applied line-ends"),
        ("a\nb  ", replace("a \nb ", "c"), "c", "applied line-ends"),
        ("a\nb = 1\n", replace("a \nb ", "c"), "c = 1\n", "applied tokens"),
        ("a \nb \na \nb", replace("a\nb", "c", "replace_all"), "c \nc", "applied line-ends"),
        # A match that ignores indentation.
        (
            "fn(state => {\n    a();\n    b();\n});\n",
            replace("a();\nb();", "a();\n\nif (c) {\n  d();\n}"),
            "fn(state => {\n    a();\n\n    if (c) {\n      d();\n    }\n});\n",
            "applied indent",
        ),
        ("x\na();\nb();\n", replace("  a();\n  b();\n", "  c();\n d();\n"), "x\nc();\nd();\n", "applied indent"),
        ("  a\nb\n", replace("a\n  b", "c\n    d"), "c\n    d\n", "applied indent"),
        ("x\r\n  a\r\n  b\r\ny", replace("\na\nb\n\n", "c\n"), "x\r\n  c\r\ny", "applied indent"),
        ("x\n  a\n  b", replace("a\nb\n", "c\n"), "x\n  c\n", "applied indent"),
        ("  a\n  b\n\ta\n\tb\n", replace("a\nb\n", "c\n", "replace_all"), "  c\n\tc\n", "applied indent"),
        ("  a\n  b\n\ta\n\tb\n", replace("a\nb\n", "c\n"), "  a\n  b\n\ta\n\tb\n", "failed ambiguous"),
        ("  a\n  a\n  a\n", replace("a\na\n", "c\n", "replace_all"), "  c\n  a\n", "applied indent"),
        ("  a\n  a\n  a\n", replace("a\na\n", "c\n"), "  a\n  a\n  a\n", "failed ambiguous"),
        ("  a\n  b", replace("a\nb", "a\nb", "replace"), "  a\n  b", "unchanged"),
        ("  a\n  b", replace("a\nb", "a\nb\r"), "  a\n  b\r", "applied indent"),
        ("a", replace(" \n ", "b"), "a", "failed not_found"),
        # A match of tokens: spaces inside lines, and trailing commas and semicolons.
        ("get( '/a',{a:1} );\n", replace("get('/a', { a: 1 });", "post('/a');"), "post('/a');\n", "applied tokens"),
        ("get('/a', {a: 1,});", replace("{ a: 1 }", "{}"), "get('/a', {});", "applied tokens"),
        ("get('/a', [{ a: 1 }])", replace("[{ a: 1, }, ]", "[]"), "get('/a', [])", "applied tokens"),
        ("f({\n  a : 1\n});", replace("a: 1,", "a: 2,"), "f({\n  a: 2,\n});", "applied tokens"),
        ("f({\n  a : 1,\n  b,\n});", replace("a: 1,", "a: 2,"), "f({\n  a: 2,\n  b,\n});", "applied tokens"),
        ("f({\n  a : 1,\n  b,\n});", replace("a: 1\n", "a: 2\n"), "f({\n  a: 2,\n  b,\n});", "applied tokens"),
        ("a( );\nb( );\n", replace("a()\nb()\n", "c();\n"), "c();\n", "applied tokens"),
        ("a( );\nb( );\n", replace("a()\nb()", "c()"), "c();\n", "applied tokens"),
        ("f({\n  a : 1,\n  b,\n});", replace("  a: 1\n", ""), "f({\n  b,\n});", "applied tokens"),
        ("a( )\nb( )\n", replace("a();\nb();\n", "c();\n"), "c();\n", "applied tokens"),
        ("a( ); b();\n", replace("a();", "c();"), "c(); b();\n", "applied tokens"),
        ("fn(s => { return s })", replace("{ return s; }", "s"), "fn(s => s)", "applied tokens"),
        ("x = a( )\n  .then(f);", replace("a();", "b();"), "x = a( )\n  .then(f);", "failed not_found"),
        ("a( );\n(b);", replace("a()(b)", "c"), "a( );\n(b);", "failed not_found"),
        ("a + +b", replace("a ++b", "c"), "a + +b", "failed not_found"),
        ("ab cd", replace("abcd", "c"), "ab cd", "failed not_found"),
        ("a( );a(  );", replace("a()", "b()"), "a( );a(  );", "failed ambiguous"),
        ("a( );a(  );", replace("a()", "b()", "replace_all"), "b();b();", "applied tokens"),
        ("// a  b\nx( )\n", replace("// a b\nx()", "y"), "y\n", "applied tokens"),
        (
            "fn(state => {\r\n    if(a) {\r\n        b();\r\n    }\r\n});",
            replace("  if (a) {\n      b();\n  }\n", "  if (c) {\n      d();\n  }\n"),
            "fn(state => {\r\n    if (c) {\r\n        d();\r\n    }\r\n});",
            "applied tokens",
        ),
        (
            "fn(state => {\n  if(a) {\n    b();\n  }\n});",
            replace("if (a) {\n    b();\n  }", "if (c) {\n    d();\n  }"),
            "fn(state => {\n  if (c) {\n    d();\n  }\n});",
            "applied tokens",
        ),
        ("  a( );\n  b();\n", replace("a();\n", ""), "  b();\n", "applied tokens"),
        # Spaces in strings, templates, regular expressions and JSX count.
        ("f( 'a  b' )", replace("f('a b')", "g"), "f( 'a  b' )", "failed not_found"),
        ("f( `a  b` )", replace("f(`a b`)", "g"), "f( `a  b` )", "failed not_found"),
        ("f( `a  b` )", replace("f(`a  b`)", "g"), "g", "applied tokens"),
        ("f( /a  b/ )", replace("f(/a b/)", "g"), "f( /a  b/ )", "failed not_found"),
        ("f( <p>a  b</p> )", replace("f(<p>a b</p>)", "g"), "f( <p>a  b</p> )", "failed not_found"),
        ("f( <p>a  b</p> )", replace("f(<p>a  b</p>)", "g"), "g", "applied tokens"),
        ("f(`\n  a \n`)", replace("f(`\n  a\n`)", "g"), "f(`\n  a \n`)", "failed not_found"),
        ("f(`\r\n  a\r\n`)", replace("f(`\n  a\n`)", "g"), "g", "applied line-ends"),
        ("f(`\n    a\n  `)", replace("f(`\na\n`)", "g"), "f(`\n    a\n  `)", "failed not_found"),
        (
            "  f(`\n  a\n`);\n  h();\n",
            replace("f(`\n  a\n`);\nh();\n", "f(`\n  b\n`);\nh();\n"),
            "  f(`\n  b\n`);\n  h();\n",
            "applied indent",
        ),
        (
            "  f(`\n    a\n  `);\n",
            replace("f(`\n  a\n`);\n", "f(`\n  b\n`);\n"),
            "  f(`\n    b\n  `);\n",
            "applied indent",
        ),
    ],
)
def test_single_edit_gives_the_expected_code_and_outcome(job: str, edit: Any, code: str, outcome: str) -> None:
    result = apply_edits(job, [edit])

    assert (result.code, outcome_summaries(result)) == (code, [outcome])
    assert result.suggested == (code if code != job else None)


def test_edits_apply_in_order_and_a_failed_edit_leaves_the_code_unchanged() -> None:
    result = apply_edits("a();\nb();\na();\n", [replace("b", "c"), replace("a", "x"), replace("c();\n", "")])

    assert result == EditResult(
        job="a();\nb();\na();\n",
        code="a();\na();\n",
        outcomes=(
            EditOutcome(action="replace", old="b", new="c", state="applied", how="exact", start=5, end=6),
            EditOutcome(action="replace", old="a", new="x", state="failed", reason="ambiguous", lines=(1, 3)),
            EditOutcome(action="replace", old="c();\n", new="", state="applied", how="exact", start=5, end=10),
        ),
    )


def test_job_emptied_by_an_edit_is_not_treated_as_blank() -> None:
    assert outcome_summaries(apply_edits("a", [replace("a", ""), replace("b", "c")])) == [
        "applied exact",
        "failed not_found",
    ]


def test_a_blank_job_is_created_once() -> None:
    result = apply_edits("", [replace("", " "), replace("", "a"), replace("a", "b")])

    assert (result.code, outcome_summaries(result)) == ("b", ["unchanged", "applied created", "applied exact"])


def test_edits_that_undo_each_other_suggest_nothing() -> None:
    assert apply_edits("a", [replace("a", "b"), replace("b", "a")]).suggested is None


def test_replace_all_reports_the_range_from_first_to_last_match() -> None:
    (outcome,) = apply_edits("x a b a y", [replace("a", "c", "replace_all")]).outcomes

    assert (outcome.start, outcome.end) == (2, 7)


def test_counting_of_matches_stops_past_the_maximum() -> None:
    (outcome,) = apply_edits("a" * 10_000, [replace("a", "b")]).outcomes

    assert len(outcome.lines) == MAX_MATCHES + 1


def test_requested_edits_keep_call_order_and_invalid_calls_are_malformed_edits() -> None:
    edits = requested_edits([{"edits": [replace("a", "b")]}, {"edits": []}, "no", {"edits": {}}, {"edits": [1]}])

    assert edits == [replace("a", "b"), None, None, 1]
    assert outcome_summaries(apply_edits("a", edits)) == ["applied exact", *["failed malformed"] * 3]


# Corrections.

PARTIAL_RESULT = apply_edits("a a\nb\n", [replace("z", "y"), replace("b", "c"), replace("a", "x")])


def test_corrections_are_paired_with_failures_if_their_number_is_equal() -> None:
    corrected = apply_correction(PARTIAL_RESULT, [replace("c", "d"), replace("a", "y")])

    assert corrected.code == "a a\nd\n"
    assert outcome_summaries(corrected) == ["applied corrected", "applied exact", "failed ambiguous"]
    assert corrected.outcomes[2] == PARTIAL_RESULT.outcomes[2]


@pytest.mark.parametrize("edits", [[], [replace("c", "d")] * 3, [replace("c", "c")], None, [replace("a", "b")]])
def test_corrections_are_dropped_if_their_number_differs_and_not_all_apply(edits: Any) -> None:
    assert apply_correction(PARTIAL_RESULT, edits) == PARTIAL_RESULT


def test_corrections_of_a_different_number_replace_all_failures_if_all_apply() -> None:
    corrected = apply_correction(PARTIAL_RESULT, [{"action": "rewrite", "new_code": "x\n"}])

    assert corrected.code == "x\n"
    assert outcome_summaries(corrected) == ["applied corrected", "applied exact", "applied corrected"]


def test_correction_does_not_treat_an_emptied_job_as_blank() -> None:
    emptied = apply_edits("a", [replace("a", ""), replace("b", "c")])

    assert apply_correction(emptied, [replace("x", "y")]) == emptied


def test_correction_uses_the_line_ends_of_the_original_job() -> None:
    result = apply_edits("a\r\n", [replace("a\r\n", "b"), replace("z", "y")])

    assert apply_correction(result, [replace("b", "c\nd")]).code == "c\r\nd"


def test_correction_of_the_code_is_applied_only_if_the_result_is_better() -> None:
    broken = apply_edits("a()", [replace("()", "(")])

    assert apply_code_correction(broken, [replace("(", "();")], lambda code: code == "a();").code == "a();"
    assert apply_code_correction(broken, [replace("(", "((")], lambda code: False) == broken
    assert apply_code_correction(broken, [replace("z", "y")], lambda code: True) == broken


# Properties

CODE = st.text(alphabet="ab \t\n", max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["action", "old_code", "new_code", "edits", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)
EDIT = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["replace", "replace_all", "rewrite", "delete"]),
        "old_code": st.text(alphabet="ab \t\r\n", max_size=8),
        "new_code": st.text(alphabet="abc \t\r\n", max_size=8),
    }
)


@given(before=CODE, old=st.text(alphabet="xy\n", min_size=1, max_size=6).filter(str.strip), after=CODE, new=CODE)
def test_replacing_a_unique_exact_match_equals_str_replace(before: str, old: str, after: str, new: str) -> None:
    job = before + old + after
    offsets = [at for at in range(len(job)) if job.startswith(old, at)]

    result = apply_edits(job, [replace(old, new)])

    if len(offsets) == 1:
        assert result.code == job.replace(old, new)
    else:
        assert (result.code, outcome_summaries(result)) == (job, ["failed ambiguous"])


@given(job=st.text(alphabet="ab \t\r\n", max_size=40), edits=st.lists(EDIT, max_size=4))
def test_edit_changes_nothing_outside_its_range(job: str, edits: list[Any]) -> None:
    code = job
    for edit in edits:
        result = apply_edits(code, [edit])
        (outcome,) = result.outcomes
        if outcome.state != "applied":
            assert result.code == code
        else:
            assert outcome.start is not None
            assert outcome.end is not None
            assert result.code.startswith(code[: outcome.start])
            assert result.code.endswith(code[outcome.end :])
        code = result.code


@given(lines=st.lists(st.text(alphabet="ab \t", max_size=6), min_size=2, max_size=8), edits=st.lists(EDIT, max_size=4))
def test_crlf_in_crlf_out(lines: list[str], edits: list[Any]) -> None:
    code = apply_edits("\r\n".join(lines), edits).code

    assert "\n" not in code.replace("\r\n", "")


@given(job=st.text(max_size=30), edits=JSON)
def test_any_json_gives_one_outcome_per_edit(job: str, edits: Any) -> None:
    result = apply_edits(job, edits)
    corrected = apply_correction(result, edits)

    assert len(result.outcomes) == (len(edits) if isinstance(edits, list) else 1)
    assert len(corrected.outcomes) == len(result.outcomes)
    assert all((outcome.how is not None) == (outcome.state == "applied") for outcome in corrected.outcomes)
    assert all((outcome.reason is not None) == (outcome.state == "failed") for outcome in corrected.outcomes)
