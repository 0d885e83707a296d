"""Stored response options round-trip, so that a stream can be resumed identically."""

from datetime import UTC
from typing import Any, get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.messages import ToolCall
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses.request import Profile, ResponsesRequest
from palaver.protocols.ui_stream.request import UIRequest
from tests.core.strategies import jsons, maybe, texts
from tests.protocols.fixed_run import find, request

objects: st.SearchStrategy[Any] = st.dictionaries(texts, jsons, max_size=3)
responses_requests = st.builds(
    ResponsesRequest,
    profile=st.sampled_from(get_args(Profile)),
    stream=st.booleans(),
    model=texts,
    workflow=texts,
    is_chat=st.booleans(),
    echo=objects,
    metadata=st.dictionaries(texts, texts, max_size=3),
    encrypted=st.booleans(),
    trace=st.booleans(),
    places=st.lists(texts, max_size=3).map(tuple),
    stored=st.booleans(),
    background=st.booleans(),
    queued_at=maybe(st.datetimes(timezones=st.just(UTC))),
    unresolved=st.lists(objects, max_size=2).map(tuple),
)
calls = st.builds(ToolCall, call_id=texts, name=texts, arguments=texts)
ui_requests = st.builds(
    UIRequest,
    version=st.sampled_from([5, 6, 7]),
    message=maybe(texts),
    shown=st.dictionaries(texts, st.booleans(), max_size=3),
    waiting=st.dictionaries(texts, calls, max_size=3),
    tools=st.frozensets(texts, max_size=3),
)


@given(responses_requests | ui_requests)
def test_request_options_round_trip_through_json(note: ResponsesRequest | UIRequest) -> None:
    assert msgspec.json.decode(msgspec.json.encode(note), type=type(note)) == note


def test_options_of_a_parsed_request_round_trip_through_json() -> None:
    body = {
        "input": [{"role": "user", "content": "x"}, {"type": "item_reference", "id": "msg_1"}],
        "instructions": "Be brief.", "temperature": 0, "top_p": 1.0, "max_output_tokens": 2**53, "conversation": "c",
        "tools": [{"type": "function", "name": "now", "parameters": {"maximum": 1e300}}], "background": True,
        "text": {"format": {"type": "json_schema", "schema": {"ü": [None, True]}}}, "metadata": {"a": "b"},
    }  # fmt: skip
    _, parsed = responses.decode(msgspec.structs.replace(request(body), route="v1/responses"), find)

    assert msgspec.json.decode(msgspec.json.encode(parsed), type=ResponsesRequest) == parsed
