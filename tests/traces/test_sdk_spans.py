"""Spans of OpenTelemetry's SDK within a run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from palaver.core import json
from palaver.core.messages import Message
from palaver.traces.model import Link, RawSpan, SpanEvent, SpanException
from palaver.traces.otlp.limits import MAX_EVENTS, MAX_LINKS, MAX_SPAN_BYTES, MAX_TEXT_BYTES
from palaver.traces.run_facts import SpanOwner
from palaver.traces.sdk_spans import build_sdk_spans, to_raw_span, to_run_span

sdk = pytest.importorskip("opentelemetry.sdk.trace")
api = pytest.importorskip("opentelemetry.trace")

TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
START_NS = 1_700_000_000_000_000_000
START_TIME = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
FULL_OWNER = SpanOwner("shop", "s-1", "run_1", "full")
METADATA_OWNER = SpanOwner("shop", "s-1", "run_1", "metadata")


def context(span: str = SPAN) -> Any:
    return api.SpanContext(int(TRACE, 16), int(span, 16), is_remote=False)


def finished_span(**fields: Any) -> Any:
    """Return a finished span of 1.5 ms."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    defaults = {
        "name": "look",
        "context": context(),
        "parent": context(PARENT),
        "resource": Resource({"service.name": "shop"}),
        "instrumentation_scope": InstrumentationScope("my.lib"),
        "start_time": START_NS,
        "end_time": START_NS + 1_500_000,
    }
    return sdk.ReadableSpan(**{**defaults, **fields})


def test_an_sdk_span_is_converted_to_a_raw_span() -> None:
    span = finished_span(
        attributes={"a": 1, "b": ("x", "y"), "c": 1.5, "d": True, "e": "t\0xt", "f": {"g": b"\x01"}},
        events=[sdk.Event("exception", {"exception.type": "E", "exception.message": "no"}, START_NS + 1_000)],
        links=[api.Link(context(PARENT), {"why": "so"})],
        status=api.Status(api.StatusCode.ERROR, "It broke."),
    )

    assert to_raw_span(span) == RawSpan(
        trace_id=TRACE,
        span_id=SPAN,
        parent_id=PARENT,
        name="look",
        start=START_TIME,
        duration_ms=1.5,
        failed=True,
        status_message="It broke.",
        attributes={"a": 1, "b": ["x", "y"], "c": 1.5, "d": True, "e": "t\ufffdxt", "f": {"g": "01"}},
        resource={"service.name": "shop"},
        events=(
            SpanEvent(
                "exception", START_TIME.replace(microsecond=1), {"exception.type": "E", "exception.message": "no"}
            ),
        ),
        links=(Link(TRACE, PARENT, {"why": "so"}),),
        scope="my.lib",
    )


def test_missing_fields_of_an_sdk_span_get_defaults() -> None:
    raw = to_raw_span(finished_span(name="", parent=None, end_time=None, instrumentation_scope=None))

    assert raw is not None
    assert (raw.name, raw.parent_id, raw.duration_ms, raw.scope, raw.notes) == (
        "unnamed",
        None,
        0.0,
        None,
        ("unnamed",),
    )


def test_a_span_without_a_start_time_is_ignored() -> None:
    assert build_sdk_spans(finished_span(start_time=None), FULL_OWNER) == []


def test_a_pending_span_is_ignored() -> None:
    assert build_sdk_spans(finished_span(attributes={"logfire.span_type": "pending_span"}), FULL_OWNER) == []


def test_an_end_before_the_start_is_noted() -> None:
    raw = to_raw_span(finished_span(end_time=START_NS - 1))

    assert raw is not None
    assert (raw.duration_ms, raw.notes) == (0.0, ("clock",))


def test_an_sdk_span_has_the_limits_of_received_spans() -> None:
    event, link = sdk.Event("e", {}, START_NS), api.Link(context(PARENT))
    raw = to_raw_span(
        finished_span(
            attributes={"long": "a" * (MAX_TEXT_BYTES + 5), "odd": object(), "nan": float("nan")},
            events=[event] * (MAX_EVENTS + 2),
            links=[link] * (MAX_LINKS + 3),
        )
    )

    assert raw is not None
    assert len(raw.attributes["long"]) == MAX_TEXT_BYTES
    assert (raw.attributes["odd"], raw.attributes["nan"]) == (None, "NaN")
    assert raw.dropped == {"events": 2, "links": 3, "bytes": 5}
    assert raw.notes == ("cut:long", "cut:odd")


def test_a_span_above_the_size_limit_is_dropped() -> None:
    pieces = ["a" * MAX_TEXT_BYTES] * (MAX_SPAN_BYTES // MAX_TEXT_BYTES)

    assert build_sdk_spans(finished_span(attributes={"long": pieces, "more": {"x": "y"}}), FULL_OWNER) == []


def test_a_span_gets_the_project_session_and_run_id_of_its_run() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Hi", "palaver.project": "other"}

    [span] = build_sdk_spans(finished_span(attributes=attributes), FULL_OWNER)

    assert (span.project, span.run_id, span.session, span.service) == ("shop", "run_1", "s-1", "shop")
    assert (span.kind, span.messages_in) == ("llm", (Message.user("Hi"),))


def test_a_session_attribute_overrides_the_session_of_the_run() -> None:
    [span] = build_sdk_spans(finished_span(attributes={"session.id": "mine"}), FULL_OWNER)

    assert span.session == "mine"


def test_a_metadata_span_has_only_numbers_and_names() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.prompt": "said",
        "gen_ai.usage.input_tokens": 3,
        "input.value": 42,
        "anything": ["said"],
    }
    events = [sdk.Event("exception", {"exception.type": "E", "exception.message": "said"}, START_NS)]
    links = [api.Link(context(PARENT), {"x": "said"})]

    [span] = build_sdk_spans(
        finished_span(
            attributes=attributes, events=events, links=links, status=api.Status(api.StatusCode.ERROR, "said")
        ),
        METADATA_OWNER,
    )

    assert b"said" not in json.encode(span)
    assert (span.kind, span.model, span.inputs, span.exception) == ("llm", "m", None, SpanException("E", ""))
    assert span.usage is not None


def test_secrets_of_the_call_are_masked_in_the_span() -> None:
    secret = "correct-horse"
    raw = RawSpan(
        trace_id=TRACE,
        span_id=SPAN,
        name=f"get {secret}",
        start=START_TIME,
        status_message=secret,
        attributes={"url.full": f"https://example.org/{secret}"},
        events=(SpanEvent("e", START_TIME, {"said": secret}),),
    )

    span = to_run_span(raw, SpanOwner("shop", "", "run_1", "full", (secret,)))

    assert secret.encode() not in json.encode(span)
    assert span.session is None
