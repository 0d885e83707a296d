"""format: rules for the format of the answer, such as Markdown and JSON."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_case, verdict

FENCED_JSON = '```json\n{"a": 1}\n```'
TEXT_WITH_CODE = "So:\n```python\nx = 1\n```\nand\n~~~js\ny = 2\n~~~"
SCHEMA = {"type": "object", "required": ["a"]}


@pytest.mark.parametrize(
    ("text", "rules", "passed"),
    [
        ('{"a": 1}', {"json": True}, True),
        (' {"a": 1}\n', {"json": True}, True),
        ("42", {"json": True}, True),
        ("", {"json": True}, False),
        ('So: {"a": 1}', {"json": True}, False),
        (FENCED_JSON, {"json": True}, False),
        (FENCED_JSON, {"json": True, "allow_fence": True}, True),
        (f"\n{FENCED_JSON}\n\n", {"json": True, "allow_fence": True}, True),
        (f"So:\n{FENCED_JSON}", {"json": True, "allow_fence": True}, False),
        (f"{FENCED_JSON}\nGood?", {"json": True, "allow_fence": True}, False),
        ("```\nnot json\n```", {"json": True, "allow_fence": True}, False),
        ('{"a": 1}', {"schema": SCHEMA}, True),
        ('{"b": 1}', {"schema": SCHEMA}, False),
        ("prose", {"schema": SCHEMA}, False),
        (FENCED_JSON, {"schema": SCHEMA, "allow_fence": True}, True),
        ("12345", {"max_chars": 5}, True),
        ("123456", {"max_chars": 5}, False),
        ("", {"min_chars": 1}, False),
        ("", {"min_chars": 0}, True),
        ("ab", {"min_chars": 2, "max_chars": 2}, True),
        ("one two three", {"max_words": 3}, True),
        ("one  two\nthree four", {"max_words": 3}, False),
        ("", {"max_words": 0}, True),
        ("a\nb", {"max_lines": 2}, True),
        ("a\nb\n", {"max_lines": 2}, True),
        ("a\nb\nc", {"max_lines": 2}, False),
        ("", {"max_lines": 0}, True),
        (TEXT_WITH_CODE, {"code_blocks": {}}, True),
        ("none", {"code_blocks": {}}, False),
        ("none", {"code_blocks": {"max": 0}}, True),
        (TEXT_WITH_CODE, {"code_blocks": {"max": 1}}, False),
        (TEXT_WITH_CODE, {"code_blocks": {"min": 2, "max": 2}}, True),
        (TEXT_WITH_CODE, {"code_blocks": {"min": 3}}, False),
        (TEXT_WITH_CODE, {"code_blocks": {"language": "python"}}, True),
        (TEXT_WITH_CODE, {"code_blocks": {"language": "Python", "max": 1}}, True),
        (TEXT_WITH_CODE, {"code_blocks": {"language": "sql"}}, False),
        (TEXT_WITH_CODE, {"code_blocks": {"language": "sql", "max": 0}}, True),
        (TEXT_WITH_CODE, {"code_blocks": {"language": "js", "min": 2}}, False),
    ],
)
async def test_each_rule_is_checked(text: str, rules: dict[str, Any], passed: bool) -> None:
    one = await score_case("format", answer(text), **rules)

    assert (one.status, one.passed) == ("scored", passed)


@pytest.mark.parametrize(
    "text",
    [
        "# Heading",
        "Text\n## Heading",
        "**bold**",
        "so *very* nice",
        "so _very_ nice",
        "__init__ in bold",
        "- item",
        "* item",
        "1. item",
        "2) item",
        "> quoted",
        "`code`",
        "```\ncode\n```",
        "[a link](https://example.org)",
        "![an image](x.png)",
        "a\n---\nb",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "a | b\n--- | ---\n1 | 2",
    ],
)
async def test_markdown_is_detected(text: str) -> None:
    assert await verdict("format", answer(text), markdown="none") is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain prose, nothing else.",
        "5 * 3 * 2 is 30",
        "snake_case_name stays",
        "a #hashtag and #1",
        "Well - yes. And 3.5 or so.",
        "f(x) [1] (see above)",
        "-5 degrees, +3 points",
        "It is > 5",
        "1.5 litres",
        "2**3",
        "em — dash -- here",
    ],
)
async def test_plain_text_is_not_detected_as_markdown(text: str) -> None:
    assert await verdict("format", answer(text), markdown="none") is True


async def test_the_score_is_the_share_of_rules_that_pass() -> None:
    one = await score_case("format", answer("- a list"), markdown="none", max_chars=100, max_words=2, json=True)

    assert (one.passed, one.score) == (False, 0.25)
    assert one.details == {"json": False, "max_chars": True, "max_words": False, "markdown": False}
    assert one.reason == "rules not met: json, max_words, markdown"
    assert await verdict("format", answer("- a list"), markdown="none", max_chars=100, threshold=0.5) is True


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({}, "/parameters"),
        ({"allow_fence": True}, "/parameters"),
        ({"json": False}, "/parameters"),
        ({"max_chars": -1}, "/parameters/max_chars"),
        ({"max_words": 1.5}, "/parameters/max_words"),
        ({"markdown": "some"}, "/parameters/markdown"),
        ({"schema": {"type": 5}}, "/parameters/schema"),
        ({"code_blocks": {"most": 1}}, "/parameters/code_blocks"),
        ({"code_blocks": 2}, "/parameters/code_blocks"),
    ],
)
def test_invalid_rules_are_rejected(parameters: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()["format"].bind(parameters, OfflineContext())

    assert refused.value.pointer == pointer


async def test_a_workflows_value_is_json_and_has_no_text() -> None:
    case = answer({"a": 1}, is_chat=False)

    assert await verdict("format", case, json=True) is True
    assert await verdict("format", case, schema=SCHEMA) is True
    assert await verdict("format", case, json=True, max_chars=10) == "needs_text"
    assert await verdict("format", case, max_chars=7, stringify=True) is True
