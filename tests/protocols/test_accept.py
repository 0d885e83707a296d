"""The Accept header (RFC 9110, section 12.5.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.protocols.base import choose_media_type
from tests.growth import assert_linear

JSON, NDJSON, JSONL, SSE = "application/json", "application/x-ndjson", "application/jsonl", "text/event-stream"
OFFERS = (JSON, NDJSON, JSONL, SSE)


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        pytest.param(None, JSON, id="absent"),
        pytest.param("", JSON, id="empty"),
        pytest.param("*/*", JSON, id="anything"),
        pytest.param("application/json, text/event-stream", JSON, id="a tie goes to the earlier offer"),
        pytest.param("text/event-stream, application/json", JSON, id="whatever the order of the ranges"),
        pytest.param("text/event-stream;q=0.1, application/json", JSON, id="the higher weight"),
        pytest.param("text/event-stream, application/json;q=0.9", SSE, id="the higher weight of a later offer"),
        pytest.param("application/json;q=0, */*", NDJSON, id="q=0 excludes"),
        pytest.param("text/*", SSE, id="a kind"),
        pytest.param("TEXT/Event-Stream", SSE, id="case is ignored"),
        pytest.param("application/jsonl", JSONL, id="one type"),
        pytest.param("application/*;q=0.2, */*;q=0.1, application/jsonl", JSONL, id="the most specific range speaks"),
        pytest.param("application/*, application/json;q=0.5", NDJSON, id="even with a lower weight"),
        pytest.param("*/*;q=0.5, text/*;q=0", JSON, id="a kind goes before anything"),
        pytest.param("application/xml", None, id="none of ours"),
        pytest.param("image/*", None, id="no kind of ours"),
        pytest.param("application/json;q=0", None, id="only an exclusion"),
        pytest.param("application/json;charset=utf-8;q=0.5, text/event-stream", SSE, id="other parameters are ignored"),
        pytest.param("application/json ; Q = 0.001 , text/event-stream;q=0.002", SSE, id="spaces and case of q"),
        pytest.param('application/json;x="a,text/event-stream;q=0";q=0.1, text/*', SSE, id="a quoted comma"),
        pytest.param('text/event-stream;x="never closed, application/json', SSE, id="an open quote"),
        pytest.param("application/json;q=1.0, text/event-stream;q=1.", JSON, id="weights with few digits"),
        pytest.param("application/json;q=2, text/event-stream;q=0.1", SSE, id="too much weight is unreadable"),
        pytest.param("application/json;q=0.1234, text/event-stream;q=0.1", SSE, id="four digits are unreadable"),
        pytest.param("application/json;q=, text/event-stream;q=0.1", SSE, id="no weight is unreadable"),
        pytest.param("*/json, text/event-stream", SSE, id="any kind of json is unreadable"),
        pytest.param("json, text/event-stream", SSE, id="half a type is unreadable"),
        pytest.param("json, */json, ;q=1, ,", JSON, id="no readable range is no header"),
        pytest.param("text/event-stream;q=0.1, text/event-stream", SSE, id="said twice, the first counts"),
    ],
)
def test_media_type_that_the_client_prefers_is_chosen(header: str | None, chosen: str | None) -> None:
    assert choose_media_type(header, OFFERS) == chosen


def test_no_media_type_is_chosen_without_offers() -> None:
    assert choose_media_type("*/*", ()) is None


@given(st.text(alphabet='aj/*;,=q.01"\\ ') | st.text())
def test_any_header_yields_an_offer_or_none(header: str) -> None:
    assert choose_media_type(header, OFFERS) in (None, *OFFERS)


def test_hostile_header_is_parsed_in_linear_time() -> None:
    assert_linear(lambda header: choose_media_type(header, OFFERS), lambda count: '"\\' * count, 256_000)
    assert_linear(lambda header: choose_media_type(header, OFFERS), lambda count: '"' + '\\"' * count + "\\", 256_000)
