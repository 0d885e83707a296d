"""Grade a recorded stream, a complete body or a refusal.

report = grade(stream, "responses")
assert report.faults == (), str(report)
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal, assert_never

import msgspec

from palaver.conform import chat_completions, framing, responses, services, ui_stream
from palaver.conform.findings import Findings, Report, quote
from palaver.conform.frames import NOT_AN_OBJECT, decode_object, end_frame, parse_frames
from palaver.conform.rules import Protocol
from palaver.conform.ui_stream import Version

WholeFrom = Literal["same-run", "another-run"]
"""Whether the complete body is of the run that was streamed, or of another one with the same prompt."""

_Checker = responses.ResponsesChecker | chat_completions.ChatChecker | ui_stream.UIChecker | services.ServiceChecker


def grade(
    stream: bytes,
    protocol: Protocol,
    *,
    whole: Any = None,
    whole_from: WholeFrom = "same-run",
    history: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    ui_version: Version = 6,
    strict: bool = True,
) -> Report:
    """Check a stream against all rules of its protocol.

    `whole` is the body (decoded, or bytes) of the same run when it was not streamed; `history` the ids of calls in the
    request without a result; `headers` those of the streamed response. With `strict`, a should-rule is a fault too.
    """
    findings = Findings(protocol)
    checker, count = _follow(findings, stream, history, ui_version)
    if headers is not None:
        framing.check_head(findings, {name.lower(): value for name, value in headers.items()})
    if whole is not None:
        _check_whole(findings, whole, checker, whole_from)
    return findings.report(frames=count, strict=strict)


def grade_whole(
    whole: Any,
    protocol: Protocol,
    *,
    stream: bytes | None = None,
    whole_from: WholeFrom = "same-run",
    strict: bool = True,
) -> Report:
    """Check a body that was not streamed, and compare it with the stream, which is not graded here."""
    findings = Findings(protocol)
    checker = None if stream is None else _follow(Findings(protocol), stream, (), 6)[0]
    _check_whole(findings, whole, checker, whole_from)
    return findings.report(strict=strict)


def grade_refusal(status: int, body: bytes, protocol: Protocol, *, strict: bool = True) -> Report:
    """Check the response to a malformed request."""
    findings = Findings(protocol)
    framing.check_refusal(findings, status, body)
    return findings.report(strict=strict)


def grade_unanswered(why: str, protocol: Protocol, *, strict: bool = True) -> Report:
    """Return the report for a prompt without an answer that could be graded."""
    findings = Findings(protocol)
    findings.broke("E1", None, why)
    return findings.report(strict=strict)


def _follow(findings: Findings, stream: bytes, history: Collection[str], ui_version: Version) -> tuple[_Checker, int]:
    frames = parse_frames(stream)
    framed, checker = framing.FramingChecker(findings), _checker(findings, history, ui_version)
    for frame in frames:
        framed.feed(frame)
        checker.feed(frame)
    end = end_frame(frames)
    framed.end(end)
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


def _check_whole(findings: Findings, whole: Any, checker: _Checker | None, whole_from: WholeFrom) -> None:
    body, same_run = whole, whole_from == "same-run"
    if isinstance(whole, bytes):
        body, fault = decode_object(whole)
        if fault == NOT_AN_OBJECT and findings.protocol == "services":
            body = msgspec.json.decode(whole)
        elif fault is not None:
            findings.broke("F3", None, f"the body is {quote(whole[:200].decode('utf-8', 'replace'))}: {fault}")
            return
    if findings.protocol == "chat-completions":
        answer = checker.answer if isinstance(checker, chat_completions.ChatChecker) else None
        chat_completions.check_completion_body(findings, body, answer, same_run=same_run)
    elif findings.protocol == "services":
        services.check_service_body(
            findings, body, checker if isinstance(checker, services.ServiceChecker) else None, same_run=same_run
        )
    elif findings.protocol != "ui-stream":  # It has no complete form.
        terminal = checker.terminal if isinstance(checker, responses.ResponsesChecker) else None
        responses.check_response_body(findings, body, terminal, same_run=same_run)
