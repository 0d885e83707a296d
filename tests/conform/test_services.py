"""The rules for the services protocol: valid streams, and for every rule a stream that breaks it."""

from typing import Any

import msgspec
import pytest

from palaver.cli.conform import probe_urls
from palaver.conform import grade, grade_body, grade_refusal
from palaver.conform.rules import SERVICE_RULES
from tests.conform import streams
from tests.conform.streams import Frame, block, event, rule_violations, sse

VALID, FAILED, SPARSE = streams.SERVICE, streams.SERVICE_FAILED, streams.SERVICE_SPARSE
DOCUMENT, ERROR = streams.SERVICE_DOCUMENT, streams.SERVICE_ERROR
START, END = VALID[:1], VALID[-3:]
NO_TEXT = event("complete", {**DOCUMENT, "response": "", "history": [{"role": "assistant", "content": ""}]})


@pytest.mark.parametrize("frames", [VALID, FAILED, SPARSE, FAILED[-1:]])
def test_valid_service_streams_pass_every_rule(frames: list[Frame]) -> None:
    report = grade(sse(frames, "services"), "services", body=frames[-1]["data"])

    assert (report.violations, report.frames) == ((), len(frames))


def test_comments_between_events_are_allowed() -> None:
    stream = sse(VALID, "services").replace(b"\n\n", b"\n\n: keep-alive\n\n")

    assert grade(stream, "services", headers={"content-type": "text/event-stream"}).violations == ()


def replace(index: int, *frames: Frame) -> list[Frame]:
    """The valid stream with one frame replaced by these."""
    return [*VALID[:index], *frames, *VALID[index + 1 :]]


def insert(index: int, *frames: Frame) -> list[Frame]:
    return [*VALID[:index], *frames, *VALID[index:]]


def set_data(position: int, **fields: Any) -> list[Frame]:
    """The valid stream with fields of one frame's data replaced."""
    return replace(position, {**VALID[position], "data": {**VALID[position]["data"], **fields}})


VIOLATIONS: dict[str, tuple[list[Frame], list[tuple[str, int]]]] = {
    "S1 an unknown event": (insert(1, event("ping")), [("S1", 1)]),
    "S2 another type": (set_data(19, type="message_end"), [("S2", 19)]),
    "S2 no type": (replace(12, event("tool_result", {"call_id": "c", "output": 1, "is_error": False})), [("S2", 12)]),
    "S3 not first": ([*VALID[1:2], *START, *VALID[2:]], [("S3", 1)]),
    "S3 twice": (insert(1, *START), [("S3", 1)]),
    "S3 no id": (set_data(0, message={}), [("S3", 0)]),
    "S3 changes without it": ([event("changes", {"code": "x"}), *SPARSE], [("S3", 0)]),
    "S4 two at once": ([*START, *block(0, "text", "It is noon.")[:2], *block(1, "thinking"), *END], [("S4", 3)]),
    "S4 a delta of no block": ([*START, block(0, "thinking", "x")[1], *END[:2], NO_TEXT], [("S4", 1)]),
    "S4 a stop of no block": ([*START, block(0, "thinking")[-1], *END[:2], NO_TEXT], [("S4", 1)]),
    "S4 a delta of another kind": (replace(3, block(0, "text", "x")[1]), [("S4", 3)]),
    "S5 from one": ([*START, *block(1, "text", "It is noon."), *END], [("S5", 1), ("S5", 2), ("S5", 3)]),
    "S5 another delta": (set_data(3, index=1), [("S5", 3)]),
    "S5 another stop": (set_data(4, index=None), [("S5", 4)]),
    "S6 cut": (VALID[:-1], [("S6", 20)]),
    "S6 both ends": ([*VALID, FAILED[-1]], [("S6", 21)]),
    "S6 more after the end": ([*FAILED, event("log", "x")], [("S6", 10)]),
    "S7 open at message_delta": ([*START, *block(0, "text", "It is noon.")[:-1], *END], [("S7", 3)]),
    "S7 open at the error": ([*FAILED[:-2], FAILED[-1]], [("S7", 8)]),
    "S8 no message_stop": ([*VALID[:19], VALID[20]], [("S8", 19)]),
    "S8 the wrong way round": ([*VALID[:18], VALID[19], VALID[18], VALID[20]], [("S8", 18), ("S8", 19), ("S8", 20)]),
    "S8 a log between": (insert(19, event("log", "x")), [("S8", 19)]),
    "S8 an error after message_delta": ([*VALID[:19], FAILED[-1]], [("S8", 19)]),
    "S9 no number": ([*FAILED[:-1], event("error", {**ERROR, "code": "503"})], [("S9", 9)]),
    "S9 no capitals": ([*FAILED[:-1], event("error", {**ERROR, "type": "overloaded"})], [("S9", 9)]),
    "S9 details that are none": ([*FAILED[:-1], event("error", {**ERROR, "details": []})], [("S9", 9)]),
    "S9 no object": ([*FAILED[:-1], event("error", ["x"])], [("S9", 9)]),
    "S10 no response": (replace(20, event("complete", {})), [("S10", 20)]),
    "S10 another last turn": (replace(20, event("complete", {**DOCUMENT, "history": []})), [("S10", 20)]),
    "S10 three counts": (replace(20, event("complete", {**DOCUMENT, "usage": {"input_tokens": 1}})), [("S10", 20)]),
    "S10 no meta": (replace(20, event("complete", {**DOCUMENT, "meta": None})), [("S10", 20)]),
    "S11 another text": (replace(14, block(3, "text", "midnight.")[1]), [("S11", 20)]),
    "F3 a log that is no text": (replace(1, event("log", {"text": "x"})), [("F3", 1)]),
    "F3 changes without code": (replace(16, event("changes", {"code": None})), [("F3", 16)]),
    "F3 data without name": (replace(17, event("data", {"value": 1})), [("F3", 17)]),
    "F3 a result of no call": (replace(12, event("tool_result", output=1, is_error=False)), [("F3", 12)]),
    "F3 a block of no kind": ([*START, *block(0, "odd", "x"), *END[:2], NO_TEXT], [("F3", 1)]),
    "F3 a piece that is no text": (set_data(6, delta={"type": "text_delta", "text": 7}), [("F3", 6), ("S11", 20)]),
    "F3 no reason": (set_data(18, delta={}), [("F3", 18)]),
}  # fmt: skip


