"""JSON Schemas sent by callers are validated, and bounded in time and depth."""

import urllib.request
from typing import Any

import pytest

from palaver.core.json_schema import MAX_SCHEMA_BYTES, SchemaError, check_schema, schema_errors
from palaver.errors import InvalidValue

CITY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}, "days": {"type": "integer", "maximum": 7}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ({"city": "Oslo"}, []),
        ({"city": "Oslo", "days": 3.0}, []),
        ({}, ["the value: 'city' is a required property"]),
        ({"city": "O"}, ["/city: 'O' is too short"]),
        ({"city": "Oslo", "a/b": 1}, ["the value: 'a/b' is not an allowed property"]),
        ("Oslo", ["the value: 'Oslo' is not of type 'object'"]),
        ({"city": "Oslo", "days": True}, ["/days: True is not of type 'integer'"]),
    ],
)
def test_schema_errors_describe_invalid_values(value: Any, errors: list[str]) -> None:
    assert schema_errors(value, CITY_SCHEMA) == errors


def test_only_the_first_three_errors_are_returned_and_long_ones_are_truncated() -> None:
    result = schema_errors(["x" * 1000] * 10, {"items": {"type": "integer"}})

    assert [fault[:6] for fault in result] == ["/0: 'x", "/1: 'x", "/2: 'x"]
    assert max(map(len, result)) < 220


@pytest.mark.parametrize("schema", [True, {}, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}])
def test_a_schema_may_be_true_or_empty_or_have_internal_references(schema: Any) -> None:
    check_schema(schema, "/parameters/schema")

    assert schema_errors(1, schema) == []


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("object", "a schema must be an object, true or false."),
        ({"type": "objekt"}, "invalid schema: /type has an invalid value: 'objekt'."),
        (
            {"$ref": "https://a.org/schema.json"},
            "invalid schema: reference 'https://a.org/schema.json' is not supported; references must start with '#'.",
        ),
        ({"items": {"$ref": "file:///etc/passwd"}}, None),
        ({"$ref": "other.json"}, None),
        ({"$ref": "#/$defs/gone"}, "invalid schema: reference '#/$defs/gone' not found."),
        ({"$ref": "#/x", "x": {"pattern": "("}}, "invalid schema: reference '#/x' does not lead to a schema."),
        (
            {"properties": {"a": {"$id": "http://b"}}},
            "invalid schema: /properties/a/$id is not supported; only the root may have an $id.",
        ),
        (
            {"properties": {"enum": {"items": [{}]}}},
            "invalid schema: /properties/enum/items must be an object, true or",
        ),
        ({"minLength": "3"}, "invalid schema: /minLength must be a number, not a string."),
        ({"anyOf": []}, "invalid schema: /anyOf must not be empty."),
        ({"pattern": "("}, None),
        ({"patternProperties": {"[": {}}}, None),
        ({"properties": {"default": {"pattern": "("}}}, None),
        ({"pattern": "(?x)a"}, "invalid schema: the group '(?x)a' is not supported."),
        ({"pattern": "[[:alpha:])]"}, "invalid schema: the character class '[[:alpha:]' is not supported."),
        ({"unevaluatedProperties": False, "patternProperties": {"a": {}}}, None),
        (
            {"const": "x" * MAX_SCHEMA_BYTES},
            f"the schema is {MAX_SCHEMA_BYTES + 12:,} bytes long; the limit is {MAX_SCHEMA_BYTES:,}.",
        ),
    ],
)
def test_invalid_schemas_are_rejected_with_a_pointer(schema: Any, message: str | None) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_schema(schema, "/parameters/schema")

    assert refused.value.pointer == "/parameters/schema"
    assert message is None or str(refused.value).startswith(message)


def test_a_schema_nested_too_deeply_is_rejected() -> None:
    schema: dict[str, Any] = {}
    for _ in range(65):
        schema = {"not": schema}

    with pytest.raises(InvalidValue, match="nested deeper than 64 levels"):
        check_schema(schema, "/parameters/schema")


