"""Spans for tests of the conventions, the fields read from them, and properties of all valid fields."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET

from palaver.core import json
from palaver.traces.conventions.attributes import Convention, SpanFields
from palaver.traces.conventions.messages import assign_call_ids
from palaver.traces.model import RawSpan

START = datetime(2026, 11, 15, 7, 20, tzinfo=UTC)

COLLECTION_FIELDS = ("messages_in", "messages_out", "parameters", "tools", "notes")
"""Fields whose empty value counts as unset."""

UNRELATED_ATTRIBUTES: dict[str, Any] = {
    "http.request.method": "POST",
    "http.route": "/orders/{id}",
    "server.address": "shop.example",
    "db.query.text": "SELECT 1",
    **{f"app.label.{number}": f"value {number}" for number in range(26)},
}
"""Thirty attributes that belong to none of these conventions."""


def raw_span(attributes: dict[str, Any]) -> RawSpan:
    return RawSpan(
        trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331", start=START, attributes=attributes
    )


def read_fields(convention: Convention, attributes: dict[str, Any]) -> dict[str, Any]:
    """The fields that the convention set, and no other; calls have the ids that the span mapper assigns."""
    original = dict(attributes)
    span_fields = convention.read_fields(raw_span(attributes))
    assert attributes == original
    fields = {name: getattr(span_fields, name) for name in SpanFields.__struct_fields__}
    fields["messages_in"], fields["messages_out"] = assign_call_ids(
        span_fields.messages_in or (), span_fields.messages_out or ()
    )
    result = {
        name: value for name, value in fields.items() if value is not UNSET and (name not in COLLECTION_FIELDS or value)
    }
    assert not result or not convention.ROOTS.isdisjoint(name.partition(".")[0] for name in attributes)
    return result


_TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            " ",
            "null",
            "0",
            "-1",
            "1e999",
            "NaN",
            "{}",
            "[]",
            "[[]]",
            '{"a":',
            '"s"',
            "[" * 200,
            "@ag.type=json:{",
            "@ag.type=none:",
        ]
    ),
    st.sampled_from(
        [
            '[{"role":"user","content":"hi"},7]',
            '[{"type":"text","text":"hi"},{"type":"?"}]',
            '{"system":[1],"prompt":{},"messages":[null]}',
            '{"args":[1],"kwargs":{}}',
            '{"inputs":null}',
            '[{"toolName":1,"toolCallId":[],"input":{"a":1}}]',
            '{"function":{"name":7}}',
        ]
    ),
)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.just("type"), inner, max_size=3)
    ),
    max_leaves=6,
)
_INDICES = st.sampled_from(["0", "1", "7", "00", "-1", "", "x", "9999999", "1.0", "²"])


def attributes_of(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for attributes with any values under these names, where `#` is any index."""

    def indexed(name: str) -> st.SearchStrategy[str]:
        pieces = name.split("#")
        filled = st.tuples(*[_INDICES for _ in pieces[1:]])
        return filled.map(lambda indexes: pieces[0] + "".join(a + b for a, b in zip(indexes, pieces[1:], strict=True)))

    keys = st.sampled_from(names).flatmap(indexed) | st.sampled_from(names).map(lambda name: name + ".__proto__")
    return st.dictionaries(keys, VALUES, max_size=12)


def is_valid(span_fields: SpanFields) -> bool:
    """Whether counts, labels and parameters have valid values, and everything can be encoded."""
    counts = [
        span_fields.input_tokens,
        span_fields.output_tokens,
        span_fields.cached_input_tokens,
        span_fields.reasoning_tokens,
    ]
    labels = [
        span_fields.model,
        span_fields.provider,
        span_fields.finish,
        span_fields.session,
        span_fields.user,
        span_fields.workflow,
    ]
    contents = [
        span_fields.messages_in,
        span_fields.messages_out,
        span_fields.inputs,
        span_fields.outputs,
        span_fields.parameters,
        span_fields.tools,
        span_fields.tool,
    ]
    return (
        all(count is UNSET or (type(count) is int and count >= 0) for count in counts)
        and all(label is UNSET or (type(label) is str and label.strip() != "") for label in labels)
        and (span_fields.parameters is UNSET or isinstance(span_fields.parameters, Mapping))
        and "model" not in (span_fields.parameters or {})
        and all(value is UNSET or json.is_encodable(msgspec.to_builtins(value)) for value in contents)
    )
