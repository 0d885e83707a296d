"""JSON inside a text: the whole, a fenced block, or what balances."""

from typing import Any

import pytest
from msgspec import UNSET

from palaver.evaluation.json_search import CodeBlock, balanced_json, code_blocks, find_json, parse_whole
from tests.growth import assert_linear

FENCED = """Here it is:

```json
{"a": [1, 2]}
```

and {"b": 2}."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('  {"a": 1}\n', {"a": 1}),
        ("42", 42),
        ('"text"', "text"),
        ("null", None),
        ("[1]", [1]),
        ("", UNSET),
        ("  ", UNSET),
        ("text", UNSET),
        ('{"a": 1} and more', UNSET),
        ("{'a': 1}", UNSET),
        ("NaN", UNSET),
    ],
)
def test_the_whole_text_may_be_json(text: str, value: Any) -> None:
    assert parse_whole(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        (FENCED, {"a": [1, 2]}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('~~~json\n{"a": 1}\n~~~', {"a": 1}),
        ('```json\r\n{"a": 1}\r\n```\r\n', {"a": 1}),
        ('```python\nprint("{}")\n```\n```json\n[true]\n```', [True]),
        ('```json\n{"a": 1', UNSET),
        ('Sure: {"a": {"b": "}"}} there', {"a": {"b": "}"}}),
        ('Sure: {"a": "quoted \\" and ["} there', {"a": 'quoted " and ['}),
        ("A set {x, y} and a list [true, null].", [True, None]),
        ('{not json} {"a": 1}', {"a": 1}),
        ('{"open": [1, {"b": 2}', {"b": 2}),
        ('[see {"a": 1}]', {"a": 1}),
        ('He said "{" and then {"a": 1}', {"a": 1}),
        ('As [1] says: {"a": 1}', {"a": 1}),
        ("As [1] says.", [1]),
        ("- [ ] to do", []),
        ("nothing here", UNSET),
        ("", UNSET),
        ("}{][", UNSET),
        ("{" * 500, UNSET),
    ],
)
def test_the_first_json_in_a_text(text: str, value: Any) -> None:
    assert find_json(text) == value


def test_each_that_balances_comes_as_a_value_and_as_it_is_written() -> None:
    text = 'a {"x": [1]} b [2, 3] c {y} d []'

    assert list(balanced_json(text)) == [({"x": [1]}, '{"x": [1]}'), ([2, 3], "[2, 3]"), ([], "[]")]


def test_blocks_know_their_language_and_whether_they_are_all_there_is() -> None:
    assert code_blocks("```py title=x\na\n```") == [CodeBlock("py", "a\n", is_whole=True)]
    assert code_blocks("text\n```\na\n```\n~~~js\nb\n~~~") == [
        CodeBlock("", "a\n", is_whole=False),
        CodeBlock("js", "b\n", is_whole=False),
    ]
    assert code_blocks("```js\nnever closed") == [CodeBlock("js", "never closed", is_whole=True)]
    assert code_blocks("some `code` in a line") == []


@pytest.mark.parametrize("text", ["[[", '{"', "[1, ", '["a', "{}"])
def test_brackets_without_end_do_not_take_without_end(text: str) -> None:
    assert_linear(find_json, lambda count: text * count + "[", 100_000)