def test_keywords_inside_enum_values_and_property_names_are_ignored() -> None:
    check_schema({"enum": [{"pattern": "("}, {"$ref": "http://a"}], "properties": {"pattern": {}}}, "")


def test_remote_references_are_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_on_fetch(*_: Any, **__: Any) -> Any:
        raise AssertionError("fetched")

    monkeypatch.setattr(urllib.request, "urlopen", fail_on_fetch)

    with pytest.raises(SchemaError, match="is not supported"):
        schema_errors({}, {"$ref": "http://127.0.0.1/schema"})


def test_infinite_recursion_in_a_schema_is_an_error() -> None:
    check_schema({"$ref": "#"}, "")

    with pytest.raises(SchemaError, match="circular references"):
        schema_errors({}, {"$ref": "#"})


def test_exponentially_expanding_references_exceed_the_step_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palaver.core.json_schema.MAX_STEPS", 2_000)
    repeated = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    schema: dict[str, Any] = {"$ref": "#/$defs/a0", "$defs": {**repeated, "a40": {}}}
    check_schema(schema, "")

    with pytest.raises(SchemaError, match=r"^validation exceeded its limit of 2,000 steps"):
        schema_errors({}, schema)


def test_a_pattern_with_catastrophic_backtracking_is_stopped() -> None:
    with pytest.raises(SchemaError, match=r"^matching the pattern "):
        schema_errors("a" * 40 + "!", {"pattern": "^(a|a)*$"})


def test_pattern_properties_are_validated() -> None:
    schema = {"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": {"type": "string"}}

    assert schema_errors({"n_a": 1, "b": "c"}, schema) == []
    assert schema_errors({"n_a": "1", "b": 2}, schema) == [
        "/n_a: '1' is not of type 'integer'",
        "/b: 2 is not of type 'string'",
    ]


def test_patterns_apply_only_to_strings_and_property_rules_only_to_objects() -> None:
    schema = {"pattern": "^[a-z]+$", "patternProperties": {"a": False}, "additionalProperties": False}

    assert [schema_errors(value, schema) for value in ("abc", 5, None, ["A"])] == [[], [], [], []]
    assert schema_errors("A1", schema) == ["the value: 'A1' does not match '^[a-z]+$'"]
    assert schema_errors({"b": 1}, schema) == ["the value: 'b' is not an allowed property"]


@pytest.mark.parametrize(
    "pattern", ["(" * 40 + "a" + "{1,100})" * 40, "([)]" * 40 + "a" + "{1,100})" * 40, "(a|b){1,50}" * 4000]
)
def test_patterns_that_take_exponential_time_to_compile_are_rejected(pattern: str) -> None:
    with pytest.raises(InvalidValue, match="too long or nested too deeply"):
        check_schema({"pattern": pattern}, "")


def test_usual_patterns_are_accepted() -> None:
    pattern = r"^(?!\.)(?<user>[\w'+.-]+)@(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}$"
    check_schema({"pattern": pattern}, "")

    assert schema_errors("ada@example.org", {"pattern": pattern}) == []
    assert schema_errors("É", {"pattern": r"^(?i)\p{L}$"}) == []


def test_a_validation_ends_at_its_timeout() -> None:
    repeated = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}

    with pytest.raises(SchemaError, match=r"^validation took longer than 0.01 s"):
        schema_errors({}, {"$ref": "#/$defs/a0", "$defs": {**repeated, "a40": {}}}, timeout_s=0.01)


def test_unique_items_compares_numbers_by_value_and_many_items_quickly() -> None:
    schema = {"uniqueItems": True}

    assert schema_errors([1, True, "1", {"a": 1, "b": [2]}, {"a": 1}], schema) == []
    assert schema_errors([{"a": 1, "b": 2.0}, {"b": 2, "a": 1}], schema) == [
        "the value: [{'a': 1, 'b': 2.0}, {'b': 2, 'a': 1}] has non-unique elements"
    ]
    assert schema_errors([{"a": number} for number in range(50_000)], schema) == []
