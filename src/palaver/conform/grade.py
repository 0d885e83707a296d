"""Grade a recorded stream, a complete body or a refusal.

report = grade(stream, "responses")
assert report.faults == (), str(report)
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, assert_never

import msgspec

from palaver.conform import chat_completions, responses, services, ui_stream
from palaver.conform.findings import Findings, Report, as_object, number_in, object_in, quote, shorten, text_in
from palaver.conform.frames import NOT_AN_OBJECT, Frame, decode_object, end_frame, parse_frames
from palaver.conform.rules import Protocol
from palaver.conform.ui_stream import Version
from palaver.core import json

_DONE_RULES: Mapping[Protocol, str] = {
    "responses": "I3b",
    "invocations": "I3b",
    "chat-completions": "C12",
    "ui-stream": "U13",
}


class FramingChecker:
    """Checks the framing of each event, and the end of the stream."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._frames = 0
        self._has_done = False

    def feed(self, frame: Frame) -> None:
        add = self._findings.add
        self._frames += 1
        if self._has_done:
            add("F6", frame, "event after [DONE]")
        self._has_done = self._has_done or frame.is_done
        if frame.fault and not (self._findings.protocol == "services" and frame.fault == NOT_AN_OBJECT):
            add("F1", frame, frame.fault)
        if not frame.closed:
            add("F2", frame, "no empty line after the last event")
        if frame.extra:
            add("F4", frame, f"unexpected fields: {', '.join(frame.extra)}")
        self._check_name(frame)

    def end(self, after_last: Frame) -> None:
        if not self._frames:
            self._findings.add("F1", after_last, "the stream has no events")
        elif not self._has_done and self._findings.protocol in _DONE_RULES:
            self._findings.add(_DONE_RULES[self._findings.protocol], after_last, "missing [DONE]")

    def _check_name(self, frame: Frame) -> None:
        add = self._findings.add
        if self._findings.protocol == "services":
            return  # The name is checked by S1.
        if self._findings.protocol != "responses":
            if frame.event is not None:
                add("F4", frame, f"unexpected field event: {quote(frame.event)}")
            return
        kind = text_in(frame.value, "type") if frame.value is not None else None
        if kind is not None and frame.event is None:
            add("F4", frame, "missing event: line")
        elif frame.event is not None and frame.event != kind:
            add("F4", frame, f"event is {quote(frame.event)}, but type is {quote(kind)}")


def check_head(findings: Findings, headers: Mapping[str, str]) -> None:
    """Check the headers of a streamed response, with names in lower case."""
    content_type = headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "text/event-stream":
        findings.add("F5", None, f"content type is {quote(content_type)}")
    version = headers.get("x-vercel-ai-ui-message-stream")
    if findings.protocol == "ui-stream" and version != "v1":
        findings.add("U14", None, f"x-vercel-ai-ui-message-stream is {quote(version)}")


def check_refusal(findings: Findings, status: int, body: bytes) -> None:
    if not 400 <= status < 500:
        findings.add("E2", None, f"status is {status}: {_body_text(body)}")
        return
    text = body.decode("utf-8", "replace")
    value = json.parse_or_text(text)
    if findings.protocol == "ui-stream":
        if not text.strip() or not isinstance(value, str):
            findings.add("E3", None, f"unexpected error body: {_body_text(body)}")
        return
    document = as_object(value) or {}
    if findings.protocol == "services":
        if number_in(document, "code") != status or not text_in(document, "message") or not text_in(document, "type"):
            findings.add("E3", None, f"unexpected error body: {_body_text(body)}")
        return
    error = object_in(document, "error") or {}
    if not text_in(error, "message"):
        findings.add("E3", None, f"unexpected error body: {_body_text(body)}")
    elif not error.keys() >= {"type", "code", "param"} or not text_in(document, "detail"):
        findings.add("E4", None, f"error body lacks type, code, param or detail: {_body_text(body)}")


def _body_text(body: bytes) -> str:
    return quote(shorten(body[:1000].decode("utf-8", "replace"), 200)) if body else "(empty)"


