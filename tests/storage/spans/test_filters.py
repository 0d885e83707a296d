"""The filter language: accepted and rejected filters, and agreement of SQL with plain Python."""

import operator
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event

from palaver.core import json
from palaver.errors import InvalidValue
from palaver.storage.pagination import Window
from palaver.storage.postgres import create_postgres_engine
from palaver.storage.spans import filters as span_filters
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import writes as spans
from palaver.storage.spans.filters import (
    FILTER_FIELDS,
    Filter,
    FilterCondition,
    FilterGroup,
    find_unindexed_names,
    parse_filter,
)
from palaver.storage.spans.queries import SpanQuery
from palaver.storage.spans.tables import INDEXED_COLUMNS
from palaver.storage.spans.writes import SpanRow
from palaver.storage.tables import metadata
from tests.storage.span_factory import NOON, SECOND, TODAY, span_row

# Parsing


def test_filter_is_parsed_into_conditions_and_groups() -> None:
    given = {
        "and": [
            {"field": "kind", "op": "eq", "value": "llm"},
            {"or": [{"field": "status", "op": "in", "value": ["error"]}, {"field": "cost", "op": "gt", "value": 2}]},
            {"attribute": "http.route", "op": "exists"},
            {"field": "start", "op": "lt", "value": "2026-11-15T13:00:00+01:00"},
        ]
    }

    assert parse_filter(given) == FilterGroup(
        "and",
        (
            FilterCondition("field", "kind", "eq", ("llm",)),
            FilterGroup(
                "or",
                (FilterCondition("field", "status", "in", ("error",)), FilterCondition("field", "cost", "gt", (2,))),
            ),
            FilterCondition("attribute", "http.route", "exists"),
            FilterCondition("field", "start", "lt", (datetime(2026, 11, 15, 12, tzinfo=UTC),)),
        ),
    )


def nested_filter(levels: int) -> Any:
    created: Any = {"field": "kind", "op": "exists"}
    for _ in range(levels):
        created = {"and": [created]}
    return created


KIND_CONDITION = {"field": "kind", "op": "eq", "value": "llm"}
OBJECT_ERROR = "A filter must be an object with a field or attribute and an op, or with 'and' or 'or'."
NAME_ERROR = "must be a string of 1 to 512 characters."
OP_ERROR = "op must be one of eq, ne, lt, lte, gt, gte, in, not_in, contains, starts_with, exists, missing."
TIME_ERROR = "The value must be a timestamp with a time zone, e.g. 2026-11-15T07:20:00Z."


