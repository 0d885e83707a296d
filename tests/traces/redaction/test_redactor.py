"""Redaction of records: in every field, in the source attributes, and in names."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import json
from palaver.core.messages import Data, Message, ToolCall, ToolResult
from palaver.traces.model import Link, Redaction, Span, SpanEvent, SpanException, Tool, ToolDefinition
from palaver.traces.redaction import MASK, Redactor, Rule, detectors, parse_rules
from palaver.traces.redaction import redactor as module

KEY = b"the key of a project"
START = datetime(2026, 11, 15, 7, 20, tzinfo=UTC)
SECRET = "sk-abcdefgh12345678"
MAIL = "ann@example.com"


def record(**fields: Any) -> Span:
    return Span(trace_id="0" * 31 + "1", span_id="0" * 15 + "2", start=START, **fields)


def redact_span(span: Span, rules: Sequence[Rule], key: bytes) -> Span:
    return Redactor(rules, key).redact_span(span)


def test_a_record_with_nothing_to_redact_is_returned_unchanged() -> None:
    span = record(name="chat", inputs={"a": ["b"]}, attributes={"http.route": "/x", "url": "https://example.com/"})

    assert redact_span(span, [], KEY) is span
    assert redact_span(span, parse_rules([{"detector": "email"}, {"path": "outputs"}]), KEY) is span


def test_secrets_are_removed_without_a_rule() -> None:
    span = record(
        name=f"call {SECRET}",
        status_message=SECRET,
        messages_in=(Message.user(f"My key is {SECRET}"), Message.tool("c1", {"token": SECRET})),
        inputs={"deep": [{SECRET: SECRET}]},
        attributes={"a": SECRET, "b": f'{{"key": "{SECRET}"}}', "c": 1},
        events=(SpanEvent(name="exception", at=START, attributes={"exception.message": SECRET}),),
        exception=SpanException(type="Error", message=SECRET),
        user=SECRET,
    )

    assert redact_span(span, [], KEY) == record(
        name="call ***",
        status_message="***",
        messages_in=(Message.user("My key is ***"), Message.tool("c1", {"token": "***"})),
        inputs={"deep": [{"***": "***"}]},
        attributes={"a": "***", "b": '{"key":"***"}', "c": 1},
        events=(SpanEvent(name="exception", at=START, attributes={"exception.message": "***"}),),
        exception=SpanException(type="Error", message="***"),
        user="***",
        redactions=(
            Redaction("name", "secrets"),
            Redaction("status_message", "secrets"),
            Redaction("messages_in.*.parts.*.text", "secrets"),
            Redaction("messages_in.*.parts.*.output.token", "secrets"),
            Redaction("inputs.deep.*", "secrets"),
            Redaction("inputs.deep.*.***", "secrets"),
            Redaction("user", "secrets"),
            Redaction("exception.message", "secrets"),
            Redaction("attributes.a", "secrets"),
            Redaction("attributes.b.key", "secrets"),
            Redaction("events.*.attributes.exception.message", "secrets"),
        ),
    )


def test_values_of_sensitive_names_are_removed_without_a_rule() -> None:
    attributes = {
        "http.request.header.authorization": ["Negotiate abc"],
        "http.response.header.set-cookie": "a=b",
        "password": "hunter2",
        "db.API_KEY": 12,
        "has.password": True,
        "none.password": None,
        "passwords": "kept",
        "json": '{"a": [{"password": "hunter2"}], "n": 1}',
        "not json": '{"password": hunter2',
    }

    span = redact_span(record(attributes=attributes, inputs={"password": {"new": "hunter2"}}), [], KEY)

    assert span.attributes == attributes | {
        "http.request.header.authorization": MASK,
        "http.response.header.set-cookie": MASK,
        "password": MASK,
        "db.API_KEY": MASK,
        "json": '{"a":[{"password":"‹redacted›"}],"n":1}',
    }
    assert span.inputs == {"password": MASK}
    assert span.redactions == (
        Redaction("inputs.password", "*.password"),
        Redaction("attributes.http.request.header.authorization", "*.authorization"),
        Redaction("attributes.http.response.header.set-cookie", "*.cookie"),
        Redaction("attributes.password", "*.password"),
        Redaction("attributes.db.API_KEY", "*.api_key"),
        Redaction("attributes.json.a.*.password", "*.password"),
    )


def test_a_path_removes_a_value_and_its_copies_in_the_attributes() -> None:
    original = '{"patient": {"name": "Ann Lee", "age": 42}, "note": "Ann Lee, 42"}'
    span = record(
        inputs={"patient": {"name": "Ann Lee", "age": 42}, "note": "Ann Lee, 42"},
        messages_in=(Message.user("I am Ann"),),
        attributes={"palaver.inputs": original, "age": 42, "other": "Ann Leeds", "plain": "for Ann Lee!"},
    )
    rules = parse_rules([{"path": "inputs.patient.name"}, {"path": "inputs.*.age", "action": "drop"}])

    assert redact_span(span, rules, KEY) == record(
        inputs={"patient": {"name": MASK}, "note": "Ann Lee, 42"},
        messages_in=(Message.user("I am Ann"),),
        attributes={
            "palaver.inputs": '{"patient":{"name":"‹redacted›","age":""},"note":"‹redacted›, 42"}',
            "age": "",
            "other": "Ann Leeds",
            "plain": "for ‹redacted›!",
        },
        redactions=(
            Redaction("inputs.patient.name", "inputs.patient.name"),
            Redaction("inputs.patient.age", "inputs.*.age"),
            Redaction("attributes.palaver.inputs.patient.name", "inputs.patient.name"),
            Redaction("attributes.palaver.inputs.patient.age", "inputs.*.age"),
            Redaction("attributes.palaver.inputs.note", "inputs.patient.name"),
            Redaction("attributes.age", "inputs.*.age"),
            Redaction("attributes.plain", "inputs.patient.name"),
        ),
    )


@pytest.mark.parametrize(
    ("path", "action", "field", "expected"),
    [
        (
            "messages_in.*.text",
            "mask",
            "messages_in",
            (Message.user(MASK), Message.assistant(ToolCall("c", "t", "{}"))),
        ),
        ("messages_in.*.text", "drop", "messages_in", (Message.user(""), Message.assistant(ToolCall("c", "t", "{}")))),
        ("messages_in.1", "drop", "messages_in", (Message.user("hi there"),)),
        (
            "messages_in.1",
            "mask",
            "messages_in",
            (Message.user("hi there"), Message.assistant(ToolCall("c", MASK, MASK))),
        ),
        ("messages_in", "mask", "messages_in", (Message.user(MASK), Message.assistant(ToolCall("c", MASK, MASK)))),
        ("messages_in", "drop", "messages_in", ()),
        ("messages_in.*.role", "mask", "messages_in", None),
        ("messages_out.*.output.ssn", "drop", "messages_out", (Message.tool("c", {"a": [1]}),)),
        ("messages_out.*.output", "mask", "messages_out", (Message.tool("c", {"ssn": MASK, "a": [MASK]}),)),
        ("outputs", "mask", "outputs", MASK),
        ("outputs", "drop", "outputs", None),
        ("outputs.list.0", "drop", "outputs", {"list": ["second"]}),
        ("outputs.list", "mask", "outputs", {"list": MASK}),
        ("parameters", "mask", "parameters", {"stop": MASK, "on": True}),
        ("parameters.stop", "mask", "parameters", {"stop": MASK, "on": True}),
        ("attributes", "drop", "attributes", {}),
        ("attributes.a.*", "mask", "attributes", {"a.b": MASK, "c": "kept"}),
        ("events.*.attributes.x", "drop", "events", (SpanEvent("e", START, {}),)),
        ("events.*.name", "drop", "events", (SpanEvent("", START, {"x": "event text"}),)),
        ("events.*.attributes", "drop", "events", (SpanEvent("e", START, {}),)),
        ("messages_in.*.parts", "drop", "messages_in", (Message("user", ()), Message("assistant", ()))),
        ("links", "mask", "links", (Link("1" * 32, "2" * 16, {"why": MASK}),)),
        ("tools.*.description", "mask", "tools", (ToolDefinition("t", MASK, {}),)),
        ("tool.name", "mask", "tool", Tool(MASK, "c")),
        ("exception", "mask", "exception", SpanException(MASK, MASK)),
        ("exception.message", "drop", "exception", SpanException("ValueError", "")),
        ("user", "drop", "user", None),
        ("name", "mask", "name", MASK),
    ],
)
def test_a_path_can_name_any_content_field(path: str, action: str, field: str, expected: Any) -> None:
    span = record(
        name="the name",
        messages_in=(Message.user("hi there"), Message.assistant(ToolCall("c", "t", "{}"))),
        messages_out=(Message.tool("c", {"ssn": "123-45", "a": [1]}),),
        outputs={"list": ["first", "second"]},
        parameters={"stop": "END", "on": True},
        tools=(ToolDefinition("t", "A tool.", {}),),
        tool=Tool("t-name", "c"),
        exception=SpanException("ValueError", "it broke"),
        user="u-1",
        attributes={"a.b": "sent", "c": "kept"},
        events=(SpanEvent("e", START, {"x": "event text"}),),
        links=(Link("1" * 32, "2" * 16, {"why": "because"}),),
    )

    after = redact_span(span, parse_rules([{"path": path, "action": action}]), KEY)

    assert getattr(after, field) == (getattr(span, field) if path.endswith("role") else expected)
    for other in Span.__struct_fields__:
        if other not in {field, "redactions"}:
            assert getattr(after, other) == getattr(span, other), other


def test_a_hash_is_equal_for_equal_values_and_differs_with_the_key() -> None:
    rules = parse_rules([{"path": "user", "action": "hash"}, {"detector": "email", "action": "hash"}])
    span = record(
        user="u-1", inputs=[MAIL, f"to {MAIL}", "u-1 and others"], outputs={"n": 1}, attributes={"user.id": "u-1"}
    )

    first, second, other_key = (
        redact_span(span, rules, KEY),
        redact_span(span, rules, KEY),
        redact_span(span, rules, KEY * 9),
    )

    assert first == second
    assert first.inputs[1] == f"to {first.inputs[0]}"
    assert first.attributes == {"user.id": first.user}
    assert len({first.user, other_key.user, first.inputs[0], other_key.inputs[0], "u-1", MAIL}) == 6
    assert first.user is not None
    assert (first.user[0], first.user[-1], len(first.user)) == ("‹", "›", 18)


def test_a_hash_needs_a_key() -> None:
    with pytest.raises(ValueError, match="require the project's key"):
        Redactor(parse_rules([{"path": "user", "action": "hash"}]), b"")


def test_detectors_search_json_texts_and_large_numbers() -> None:
    rules = parse_rules([{"detector": ["card", "email"]}])
    span = record(
        inputs={"card": 4111111111111111, "at": 1794727200123456789},
        attributes={"json": '{"card": 4111111111111111, "to": "a\\nann@example.com"}', "list": '["ann@example.com"'},
    )

    after = redact_span(span, rules, KEY)

    assert after.inputs == {"card": MASK, "at": 1794727200123456789}
    assert after.attributes == {"json": '{"card":"‹redacted›","to":"a\\n‹redacted›"}', "list": '["‹redacted›"'}


def test_masked_keys_stay_distinct() -> None:
    span = record(inputs={MAIL: 1, "bob@example.com": 2}, notes=(f"cut:{MAIL}",))

    after = redact_span(span, parse_rules([{"detector": "email"}]), KEY)

    assert after.inputs == {MASK: 1, f"{MASK} 2": 2}
    assert after.notes == (f"cut:{MASK}",)


def test_many_masked_keys_are_counted_in_one_redaction() -> None:
    span = record(inputs={f"a{number}@example.com": 1 for number in range(20_000)})

    after = redact_span(span, parse_rules([{"detector": "email"}]), KEY)

    assert len(after.inputs) == 20_000
    assert after.redactions == (Redaction("inputs", "email", 20_000),)


def test_removing_many_values_takes_bounded_time() -> None:
    span = record(
        inputs=[f"value {number}" for number in range(20_000)], attributes={"a": "value 7 " * 10_000, "b": "value 7"}
    )
    start_s = time.thread_time()

    after = redact_span(span, parse_rules([{"path": "inputs"}]), KEY)

    assert time.thread_time() - start_s < 5
    assert (after.inputs, after.attributes) == (MASK, {"a": MASK, "b": MASK})
    assert Redaction("attributes.a", "size") in after.redactions


def test_secrets_in_deeply_nested_json_texts_are_masked() -> None:
    text = SECRET
    for _ in range(14):
        text = json.encode([text]).decode()
        text = "[" * 40 + text + "]" * 40 if len(text) < 5_000 else text
    assert SECRET in text

    after = redact_span(record(inputs=text, name="kept"), [], KEY)

    assert SECRET not in msgspec.json.encode(after).decode()
    assert after.name in {"kept", ""}


def test_content_under_keys_named_like_record_fields_is_redacted() -> None:
    """Keys like `type` or `role` are content in a tool's output."""
    hidden = {"type": SECRET, "kind": SECRET, "role": SECRET, "at": SECRET, "call_id": SECRET}
    message = Message("tool", (ToolResult("c", {"x": hidden, **hidden}),), metadata={"m": hidden, **hidden})

    after = redact_span(
        record(messages_in=(message,), events=(SpanEvent("e", START, hidden),), attributes=hidden), [], KEY
    )

    assert SECRET not in msgspec.json.encode(after).decode()
    assert after.messages_in[0].role == "tool"