@pytest.mark.parametrize(("frames", "rules_broken"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_a_broken_rule_is_reported_with_its_frame(frames: list[Frame], rules_broken: list[tuple[str, int]]) -> None:
    assert rule_violations(grade(sse(frames, "services"), "services")) == rules_broken


@pytest.mark.parametrize(
    ("stream", "rules_broken"),
    [
        (b"", [("F1", 0), ("S6", 0)]),
        (b'data: {"type": "message_start"}\n\n', [("S1", 0), ("S6", 1)]),
        (sse(VALID, "services", end=b"data: [DONE]\n\n"), [("S6", 21)]),
        (b"event: log\ndata: oops\n\n" + sse(SPARSE, "services"), [("F1", 0), ("F3", 0)]),
        (sse(SPARSE, "services")[:-1], [("F2", 2)]),
        (b"id: 7\n" + sse(SPARSE, "services"), [("F4", 0)]),
    ],
)
def test_broken_framing_is_reported(stream: bytes, rules_broken: list[tuple[str, int]]) -> None:
    assert rule_violations(grade(stream, "services")) == rules_broken


def test_a_body_that_differs_from_the_stream_is_reported() -> None:
    other = {**DOCUMENT, "response": "At one.", "history": [{"role": "assistant", "content": "At one."}]}
    stream = sse(VALID, "services")

    def rules_broken(body: Any, of: Any = "same-run", streamed: bytes | None = stream) -> list[str]:
        return [one.rule for one in grade_body(body, "services", stream=streamed, body_from=of).violations]

    assert (rules_broken(DOCUMENT), rules_broken(other), rules_broken(other, "another-run")) == ([], ["S12"], [])
    assert rules_broken(NO_TEXT["data"], "another-run") == ["S12"]
    assert rules_broken({}, "another-run") == ["S10"]
    assert rules_broken(msgspec.json.encode(DOCUMENT)) == []
    assert rules_broken(b"<html>") == ["F3"]
    assert rules_broken(b"[1]", streamed=sse(SPARSE, "services")) == []
    assert rules_broken(ERROR, streamed=sse(FAILED, "services")) == []
    assert rules_broken(b"7", streamed=None) == []


@pytest.mark.parametrize(
    ("status", "body", "rules_broken"),
    [
        (400, {"code": 400, "type": "BAD_REQUEST", "message": "content must be a string"}, []),
        (200, {}, ["E2"]),
        (400, {"code": 500, "type": "BAD_REQUEST", "message": "No."}, ["E3"]),
        (400, {"error": {"message": "No."}}, ["E3"]),
    ],
)
def test_the_refusal_of_a_bad_request_is_graded(status: int, body: Any, rules_broken: list[str]) -> None:
    report = grade_refusal(status, msgspec.json.encode(body), "services")

    assert [one.rule for one in report.violations] == rules_broken


@pytest.mark.parametrize(
    ("url", "expected_url"),
    [
        ("http://h/eliza", "http://h/services/eliza"),
        ("http://h/behind/eliza/v1", "http://h/behind/services/eliza"),
        ("http://h/services/eliza", "http://h/services/eliza"),
        ("http://h/behind/services/eliza/stream/", "http://h/behind/services/eliza"),
        ("http://h/v1", None),
    ],
)
def test_the_services_endpoint_is_derived_from_the_workflow_url(url: str, expected_url: str | None) -> None:
    assert probe_urls(url).endpoints.get("services") == expected_url
    assert probe_urls(url, "services").endpoints == ({} if expected_url is None else {"services": expected_url})


def test_every_rule_is_broken_by_a_test_of_this_file() -> None:
    rules_broken = {rule for _, broke in VIOLATIONS.values() for rule, _ in broke}

    assert {rule.id for rule in SERVICE_RULES} - rules_broken == {"S12"}