@pytest.mark.parametrize(
    ("given", "pointer", "message"),
    [
        (7, "/filter", OBJECT_ERROR),
        ({}, "/filter", "A condition must have either a field or an attribute."),
        (KIND_CONDITION | {"attribute": "a"}, "/filter", "A condition must have either a field or an attribute."),
        (KIND_CONDITION | {"a/b": 1}, "/filter/a~1b", "Unknown key 'a/b' in a condition."),
        ({"and": []}, "/filter/and", "'and' must be a non-empty list of filters."),
        ({"or": {"and": []}}, "/filter/or", "'or' must be a non-empty list of filters."),
        ({"and": [KIND_CONDITION], "or": [KIND_CONDITION]}, "/filter", "'and' can't be combined with other keys."),
        ({"and": [KIND_CONDITION, 7]}, "/filter/and/1", OBJECT_ERROR),
        (nested_filter(9), "/filter" + 8 * "/and/0", "A filter can be at most 8 levels deep."),
        ({"and": [KIND_CONDITION] * 51}, "/filter/and/50", "A filter can have at most 50 conditions."),
        ({"field": 7, "op": "eq"}, "/filter/field", f"field {NAME_ERROR}"),
        ({"attribute": "", "op": "eq"}, "/filter/attribute", f"attribute {NAME_ERROR}"),
        ({"attribute": "a" * 513, "op": "eq"}, "/filter/attribute", f"attribute {NAME_ERROR}"),
        ({"field": "kind", "op": "like"}, "/filter/op", OP_ERROR),
        ({"field": "kind", "op": ["eq"]}, "/filter/op", OP_ERROR),
        ({"field": "kind", "op": "exists", "value": 1}, "/filter/value", "'exists' can't have a value."),
        ({"field": "kind", "op": "eq"}, "/filter/value", "The value must be a string."),
        ({"field": "kind", "op": "eq", "value": 7}, "/filter/value", "The value must be a string."),
        ({"field": "cost", "op": "eq", "value": "7"}, "/filter/value", "The value must be a number."),
        ({"field": "cost", "op": "eq", "value": True}, "/filter/value", "The value must be a number."),
        ({"field": "cost", "op": "eq", "value": 10**400}, "/filter/value", "The number is too large."),
        ({"field": "cost", "op": "contains", "value": "7"}, "/filter/op", "'contains' only applies to text fields."),
        ({"attribute": "a", "op": "contains", "value": 7}, "/filter/value", "The value must be a string."),
        ({"attribute": "a", "op": "lt", "value": True}, "/filter/value", "The value must be a string or number."),
        ({"attribute": "a", "op": "eq", "value": None}, "/filter/value", "The value must be a string or number."),
        ({"attribute": "a", "op": "eq", "value": ["a"]}, "/filter/value", "The value must be a string or number."),
        ({"field": "kind", "op": "in", "value": "llm"}, "/filter/value", "'in' needs a list of 1 to 100 values."),
        ({"field": "kind", "op": "in", "value": []}, "/filter/value", "'in' needs a list of 1 to 100 values."),
        ({"field": "kind", "op": "not_in", "value": ["a", 7]}, "/filter/value/1", "The value must be a string."),
        ({"field": "start", "op": "lt", "value": "noon"}, "/filter/value", TIME_ERROR),
        ({"field": "start", "op": "lt", "value": "2026-11-15T07:20:00"}, "/filter/value", TIME_ERROR),
        ({"field": "start", "op": "lt", "value": 7}, "/filter/value", TIME_ERROR),
    ],
)
def test_invalid_filter_is_rejected_with_a_pointer(given: Any, pointer: str, message: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_filter(given)

    assert (refused.value.pointer, refused.value.message) == (pointer, message)


def test_unknown_field_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_filter({"field": "spans; DROP TABLE spans", "op": "exists"})

    assert refused.value.pointer == "/filter/field"
    assert refused.value.message.startswith("Unknown field 'spans; DROP TABLE spans'. Available: trace_id, ")


def test_eight_levels_and_fifty_conditions_are_accepted() -> None:
    assert span_filters.list_conditions(parse_filter(nested_filter(8))) == [FilterCondition("field", "kind", "exists")]
    assert len(span_filters.list_conditions(parse_filter({"and": [KIND_CONDITION] * 50}))) == 50


_keys = st.sampled_from(["and", "or", "field", "attribute", "op", "value", "x"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
)


@given(_json)
def test_any_json_is_parsed_or_rejected_as_a_filter(given: Any) -> None:
    with suppress(InvalidValue):
        assert isinstance(parse_filter(given), FilterCondition | FilterGroup)


def test_names_without_a_usable_index_are_reported() -> None:
    name, kind = FilterCondition("field", "name", "eq", ("a",)), FilterCondition("field", "kind", "eq", ("a",))
    attribute = FilterCondition("attribute", "http.route", "exists")

    assert find_unindexed_names(kind) == []
    assert find_unindexed_names(FilterCondition("field", "kind", "ne", ("a",))) == ["kind"]
    assert find_unindexed_names(FilterCondition("field", "start", "gte", (NOON,))) == []
    assert find_unindexed_names(FilterCondition("attribute", "kind", "eq", ("a",))) == ["kind"]
    assert find_unindexed_names(FilterGroup("and", (name, kind, attribute))) == []
    assert find_unindexed_names(FilterGroup("and", (name, attribute))) == ["name", "http.route"]
    assert find_unindexed_names(FilterGroup("or", (name, kind))) == ["name"]


# Searching

TEXTS = ["", "a", "A", "ab", "a_b", "a%b", "axb", "ä", "ok", "error", "llm", "tool", 'a"b', "a\\b", "'", "𝄞", "B"]
NUMBERS = [0, 1, -1, 2.5, 100.0, 7, 1e300, 31]
ATTRIBUTE_NAMES = ["http.route", "a", 'odd "name"', "$.a", "a.b", "__proto__", "[0]", "back\\slash", "ä"]
TIMES = [NOON + at * SECOND for at in (-1, 0, 1, 2)]


def span_rows() -> list[SpanRow]:
    """Return spans that differ in all fields that can be filtered."""
    return [
        span_row("a", 0, kind="llm", model="a", cost=2.5, input_tokens=1, attributes={"http.route": "a_b", "a": 1}),
        span_row("ab", 1, kind="tool", status="error", model="A", user="a%b", attributes={"a": "1", "a.b": True}),
        span_row("a_b", 1, parent="a", session="a_b", duration_ms=0.0, attributes={'odd "name"': "a%b", "a": None}),
        span_row("a%b", 2, trace="u", workflow="ä", cost=0.0, output_tokens=7, attributes={"$.a": 2.5, "a": False}),
        span_row("axb", 2, trace="u", user="axb", provider='a"b', attributes={"a.b": "true", "__proto__": "a", "ä": 7}),
        span_row(
            "ä", 0, trace="v", model="ab", tool="a", status="cancelled", attributes={"[0]": -1, "back\\slash": "'"}
        ),
        span_row("'", -1, trace="v", exception="B", run_id="'", service="𝄞", attributes={"a": "𝄞", "http.route": 100}),
        span_row(
            "B", 1, trace="w", scope="ab", finish="a\\b", status_message="ok", attributes={"a": "A", "a.b": 1e300}
        ),
    ]


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def span_database(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A database with these spans, and others in another project."""
    if request.param == "sqlite":
        engine: Engine = create_engine("sqlite://", poolclass=StaticPool)
    else:
        engine = create_postgres_engine(request.getfixturevalue("postgres").create())
    metadata.create_all(engine)
    with engine.begin() as connection:
        spans.insert_spans(
            connection, [*span_rows(), *(span_row(name, project="theirs") for name in TEXTS if name)], today=TODAY
        )
        yield connection
    engine.dispose()


def _conditions(name: str, source: str) -> st.SearchStrategy[Any]:
    field_type = FILTER_FIELDS[name] if source == "field" else None
    texts, numbers = st.sampled_from(TEXTS), st.sampled_from(NUMBERS)
    times = st.sampled_from([moment.isoformat() for moment in TIMES])
    ordered = {"text": texts, "number": numbers, "time": times, None: texts | numbers}[field_type]
    values = ordered | st.booleans() if field_type is None else ordered
    valueless = st.sampled_from(["exists", "missing"]).map(lambda op: {source: name, "op": op})
    kinds = [
        valueless,
        st.tuples(st.sampled_from(["eq", "ne"]), values),
        st.tuples(st.sampled_from(["lt", "lte", "gt", "gte"]), ordered),
        st.tuples(st.sampled_from(["in", "not_in"]), st.lists(values, min_size=1, max_size=4)),
    ]
    if field_type in ("text", None):
        kinds.append(st.tuples(st.sampled_from(["contains", "starts_with"]), texts))
    return st.one_of(kinds).map(
        lambda created: created if isinstance(created, dict) else {source: name, "op": created[0], "value": created[1]}
    )


_any_condition = st.one_of(
    st.sampled_from(sorted(FILTER_FIELDS.keys() - {"feedback"})).flatmap(lambda name: _conditions(name, "field")),
    st.sampled_from(ATTRIBUTE_NAMES).flatmap(lambda name: _conditions(name, "attribute")),
)
_filters = st.recursive(
    _any_condition,
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)).map(
        lambda made: {made[0]: made[1]}
    ),
    max_leaves=6,
)


@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_filters)
@example({"field": "project", "op": "lt", "value": "ä"})
@example({"field": "status", "op": "gt", "value": "B"})
def test_sql_finds_what_plain_python_finds(span_database: Connection, given: Any) -> None:
    parsed = parse_filter(given)

    result = span_pages.list_spans(span_database, "mine", SpanQuery(filter=parsed), Window(100))

    assert sorted(one.name for one in result.data) == sorted(
        one.name for one in span_rows() if matches_filter(parsed, one)
    )


def matches_filter(filter_: Filter, span: SpanRow) -> bool:
    """Evaluate a filter in plain Python."""
    if isinstance(filter_, FilterGroup):
        return (all if filter_.joined_by == "and" else any)(matches_filter(part, span) for part in filter_.parts)
    if filter_.op in ("ne", "not_in", "missing"):
        positive = {"ne": "eq", "not_in": "in", "missing": "exists"}[filter_.op]
        return not matches_filter(FilterCondition(filter_.source, filter_.name, positive, filter_.values), span)  # type: ignore[arg-type]
    if filter_.source == "attribute":
        attributes = json.decode_or_text(span.labels)
        if filter_.name not in attributes:
            return False
        value = attributes[filter_.name]
    else:
        value = getattr(span, COLUMNS.get(filter_.name, filter_.name))
        if value is None:
            return False
    return filter_.op == "exists" or any(_compares(filter_.op, value, other) for other in filter_.values)


COLUMNS = {"tool.name": "tool", "exception.type": "exception"} | {
    f"usage.{name}": name for name in ("input_tokens", "output_tokens")
}


def _compares(op: str, value: Any, other: Any) -> bool:
    if _kind(value) != _kind(other):
        return False
    match op:
        case "contains":
            return other in value
        case "starts_with":
            return value.startswith(other)
        case "in":
            return value == other
        case _:
            return getattr(operator, {"lte": "le", "gte": "ge"}.get(op, op))(value, other)


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


@pytest.mark.parametrize("field", sorted(INDEXED_COLUMNS - {"trace_id", "start"}))
def test_filter_on_an_indexed_column_uses_its_index(field: str) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    metadata.create_all(engine)
    value = "error" if field == "status" else "x"
    query = SpanQuery(filter=span_filters.parse_filter({"field": field, "op": "eq", "value": value}))
    queries: list[tuple[str, Any]] = []
    with engine.connect() as db:
        event.listen(db, "before_cursor_execute", lambda *given: queries.append((given[2], given[3])))
        span_pages.list_spans(db, "mine", query)
        [(text, values)] = [one for one in queries if one[0].startswith("SELECT")]
        [plan] = [row[3] for row in db.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
    engine.dispose()

    index = "unusual" if field == "status" else f"of_{field}"
    assert plan == f"SEARCH spans USING INDEX ix_spans_{index} (project=? AND {field}=?)"