def test_a_removed_value_is_masked_in_keys_too() -> None:
    span = record(user="u-1", attributes={"u-1": 1, "map": {"u-1": ["u-1"]}})

    after = redact_span(span, parse_rules([{"path": "user"}]), KEY)

    assert after.attributes == {MASK: 1, "map": {MASK: [MASK]}}
    assert "u-1" not in str(after)


@pytest.mark.parametrize("content", ["name", "text", "parts", "attributes", "role", "type", "user"])
def test_a_removed_value_that_equals_a_field_name_leaves_the_structure_intact(content: str) -> None:
    span = record(
        messages_in=(Message.user(content),),
        events=(SpanEvent("e", START, {content: content}),),
        attributes={"a": content},
    )

    after = redact_span(span, parse_rules([{"path": "messages_in.*.text"}]), KEY)

    assert after.messages_in == (Message.user(MASK),)
    assert after.events == (SpanEvent("e", START, {MASK: MASK}),)
    assert after.attributes == {"a": MASK}


def test_a_detector_can_drop_its_matches() -> None:
    after = redact_span(record(name=f"to {MAIL}!"), parse_rules([{"detector": "email", "action": "drop"}]), KEY)

    assert (after.name, after.redactions) == ("to !", (Redaction("name", "email"),))


def test_the_first_rule_for_a_detector_applies() -> None:
    rules = parse_rules([{"detector": ["email"]}, {"detector": ["email", "secrets"], "action": "drop"}])

    assert redact_span(record(name=f"{MAIL} {SECRET}"), rules, KEY).name == f"{MASK} ***"


