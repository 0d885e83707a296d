"""contains_json: a JSON object or array anywhere in the text."""

from typing import Any

import pytest

from palaver.errors import InvalidValue
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluator_helpers import answer, score_case, verdict

CITY_SCHEMA = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    ("text", "kind", "passed"),
    [
        ('{"a": 1}', "any", True),
        ("{}", "any", True),
        ("[]", "any", True),
        ("[1]", "any", True),
        ("  [1, 2]\n", "array", True),
        ("As [1] says", "any", False),
        ("As [1] and [2, 3] say", "any", False),
        ("As [1.5] says", "any", True),
        ("As [true] says", "any", True),
        ("As [1] says: [2, {}]", "any", True),
        ("- [ ] to do\n- [x] done", "any", False),
        ("the list [] is empty", "array", True),
        ('Sure: {"a": 1}.', "any", True),
        ('Sure: {"a": 1}.', "array", False),
        ('Sure: ["a"].', "array", True),
        ('Sure: ["a"].', "object", False),
        ('Sure: [{"a": 1}].', "object", True),
        ('Sure: {"a": [1]}.', "array", True),
        ("```json\n[1, 2]\n```", "array", True),
        ("See:\n```\n[1]\n```\n", "any", True),
        ("{'a': 1}", "any", False),
        ("{a, b}", "any", False),
        ('{"a": 1', "any", False),
        ('{"a": 1,}', "any", False),
        ("42", "any", False),
        ('"text"', "any", False),
        ("null", "any", False),
        ("no", "any", False),
        ("", "any", False),
    ],
)
async def test_json_in_a_text(text: str, kind: str, passed: bool) -> None:
    one = await score_case("contains_json", answer(text), kind=kind)

    assert (one.status, one.passed, one.score) == ("scored", passed, float(passed))


@pytest.mark.parametrize(
    ("text", "kind", "passed"),
    [
        ('{"city": "Oslo"}', "any", True),
        ('{"city": 5}', "any", False),
        ('First {"x": 1}, then {"city": "Oslo"}.', "any", True),
        ('It is {"answer": {"city": "Oslo"}}.', "any", True),
        ('["city"]', "any", False),
        ('[{"city": "Oslo"}]', "array", False),
        ("", "any", False),
    ],
)
async def test_any_json_in_the_text_may_match_the_schema(text: str, kind: str, passed: bool) -> None:
    assert await verdict("contains_json", answer(text), kind=kind, schema=CITY_SCHEMA) is passed


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"kind": "number"}, "/parameters/kind"),
        ({"schema": {"type": "nothing"}}, "/parameters/schema"),
        ({"schema": {"$ref": "https://example.org/x"}}, "/parameters/schema"),
        ({"schema": "x"}, "/parameters/schema"),
    ],
)
def test_an_invalid_kind_or_schema_is_rejected(parameters: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        built_in()["contains_json"].bind(parameters, OfflineContext())

    assert refused.value.pointer == pointer


async def test_a_workflows_value_is_checked_as_json() -> None:
    assert await verdict("contains_json", answer({"a": 1}, is_chat=False)) is True
    assert await verdict("contains_json", answer({"a": 1}, is_chat=False), kind="array") is False
    assert await verdict("contains_json", answer("so: [null]", is_chat=False)) is True
    assert await verdict("contains_json", answer(5, is_chat=False)) is False
    assert await verdict("contains_json", answer({"a": 1}, is_chat=False), stringify=True) is True


async def test_the_reason_says_what_is_missing_or_does_not_match() -> None:
    assert (await score_case("contains_json", answer("no"), kind="object")).reason == "no JSON object in the text"
    assert (await score_case("contains_json", answer("{}"), schema=CITY_SCHEMA)).reason.startswith(
        "the JSON does not match the schema: "
    )
