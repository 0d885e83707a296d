"""Redaction rules of palaver.toml, and their paths."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import SettingsError
from palaver.traces.redaction import Rule, parse_rules
from palaver.traces.redaction.rules import compile_path


def test_tables_become_rules() -> None:
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
        ({}, "it needs a path or a detector, and not both."),
        ({"path": "inputs", "detector": ["ip"]}, "it needs a path or a detector, and not both."),
        ({"detector": []}, "it needs a path or a detector, and not both."),
        ({"path": "inputs..a"}, "the path 'inputs..a' has an empty name in it."),
        ({"path": " inputs"}, "the path ' inputs' has an empty name in it."),
        ({"path": "*"}, "the path '*' names too much, or has more than 8 stars."),
        ({"path": "inputs" + ".*" * 9}, f"the path 'inputs{'.*' * 9}' names too much, or has more than 8 stars."),
        ({"path": "inputs", "scope": []}, "its scope is empty. Known: traces, runs, testsets."),
    ],
)
def test_a_rule_that_means_nothing_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_rules([{"path": "outputs"}, table])

    assert refused.value.message == f"[[redact]] 2: {message}"


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"detector": ["emial"]}, "Known for detector: secrets, email, phone, card, iban, ip."),
        ({"path": "inputs", "action": "burn"}, "Known for action: mask, hash, drop."),
        ({"path": "inputs", "scope": "everywhere"}, "Known for scope: traces, runs, testsets."),
        ({"path": 7}, "Expected `str | null`, got `int`"),
        ({"paht": "inputs"}, "unknown field `paht`"),
        ({"path": "trace_id"}, "trace_id cannot be removed"),
        ({"path": "input.name"}, "no record has a field 'input'. Known: name, status_message, messages_in,"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_ones(table: dict[str, Any], hint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_rules([table])

    assert refused.value.message.startswith("[[redact]] 1: ")
    assert hint in refused.value.message


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
def test_a_star_is_one_name_or_more(pattern: str, path: str, expected: bool) -> None:
    assert compile_path(pattern)(path) is expected


@given(st.lists(st.text("ab.", min_size=1), min_size=1, max_size=4))
def test_a_path_matches_what_it_was_made_of(pieces: list[str]) -> None:
    assert compile_path("*".join(["x", *pieces]))("x" + "".join(f"y{piece}" for piece in pieces))