def test_rules_of_another_scope_do_not_apply() -> None:
    rules = parse_rules([{"detector": "email", "scope": "runs"}, {"path": "inputs.a", "scope": ["testsets"]}])

    assert redact_span(record(name=MAIL), rules, KEY).name == MAIL
    assert Redactor(rules, KEY, "runs").redact_value({"a": MAIL}) == ({"a": MASK}, (Redaction("inputs.a", "email"),))
    assert Redactor(rules, KEY, "testsets").redact_value({"a": MAIL}) == (
        {"a": MASK},
        (Redaction("inputs.a", "inputs.a"),),
    )
    assert Redactor(parse_rules([{"path": "inputs", "action": "drop"}]), KEY).redact_value(7)[0] is None


def test_the_list_of_redactions_is_limited() -> None:
    span = record(attributes={f"name {number}": MAIL for number in range(300)} | {"n" * 2_000: MAIL})

    removed = redact_span(span, parse_rules([{"detector": "email"}]), KEY).redactions

    assert len(removed) == 101
    assert sum(one.count for one in removed) == 301
    assert removed[-1] == Redaction("*", "email", 201)
    assert MAIL not in str(removed)


def test_a_text_is_masked_completely_if_a_detector_times_out() -> None:
    ticks = iter(range(10**9))
    slow = detectors.TextRedactor(parse_rules([{"detector": "email"}]), KEY, clock=lambda: float(next(ticks)))

    assert slow.redact("x" * 1_000) == ("x" * 1_000, [])
    assert slow.redact("x" * 5_000) == ("x" * 5_000, [])
    assert slow.redact("x" * 1_000 + "@") == ("x" * 1_000 + "@", [])
    assert slow.redact("x" * 5_000 + "@") == (MASK, [("secrets", 1)])