BodySource = Literal["same-run", "another-run"]
"""Whether the complete body is of the run that was streamed, or of another one with the same prompt."""

_Checker = responses.ResponsesChecker | chat_completions.ChatChecker | ui_stream.UIChecker | services.ServiceChecker


def grade(
    stream: bytes,
    protocol: Protocol,
    *,
    body: Any = None,
    body_from: BodySource = "same-run",
    history: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    ui_version: Version = 6,
    strict: bool = True,
) -> Report:
    """Check a stream against all rules of its protocol.

    `body` is the body (decoded, or bytes) of the same run when it was not streamed; `history` the ids of calls in the
    request without a result; `headers` those of the streamed response. With `strict`, violations of *should* rules
    are faults, too.
    """
    findings = Findings(protocol)
    checker, count = _check_stream(findings, stream, history, ui_version)
    if headers is not None:
        check_head(findings, {name.lower(): value for name, value in headers.items()})
    if body is not None:
        _check_body(findings, body, checker, body_from)
    return findings.report(frames=count, strict=strict)


def grade_body(
    body: Any,
    protocol: Protocol,
    *,
    stream: bytes | None = None,
    body_from: BodySource = "same-run",
    strict: bool = True,
) -> Report:
    """Check a body that was not streamed, and compare it with the stream. The stream itself is not graded."""
    findings = Findings(protocol)
    checker = None if stream is None else _check_stream(Findings(protocol), stream, (), 6)[0]
    _check_body(findings, body, checker, body_from)
    return findings.report(strict=strict)


def grade_refusal(status: int, body: bytes, protocol: Protocol, *, strict: bool = True) -> Report:
    """Check the response to a malformed request."""
    findings = Findings(protocol)
    check_refusal(findings, status, body)
    return findings.report(strict=strict)


def grade_unanswered(why: str, protocol: Protocol, *, strict: bool = True) -> Report:
    """Return the report for a prompt without an answer that could be graded."""
    findings = Findings(protocol)
    findings.add("E1", None, why)
    return findings.report(strict=strict)


def _check_stream(
    findings: Findings, stream: bytes, history: Collection[str], ui_version: Version
) -> tuple[_Checker, int]:
    frames = parse_frames(stream)
    framing, checker = FramingChecker(findings), _checker(findings, history, ui_version)
    for frame in frames:
        framing.feed(frame)
        checker.feed(frame)
    end = end_frame(frames)
    framing.end(end)
    checker.end(end)
    return checker, len(frames)


def _checker(findings: Findings, history: Collection[str], ui_version: Version) -> _Checker:
    match findings.protocol:
        case "responses" | "invocations":
            return responses.ResponsesChecker(findings, history=history)
        case "chat-completions":
            return chat_completions.ChatChecker(findings)
        case "ui-stream":
            return ui_stream.UIChecker(findings, version=ui_version, history=history)
        case "services":
            return services.ServiceChecker(findings)
        case _:
            assert_never(findings.protocol)


def _check_body(findings: Findings, raw: Any, checker: _Checker | None, body_from: BodySource) -> None:
    body, same_run = raw, body_from == "same-run"
    if isinstance(raw, bytes):
        body, fault = decode_object(raw)
        if fault == NOT_AN_OBJECT and findings.protocol == "services":
            body = msgspec.json.decode(raw)
        elif fault is not None:
            findings.add("F3", None, f"invalid body {quote(raw[:200].decode('utf-8', 'replace'))}: {fault}")
            return
    if findings.protocol == "chat-completions":
        answer = checker.answer if isinstance(checker, chat_completions.ChatChecker) else None
        chat_completions.check_completion_body(findings, body, answer, same_run=same_run)
    elif findings.protocol == "services":
        services.check_service_body(
            findings, body, checker if isinstance(checker, services.ServiceChecker) else None, same_run=same_run
        )
    elif findings.protocol != "ui-stream":  # A UI stream has no unstreamed form.
        terminal = checker.terminal if isinstance(checker, responses.ResponsesChecker) else None
        responses.check_response_body(findings, body, terminal, same_run=same_run)
