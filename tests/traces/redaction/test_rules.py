"""Redaction rules of palaver.toml, and their paths."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import SettingsError
from palaver.traces.redaction import Rule, parse_rules
from palaver.traces.redaction.rules import compile_path


def test_toml_tables_are_parsed_to_rules() -> None:
    tables = tomllib.loads(
        """
        [[redact]]
        path = "inputs.patient.name"
        [[redact]]
        detector = ["email", "card"]
        action = "hash"
        scope = ["traces", "runs"]
        [[redact]]
        detector = "ip"
        action = "drop"
        scope = "testsets"
        """
    )

    assert parse_rules(tables["redact"]) == (
        Rule(path="inputs.patient.name", action="mask", scope=("traces",)),
        Rule(detector=("email", "card"), action="hash", scope=("traces", "runs")),
        Rule(detector=("ip",), action="drop", scope=("testsets",)),
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "exactly one of 'path' and 'detector' is required."),
        ({"path": "inputs", "detector": ["ip"]}, "exactly one of 'path' and 'detector' is required."),
        ({"detector": []}, "exactly one of 'path' and 'detector' is required."),
        ({"path": "inputs..a"}, "the path 'inputs..a' contains an empty name or surrounding spaces."),
        ({"path": " inputs"}, "the path ' inputs' contains an empty name or surrounding spaces."),
        ({"path": "*"}, "the path '*' is too broad or has more than 8 wildcards."),
        ({"path": "inputs" + ".*" * 9}, f"the path 'inputs{'.*' * 9}' is too broad or has more than 8 wildcards."),
        ({"path": "inputs", "scope": []}, "'scope' must not be empty. Available: traces, runs, testsets."),
    ],
)
def test_an_invalid_rule_is_rejected(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_rules([{"path": "outputs"}, table])

    assert error.value.message == f"[[redact]] rule 2: {message}"


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"detector": ["emial"]}, "Allowed values for 'detector': secrets, email, phone, card, iban, ip."),
        ({"path": "inputs", "action": "burn"}, "Allowed values for 'action': mask, hash, drop."),
        ({"path": "inputs", "scope": "everywhere"}, "Allowed values for 'scope': traces, runs, testsets."),
        ({"path": 7}, "Expected `str | null`, got `int`"),
        ({"paht": "inputs"}, "unknown field `paht`"),
        ({"path": "trace_id"}, "'trace_id' cannot be redacted"),
        ({"path": "input.name"}, "unknown field 'input'. Available: name, status_message, messages_in,"),
    ],
)
def test_an_unknown_value_or_field_is_rejected_with_a_hint(table: dict[str, Any], hint: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_rules([table])

    assert error.value.message.startswith("[[redact]] rule 1: ")
    assert hint in error.value.message


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("inputs.name", "inputs.name", True),
        ("inputs.name", "inputs.name.first", False),
        ("messages_in.*.text", "messages_in.0.parts.1.text", True),
        ("messages_in.*.text", "messages_in.text", False),
        ("messages_in.*.text", "messages_out.0.text", False),
        ("*.ssn", "inputs.patient.ssn", True),
        ("*.ssn", ".ssn", False),
        ("attributes.http.*", "attributes.http.route", True),
        ("attributes.http.*", "attributes.http.", False),
        ("inputs.*.a.*.b", "inputs.x.a.y.b", True),
        ("inputs.*.a.*.b", "inputs.x.b.a.b", False),
    ],
)
def test_a_star_matches_one_or_more_names(pattern: str, path: str, expected: bool) -> None:
    assert compile_path(pattern)(path) is expected


@given(st.lists(st.text("ab.", min_size=1), min_size=1, max_size=4))
def test_a_path_with_stars_matches_a_path_built_from_its_pieces(pieces: list[str]) -> None:
    assert compile_path("*".join(["x", *pieces]))("x" + "".join(f"y{piece}" for piece in pieces))