def test_a_text_with_too_many_candidates_is_masked_completely() -> None:
    ticks = iter(range(10**9))
    rules = parse_rules([{"detector": ["email", "phone"]}])
    slow = detectors.TextRedactor(rules, KEY, clock=lambda: next(ticks) / 1_000)

    text = "1 " * 30_000  # One candidate per number: the clock is read for every 64 of them.

    assert slow.redact(text) == (MASK, [("phone", 1)])
    assert slow.redact("x " * 30_000 + "1 ") == ("x " * 30_000 + "1 ", [])


def test_a_failing_detector_masks_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(detectors.DETECTORS, "email", lambda text, watch: 1 / 0)

    assert redact_span(record(name="any@thing"), parse_rules([{"detector": "email"}]), KEY).name == MASK


def test_a_record_whose_redaction_fails_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RecursionError

    monkeypatch.setattr(module.ValueRedactor, "redact_field", fail)

    assert redact_span(record(name="anything", inputs=1), parse_rules([{"detector": "email"}]), KEY) == record(
        redactions=(Redaction("*", "failure"),)
    )


def test_a_link_that_loses_a_required_field_is_removed() -> None:
    """If a rule for all fields removes a required field, the object that contains it is removed as a whole."""
    span = record(links=(Link("1" * 32, "2" * 16, {}),), events=(SpanEvent("e", START, {"at": "x"}),))

    after = redact_span(span, parse_rules([{"path": "*.attributes", "action": "drop"}]), KEY)

    assert (after.links, after.events) == ((), (SpanEvent("e", START, {}),))


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SENSITIVE_TEXTS = st.sampled_from(
    [SECRET, f'{{"a": "{SECRET}"}}', f"Bearer {SECRET}", f'["{MAIL}"]', MAIL, f"at {MAIL}."]
)


