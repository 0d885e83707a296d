"""The rules for good jobs: what each finds, and what it accepts."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat import prompt
from palaver_jobchat.adaptors.entries import AdaptorDocs, Entry
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.javascript import javascript_blocks
from palaver_jobchat.rules import RULES, Finding, check

DOCS = AdaptorDocs(
    adaptor=Adaptor("@openfn/language-library", "1.0.0"),
    version="1.0.0",
    state="exact",
    entries=(
        Entry("fn", "fn(func: Function): Operation", ""),
        Entry("lend", "lend(what: Map<string, any>, callback?: function): Operation", ""),
        Entry("map", "map(path: string, callback: function): Operation", ""),
        Entry("Book", "type Book = { callback }", "", "type"),
    ),
)


def rule_findings(rule: str, code: str, docs: AdaptorDocs | None = None) -> list[str]:
    return [f"{finding.level} {finding.line}" for finding in check(code, docs) if finding.rule == rule]


VALID_JOBS = [
    "fn(({ data, references, ...state }) => state);",
    "fn(({ data, ...rest }) => { if (!data) throw new Error('x'); return { ...rest, data }; });",
    "fn(state => { switch (state.a) { case 1: return state; case 2: { return { ...state }; } default: throw 1; } });",
    "fn(state => { try { a(); return state; } catch (e) { return { ...state, e }; } finally { b(); } });",
    "fn(state => { try { a(); } finally { return state; } });",
    "fn(state => { if (state.a) { return state; } else if (state.b) { return { ...state }; } else { throw 1; } });",
    "fn(state => { for (const a of state.data) { if (a.x) return state; } return state; });",
    "fn(state => { while (true) { if (x()) return state; } });",
    "fn(state => { for (;;) { switch (a) { case 1: break; } return state; } });",
    "fn(state => { do { return state; } while (true); });",
    "fn(state => { a: for (;;) { if (b) break a; } return state; });",
    "fn(state => { a: { return state; } });",
    "fn(async state => { const r = await fetch('x'); return { ...state, data: await r.json() }; });",
    "fnIf($.a > 1, get('/x')); fnIf(state => state.a, fn(s => s)); combine(get('/a'), fn(s => { return s; }));",
    "get('/x', { query: { a: $.b, c: state => state.d } }, state => ({ ...state, q: 1 }));",
    "post(`/x/${$.data.id}`, { ...$.data, u: $.a?.b ?? 'c', l: $.data.items.map(i => ({ id: i.id })) });",
    "collections.each('a', { key: '*' }, (state, value, key) => { console.log(key); });",
    "http.get($.url).then(state => state).catch((error, state) => { console.log(error); return state; });",
    "get('/a').then(post('/b', $.data)).catch(error => { throw error; }).finally(() => {});",
    "(get('/a'));",
    "fn(function (state) { return state; });",
    "fn(state => dataValue('a')(state) ? state : { ...state });",
    "fn(state => { const next = { ...state, a: 1 }; return next; });",
    "fn(state => Object.assign({}, state));",
    "fn(state => { const { configuration, ...rest } = state; return { data: rest, configuration }; });",
    "fn(state => ({ ...clean(state), a: 1 }));",
    "fn(state => (state = { ...state }));",
    "parseXML(state => state.response, $ => { return $('table').html(); });",
    "post('/x', { password: $.configuration.pass, headers: { Authorization: `Bearer ${$.configuration.token}` } });",
    "post('/x', { headers: { authorization: 'Bearer ' + $.configuration.token } });",
    "fn(state => { const text = 'Your order is here: Basic information'; return state; });",
    "get('https://example.com/a:b/c@d?tokens=5'); get(`https://${$.u}:${$.p}@example.com`);",
    "// ...state.data.results.filter(e => e)\nfn(state => state);",
    "fn(state => { var a = 1; var a = 2; function b() {} function b() {} { let a = 3; } return state; });",
    "fn(state => { for (const i of a) {} for (var i of b) {} { const i = 1; } return state; });",
    "fn(state => { try { x(); } catch (e) { var e = 1; } return state; });",
    "fn(function again(state) { const again = 1; return state; });",
    "'use strict';\nget('/a');;",
    "each('$.items[*]', state => { return post('/a', state.data); });",
    "cursor($.cursor, { defaultValue: 'today', format: c => c.toISOString() });",
    "fn(state => { return new Promise(resolve => { resolve(state); }); });",
    "fn($.callMe($.data.name));",
]


@pytest.mark.parametrize("code", VALID_JOBS)
def test_a_good_job_gives_no_finding(code: str) -> None:
    assert check(code) == ()


def test_jobs_of_the_primer_give_no_finding() -> None:
    assert [check(block.code) for block in javascript_blocks(prompt.PRIMER)] == [(), ()]


CASES: list[tuple[str, str, list[str]]] = [
    ("parses", "get('a'));", ["error 1"]),
    ("parses", "[" * 300 + "]" * 300, ["note 1"]),
    (
        "no_import",
        "import a, { b as c, d } from 'e';\nexport default [];\nconst q = require('x');",
        ["error 1", "error 2", "error 3"],
    ),
    ("no_import", "fn(async state => { await import('x'); return state; });", ["error 1"]),
    ("no_import", "fn(require => require('x'));", []),
    ("top_level_operations", "const a = 1;\nfunction b() {}\nclass C {}\nget(a);", ["note 1", "note 2", "note 3"]),
    ("top_level_operations", "// nothing\nconst a = 1;", ["note 2", "error 1"]),
    ("top_level_operations", "\"get('/a');\"", ["error 1"]),
    ("top_level_operations", "if (true) { get('/x'); }\nfor (;;) {}\nreturn 1;", ["error 1", "error 2", "error 3"]),
    (
        "top_level_operations",
        "x = 5;\nconsole.log('x');\nget('/x').map(a => a);\n(() => 1)();",
        [f"error {n}" for n in (1, 2, 3, 4)],
    ),
    ("top_level_operations", "const a = [];\na.forEach(b => b);", ["note 1", "error 2"]),
    ("top_level_operations", "```js\nget('/a');\n```", ["error 1"]),
    ("top_level_operations", "$.data.forEach(a => a);\nget('/x')(state);", []),
    ("no_top_level_await", "await get('/x');\nfor await (const a of b) {}", ["error 1", "error 2"]),
    ("no_alter_state", "alterState(state => state);", ["warning 1"]),
    (
        "no_state_call",
        "fn(state => { get('/x')(state); http.get('/y')(state); return state; });",
        ["warning 1", "warning 1"],
    ),
    ("no_state_call", "const make = a => b => b;\nfn(state => make(1)(state));\nfn(state => [1].map(a)(state));", []),
    ("no_bare_state", "get(state.data.url);\npost('/x', { a: { state } });", ["error 1", "error 2"]),
    ("no_bare_state", "fn(() => { return state; });", ["error 1"]),
    (
        "lazy_state",
        "const x = $.data;\n$.data = 1;\n$('x');\n$.a++;\ndelete $.a;",
        [f"error {n}" for n in (1, 2, 3, 4, 5)],
    ),
    ("lazy_state", "fn(state => { return { ...state, a: $.b }; });", ["error 1"]),
    ("lazy_state", "fn(state => state.a.map(b => $.c));\nget('/a').then(s => $.b);", ["error 1", "error 2"]),
    ("lazy_state", "get($.a.map(b => $.c));\nget('/a', $);\nget(a[$.b], !$.c);", ["warning 1", "warning 2"]),
    ("returns_state", "fn(state => { state.a = 1; });", ["error 1"]),
    ("returns_state", "fn(state => { if (state.a) { return state; } });", ["error 1"]),
    ("returns_state", "fn(state => {\n if (state.a) return;\n return state; });", ["error 2"]),
    (
        "returns_state",
        "fn(state => state.data);\nfn(({ data }) => data);\nfn(state => console.log(1));",
        [f"error {n}" for n in (1, 2, 3)],
    ),
    (
        "returns_state",
        "fn(state => state.data.map(x => x));\nfn(state => (state.data = 5));\nfn(state => a ? state : `x`);",
        [f"error {n}" for n in (1, 2, 3)],
    ),
    ("returns_state", "fn(state => (1, state['a']));\nfn(state => state || [1]);", ["error 1", "error 2"]),
    ("returns_state", "get('/a').then(state => { console.log(state); });", ["error 1"]),
    (
        "returns_state",
        "get('/a').then(s => s, (e, s) => s.data)\n.catch((e, state) => { console.log(e); });",
        ["error 2", "error 1"],
    ),
    ("returns_state", "each($.x, state => { console.log(state.data); });", ["error 1"]),
    ("returns_state", "post('/a', state => { const x = state.data; });", ["warning 1"]),
    ("returns_state", "fn(state => { switch (state.a) { case 1: break; default: return state; } });", ["error 1"]),
    ("returns_state", "fn(state => { switch (state.a) { case 1: return state; } });", ["error 1"]),
    (
        "returns_state",
        "fn(state => { for (;;) { break; } });\nfn(state => { while (a) { return state; } });",
        ["error 1", "error 2"],
    ),
    ("returns_state", "fn(state => { do { if (a) continue; return state; } while (b); });", ["error 1"]),
    (
        "returns_state",
        "fn(state => { a: { if (b) break a; return state; } });\nfn(s => { a: for (;;) { break a; } });",
        ["error 1", "error 2"],
    ),
    ("returns_state", "fn(state => { try { return state; } catch (e) { console.log(e); } });", ["error 1"]),
    (
        "returns_state",
        "function clean(state) { state.a = 1; }\nconst b = state => { };\nfn(clean);\nfn(b);",
        ["error 1", "error 2"],
    ),
    ("keeps_state", "fn(state => ({ data: 1 })); get('/x');", ["warning 1"]),
    ("keeps_state", "get('/x');\nfn(state => ({ data: 1 }));", ["note 2"]),
    ("keeps_state", "fn(({ data }) => ({ ...data })); get('x');", ["warning 1"]),
    ("keeps_state", "fn(state => { const { data } = state; return { ...data }; }); get('x');", ["warning 1"]),
    ("keeps_state", "fn(state => { const { a } = state.data, b = 1; return { ...a }; }); get('x');", ["warning 1"]),
    ("keeps_state", "fn(() => ({ ...state.data })); 'x';", ["warning 1"]),
    ("no_credentials", "post('/a', { password: 'hunter2',\n'X-API-Key': `abc` });", ["error 1", "error 2"]),
    (
        "no_credentials",
        "const token = 'abc';\na.b.secret = 'x';\nf(({ pwd = 'x' }) => 1);\na['password'] = 'x';",
        [f"error {n}" for n in (1, 2, 3, 4)],
    ),
    (
        "no_credentials",
        "get('https://me:secret@host/x');\nget('/x?api_key=abcdef');\nx('Basic dXNlcjE6cGFzcw==');",
        [f"error {n}" for n in (1, 2, 3)],
    ),
    ("no_credentials", "x({ Authorization: 'Bearer abc12345' ", ["error 1"]),
    ("no_credentials", "post('/a', { password: '', token: null, secretary: 'Ann', authorization: 'Bearer' });", []),
    ("json_path", "each('items[*]', post('/a'));\neach(`${a}.b`, fn(s => s));\ndataValue('a');", ["warning 1"]),
    (
        "no_placeholders",
        "// TODO\nget('/a');\n// ... existing code ...\n/* ok\n ...\n*/",
        ["warning 1", "warning 3", "warning 5"],
    ),
    (
        "no_placeholders",
        "// the rest of the code stays the same\n// add your mapping here\n// the todo list is here",
        ["warning 1", "warning 2"],
    ),
    (
        "no_placeholders",
        "post('YOUR_API_URL');\npost('<your-token>');\npost('your token here');\npost('REPLACE_ME');",
        [f"warning {n}" for n in (1, 2, 3, 4)],
    ),
    ("no_placeholders", "get('/a')\n...\n// rest of code", ["warning 3"]),
    (
        "no_duplicate_declarations",
        "const a = 1;\nconst a = 2;\nfunction b() {}\nfunction b() {}",
        ["error 2", "error 4"],
    ),
    ("no_duplicate_declarations", "fn(state => { let state = 1; return state; });", ["error 1"]),
    ("no_duplicate_declarations", "fn(state => { let a;\n{ var a; { var a; } } return state; });", ["error 2"]),
    (
        "no_duplicate_declarations",
        "fn((a, { b: [a], ...c }) => { try {} catch (e) {\nlet e; } });",
        ["error 1", "error 2"],
    ),
    ("no_duplicate_declarations", "import d, { x as b } from 'c';\nlet b; let d;", ["error 2", "error 2"]),
    (
        "no_duplicate_declarations",
        "fn(s => { switch (s) { case 1: let a; break; default:\nlet a; } return s; });",
        ["error 2"],
    ),
]


@pytest.mark.parametrize(("rule", "code", "expected"), CASES)
def test_rule_finds_the_expected_lines(rule: str, code: str, expected: list[str]) -> None:
    assert rule_findings(rule, code)[: len(expected) + 1] == expected


def test_each_rule_that_needs_no_docs_has_a_case() -> None:
    assert {rule.id for rule in RULES} - {case[0] for case in CASES} == {"known_functions", "request_options"}


HTTP_6 = AdaptorDocs(
    adaptor=Adaptor("@openfn/language-http", "6.0.0"),
    state="exact",
    entries=(Entry("post", "post(path: string, params?: RequestOptions, callback?: function)", ""),),
)
HTTP_7 = msgspec.structs.replace(
    HTTP_6, entries=(Entry("post", "post(path: string, data: object, options?: RequestOptions)", ""),)
)


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("post('/a', { body: $.data, 'headers': {} });", [], ["error 1"]),
        ("post('/a', { body: 'a comment' });", [], ["warning 1"]),
        ("post('/a', { body: 'mail', to: 'me' });", [], []),
        ("post('/a',\n{ name: 'Ada' });", ["error 2"], []),
        ("post('/a', { query: {} });", [], []),
        ("post('/a', {});\npost('/a', $.data);\npost('/a');", [], []),
        ("post('/a', { name: 1, ...$.data });\npost('/a', { [x]: 1 });", [], []),
        ("post('/a', { name: 1 /* a */, body });\nhttp.post('/a', { name: 1 });\nget('/a', { name: 1 });", [], []),
    ],
)
def test_body_is_where_the_version_of_the_http_adaptor_takes_it(code: str, old: list[str], new: list[str]) -> None:
    assert rule_findings("request_options", code, HTTP_6) == old
    assert rule_findings("request_options", code, HTTP_7) == new
    assert rule_findings("request_options", code, msgspec.structs.replace(HTTP_6, state="nearest")) == []
    assert rule_findings("request_options", code, msgspec.structs.replace(HTTP_6, adaptor=Adaptor("x", "6.0.0"))) == []


def test_unknown_functions_are_found_only_with_docs_of_the_exact_version() -> None:
    code = "lent('a');\nfn(s => other(s));\nhttp.get('/a');\nexecute(Book());\nparseInt('1');"

    assert [finding for finding in check(code, DOCS) if finding.rule == "known_functions"] == [
        Finding(
            "known_functions", "error", 1, "@openfn/language-library@1.0.0 has no function `lent`. Did you mean `lend`?"
        ),
        Finding("known_functions", "error", 4, "@openfn/language-library@1.0.0 has no function `Book`."),
    ]
    assert rule_findings("known_functions", code, msgspec.structs.replace(DOCS, state="nearest")) == []
    assert rule_findings("known_functions", code) == []


def test_callbacks_are_recognized_from_the_docs() -> None:
    code = "lend($.a, state => state.data);\nmap($.a, item => item.name);"

    assert rule_findings("returns_state", code, DOCS) == ["error 1"]
    assert rule_findings("returns_state", code) == []


def test_code_that_does_not_parse_is_checked_only_by_rules_without_a_tree() -> None:
    code = "fn(state => { password = 'x' // TODO\nimport a"

    assert {finding.rule for finding in check(code)} == {"parses", "no_credentials", "no_placeholders"}


def test_rule_reports_once_per_line_and_at_most_twenty_findings() -> None:
    assert rule_findings("no_bare_state", "get(state.a, state.b);") == ["error 1"]
    assert len(rule_findings("no_bare_state", "get(state.a);\n" * 99)) == 20


def test_finding_is_serialized_with_all_its_fields() -> None:
    (finding,) = check("each('a', get('/b'));")

    assert msgspec.to_builtins(finding) == {
        "rule": "json_path",
        "level": "warning",
        "line": 1,
        "message": "Paths must start with `$`: write `'$.a'`, or use lazy state without quotes.",
    }


TOKEN_LISTS = st.lists(
    st.sampled_from(
        "fn( get( each( state $ .data => { } ( ) ; , '$.a' `x${ return if(a) else for(;;) switch(a){ case 1: default: "
        "const let var a b = 1 function async await try catch(e) finally import require('x') ...state \n // TODO "
        "password: 'x' .then( .catch( break continue do while(true) l: class import export delete ++".split(" ")
    ),
    max_size=30,
)


@given(
    st.text(max_size=80) | TOKEN_LISTS.map(" ".join) | st.lists(st.sampled_from(VALID_JOBS), max_size=4).map("\n".join)
)
def test_any_text_can_be_checked_and_lines_of_findings_are_within_it(code: str) -> None:
    assert all(1 <= finding.line <= code.count("\n") + 1 for finding in check(code, DOCS))
