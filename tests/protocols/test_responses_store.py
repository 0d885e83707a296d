"""Stored responses: retrieved while they run and afterwards, and resumed as a stream."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from palaver.conform import grade
from palaver.core.events import (
    TERMINAL_EVENTS,
    Event,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    TextStarted,
)
from palaver.core.messages import Data, Reasoning, ToolCall, Usage
from palaver.errors import PalaverError, ResponseNotFound
from palaver.protocols import openai
from palaver.protocols.base import HttpResponse
from palaver.protocols.responses import adapter as responses
from palaver.protocols.responses import store
from palaver.protocols.responses.request import ResponsesRequest
from palaver.protocols.responses.store import StoredResponseQuery
from tests.core.strategies import hostile, sloppy
from tests.core.test_grammar_laws import RUN as ANY_RUN
from tests.core.test_grammar_laws import stream_of
from tests.protocols.fixed_run import IDS, RUN, STARTED, find, json, request, valid_events

AT = datetime(2026, 7, 1, 12, tzinfo=UTC)
NOW = int(AT.timestamp())
OPENAI = ResponsesRequest(stream=True, model="tutor", workflow="tutor")
MLFLOW = replace(OPENAI, profile="invocations")
BACKGROUND = replace(OPENAI, background=True, queued_at=AT, echo={"background": True})
RESPONSE = "resp_" + RUN.removeprefix("run_")
QUEUED = RunStarted(run_id=RUN, at=AT)
DONE = b"data: [DONE]\n\n"


def stored_response(events: Sequence[Event], reading: ResponsesRequest = OPENAI, **options: Any) -> Any:
    return msgspec.json.decode(store.encode_stored(events, reading, started=QUEUED, **options))


def encode_stream(events: list[Event], reading: ResponsesRequest = OPENAI) -> bytes:
    return b"".join(map(responses.stream_encoder(reading), events))


def resume_stream(events: list[Event], reading: ResponsesRequest, after: int) -> bytes:
    return b"".join(map(store.resumed_encoder(reading, after), events))


def blocks(stream: bytes) -> list[bytes]:
    """The frames of a stream, each with its empty line."""
    return [block + b"\n\n" for block in stream.split(b"\n\n")[:-1]]


def sequence_number(block: bytes) -> int | None:
    data = block.partition(b"data: ")[2]
    return None if data.startswith(b"[DONE]") else msgspec.json.decode(data).get("sequence_number")


def last_snapshot(stream: bytes) -> Any:
    """The response of the frame that ended the run."""
    output = [msgspec.json.decode(block.partition(b"data: ")[2]) for block in blocks(stream)[:-1]]
    return next(one["response"] for one in reversed(output) if "response" in one)


def query_error(**query: str) -> tuple[str, str]:
    with pytest.raises(PalaverError) as caught:
        store.parse_query(request(query=query))
    error = json(openai.error_response(caught.value, status=400))["error"]
    return error["code"], error["param"]


# Queries


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, StoredResponseQuery()),
        ({"stream": "false", "include[]": "x"}, StoredResponseQuery()),
        ({"stream": "true"}, StoredResponseQuery(stream=True)),
        ({"stream": "true", "starting_after": "0"}, StoredResponseQuery(stream=True, after=0)),
        ({"stream": "true", "starting_after": "9" * 18}, StoredResponseQuery(stream=True, after=int("9" * 18))),
    ],
)
def test_query_selects_a_json_response_or_a_stream(query: dict[str, str], expected: StoredResponseQuery) -> None:
    assert store.parse_query(request(query=query)) == expected


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ({"stream": "1"}, "invalid_value", "stream"),
        ({"stream": "True"}, "invalid_value", "stream"),
        ({"stream": ""}, "invalid_value", "stream"),
        ({"starting_after": "3"}, "invalid_value", "starting_after"),
        ({"stream": "false", "starting_after": "3"}, "invalid_value", "starting_after"),
        ({"stream": "true", "starting_after": "-1"}, "invalid_value", "starting_after"),
        ({"stream": "true", "starting_after": "1.5"}, "invalid_type", "starting_after"),
        ({"stream": "true", "starting_after": ""}, "invalid_type", "starting_after"),
        ({"stream": "true", "starting_after": "²"}, "invalid_type", "starting_after"),
        ({"stream": "true", "starting_after": "9" * 5000}, "invalid_type", "starting_after"),
    ],
)
def test_invalid_query_is_rejected_with_code_and_param(query: dict[str, str], code: str, param: str) -> None:
    assert query_error(**query) == (code, param)


def test_response_id_is_converted_to_its_run_id() -> None:
    assert store.run_of_response(RESPONSE) == RUN
    assert store.run_of_previous(RESPONSE) == RUN
    for unknown in (RUN, "conv_1", ""):
        with pytest.raises(ResponseNotFound):
            store.run_of_response(unknown)


def test_unknown_previous_response_has_a_specific_error_code() -> None:
    with pytest.raises(ResponseNotFound) as caught:
        store.run_of_previous("chatcmpl-1")
    error = json(responses.encode_error(caught.value, OPENAI, status=404))["error"]

    assert error == {
        "message": "Response 'chatcmpl-1' not found.",
        "type": "not_found",
        "code": "previous_response_not_found",
        "param": "previous_response_id",
    }
    assert caught.value.code == "response_not_found"


# Stored responses


def test_response_is_queued_before_its_run_starts() -> None:
    complete = stored_response([], BACKGROUND, status_if_running="queued")

    assert (complete["id"], complete["status"], complete["created_at"]) == (RESPONSE, "queued", NOW)
    assert (complete["output"], complete["usage"], complete["completed_at"], complete["error"]) == (
        [],
        None,
        None,
        None,
    )
    assert complete["background"] is True


def test_running_response_holds_only_the_finished_items() -> None:
    events = valid_events("Let me see.", ToolCall(call_id="c1", name="now", arguments="{}"), Usage(1, 2), "It is ")
    running = [event for event in events if not isinstance(event, TERMINAL_EVENTS)][
        :-1
    ]  # Without the end of the last text.
    complete = stored_response(running)

    assert isinstance(running[-1], TextDelta)
    assert (complete["status"], complete["usage"], complete["completed_at"]) == ("in_progress", None, None)
    assert [item["type"] for item in complete["output"]] == ["message", "function_call"]


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        (RunFinished(at=AT), "completed", None),
        (RunFinished(finish="tool-calls", usage=Usage(1, 2)), "completed", None),
        (RunFinished(finish="length"), "incomplete", "max_output_tokens"),
        (RunFinished(finish="interrupted"), "incomplete", "interrupted"),
        (RunCancelled(), "cancelled", "cancelled"),
        (RunFailed(code="model_down", message="The model is down."), "failed", None),
    ],
)
def test_finished_response_equals_the_last_streamed_snapshot(end: Any, status: str, reason: str | None) -> None:
    events = valid_events("Hi", end=end)
    complete = stored_response(events)

    assert complete == last_snapshot(encode_stream(events))
    assert complete["status"] == status
    assert complete["incomplete_details"] == (reason and {"reason": reason})
    assert complete["output"][0]["content"][0]["text"] == "Hi"


def test_failed_response_is_returned_with_status_200_and_its_error() -> None:
    answer = store.stored_response(valid_events(end=RunFailed(code="x", message="y")), OPENAI, started=QUEUED)

    assert answer.status == 200
    assert answer.headers == (
        ("content-type", "application/json"),
        *IDS,
    )
    assert (json(answer)["status"], json(answer)["error"]) == ("failed", {"code": "x", "message": "y"})


def test_run_cancelled_before_its_start_has_the_status_cancelled() -> None:
    assert stored_response([RunCancelled(seq=0)], BACKGROUND)["status"] == "cancelled"


def test_response_created_via_invocations_is_returned_like_any_other() -> None:
    body = {"input": "x", "tools": [{"type": "function", "name": "now"}], "conversation": "conv_1"}
    parsed_requests = [
        responses.decode(replace(request(body), route=route), find)[1] for route in ("invocations", "v1/responses")
    ]
    events = valid_events("Hi", Data(name="chart", value=1))

    assert stored_response(events, parsed_requests[0]) == stored_response(events, parsed_requests[1])
    assert stored_response(events, parsed_requests[0])["conversation"] == {"id": "conv_1"}


def test_request_fields_are_echoed_in_the_response() -> None:
    body = {"input": "x", "previous_response_id": "resp_1", "store": False, "background": False, "metadata": {"a": "b"}}
    _, parsed = responses.decode(replace(request(body), route="v1/responses"), find)
    complete = stored_response(valid_events("Hi"), parsed)

    assert (complete["previous_response_id"], complete["conversation"]) == ("resp_1", None)
    assert (complete["store"], complete["background"], complete["metadata"]) == (False, False, {"a": "b"})


def test_deletion_of_a_response_is_confirmed() -> None:
    assert store.deleted_response(RUN) == HttpResponse(
        status=200,
        headers=(("content-type", "application/json"),),
        body=b'{"id":"%b","object":"response","deleted":true}' % RESPONSE.encode(),
    )


@given(sloppy | hostile, st.booleans())
def test_finished_items_stay_unchanged_in_every_later_snapshot(values: list[object], is_chat: bool) -> None:
    events, parsed = stream_of(values), replace(MLFLOW, is_chat=is_chat)
    final = last_snapshot(encode_stream(events, replace(parsed, profile="open")))
    finished: list[Any] = []
    for count in range(len(events)):
        complete = msgspec.json.decode(store.encode_stored(events[:count], parsed, started=RunStarted(run_id=ANY_RUN)))
        assert complete["status"] == "in_progress"
        assert [item for item in finished if item not in complete["output"]] == [], "what is done stays"
        finished = complete["output"]
    assert [item for item in finished if item not in final["output"]] == []
    assert msgspec.json.decode(store.encode_stored(events, parsed, started=RunStarted(run_id=ANY_RUN))) == final


# The background


def test_background_request_is_answered_as_queued() -> None:
    answer = responses.encode_queued(QUEUED, BACKGROUND)

    assert answer.headers == (("content-type", "application/json"), ("x-palaver-run-id", RUN))
    assert answer.body == store.encode_stored([], BACKGROUND, started=QUEUED, status_if_running="queued")
    on_invocations = json(responses.encode_queued(QUEUED, replace(BACKGROUND, profile="invocations")))
    assert [name for name, value in on_invocations.items() if value is None] == []


@pytest.mark.parametrize("profile", ["open", "invocations"])
def test_background_stream_is_the_same_watched_live_or_read_later(
    profile: Any,
) -> None:
    parsed = replace(BACKGROUND, profile=profile)
    events = valid_events("Hi", end=RunFinished(at=AT))
    opening, remaining = responses.queued_stream(QUEUED, parsed)
    watched = opening + b"".join(map(remaining, events))

    assert watched == encode_stream(events, parsed)
    assert len(blocks(opening)) == 2
    if profile == "open":
        assert grade(watched, "responses").violations == ()


# Streams that are resumed


@given(sloppy | hostile, st.data())
def test_resumed_stream_holds_only_the_frames_after_the_given_number(values: list[object], data: st.DataObject) -> None:
    events, parsed = stream_of(values), replace(OPENAI, background=data.draw(st.booleans()))
    everything = encode_stream(events, parsed)
    after = data.draw(st.integers(-1, len(blocks(everything)) + 2))
    wanted = [block for block in blocks(everything) if (number := sequence_number(block)) is None or number > after]

    assert resume_stream(events, parsed, after) == b"".join(wanted)
    assert resume_stream(events, replace(parsed, profile="invocations"), after) == b"".join(wanted)


def test_resuming_after_the_last_frame_sends_only_done() -> None:
    events, parsed = valid_events("Hi"), replace(OPENAI, trace=True)
    *_, last, _, _ = blocks(encode_stream(events, parsed))  # The trace frame has no number; it follows the last frame.
    end = sequence_number(last)
    assert end is not None

    assert resume_stream(events, parsed, end) == resume_stream(events, parsed, end + 100) == DONE
    assert len(blocks(resume_stream(events, parsed, end - 1))) == 3


def test_resumed_stream_has_the_head_of_a_new_stream() -> None:
    assert responses.stream_head(STARTED) == responses.response_head(STARTED, OPENAI)
    assert responses.stream_head(QUEUED).headers[3:] == (("x-palaver-run-id", RUN),), "no trace before it begins"


def test_resumed_encoder_skips_frames_that_the_client_has() -> None:
    encode = store.resumed_encoder(OPENAI, 4)
    events = [
        STARTED,
        TextStarted(item="m", message="m"),
        TextDelta(item="m", delta="a"),
        TextDelta(item="m", delta="b"),
    ]
    sent = [encode(event) for event in events]

    assert sent[:3] == [b"", b"", b""]
    assert sequence_number(sent[3]) == 5


def test_stored_response_equals_the_json_response() -> None:
    events = [replace(STARTED, at=AT), *valid_events("Hi", end=RunFinished(at=AT))[1:]]

    assert json(responses.encode_response(events, OPENAI, status=200)) == stored_response(events)
    assert stored_response(events)["created_at"] == NOW
    assert stored_response([])["created_at"] == NOW, "before the log is there, too"


# Item references


def test_output_items_are_indexed_by_their_ids() -> None:
    events = valid_events(Reasoning(text="Hm.", encrypted="sealed"), "Hi", ToolCall(call_id="c1", name="now"))
    output = stored_response(events)["output"]
    result = store.output_items(events, MLFLOW)

    assert result == {item["id"]: item for item in output} | {
        output[0]["id"]: {**output[0], "encrypted_content": "sealed"}
    }
    assert store.output_items([], OPENAI) == {}