@given(
    st.dictionaries(st.text() | SENSITIVE_TEXTS, VALUES | SENSITIVE_TEXTS | st.lists(SENSITIVE_TEXTS)),
    VALUES | SENSITIVE_TEXTS,
)
def test_no_secret_or_email_address_remains_in_any_field(attributes: dict[str, Any], value: Any) -> None:
    span = record(
        attributes=attributes,
        inputs=value,
        outputs=[value],
        messages_out=(Message.assistant(Data("d", value)), Message("tool", (ToolResult("c", value),))),
        events=(SpanEvent("e", None, attributes),),
    )

    after = redact_span(span, parse_rules([{"detector": "email"}]), KEY)

    encoded = msgspec.json.encode(after).decode()
    assert SECRET not in encoded
    assert MAIL not in encoded
    assert msgspec.json.decode(encoded, type=Span) == after


@given(st.dictionaries(st.text(), VALUES), st.text("xyz", min_size=8))
def test_a_value_removed_by_a_path_remains_in_no_attribute(attributes: dict[str, Any], name: str) -> None:
    original = attributes | {"a": name, "b": f'{{"n": ["{name}"]}}', "c": f"for {name}.", "d": [{"e": name}]}

    after = redact_span(record(attributes=original, inputs={"name": name}), parse_rules([{"path": "inputs.name"}]), KEY)

    assert name not in msgspec.json.encode(after).decode()
