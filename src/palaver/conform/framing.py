"""The rules of framing (F…), `[DONE]`, and error answers that are not streams (E2 to E4)."""

from collections.abc import Mapping

from palaver.conform.findings import Findings, as_object, number_in, object_in, quote, shorten, text_in
from palaver.conform.frames import NOT_AN_OBJECT, Frame
from palaver.conform.rules import Protocol
from palaver.core import json

_DONE_RULES: Mapping[Protocol, str] = {
    "responses": "I3b",
    "invocations": "I3b",
    "chat-completions": "C12",
    "ui-stream": "U13",
}


class FramingChecker:
    """Checks each frame as it is on the wire, and the end of the stream."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._frames = 0
        self._done = False

    def feed(self, frame: Frame) -> None:
        broke = self._findings.broke
        self._frames += 1
        if self._done:
            broke("F6", frame, "it stands after [DONE]")
        self._done = self._done or frame.is_done
        if frame.fault and not (self._findings.protocol == "services" and frame.fault == NOT_AN_OBJECT):
            broke("F1", frame, frame.fault)
        if not frame.closed:
            broke("F2", frame, "the stream ends without the empty line that closes it")
        if frame.extra:
            broke("F4", frame, f"it has {', '.join(frame.extra)}")
        self._name(frame)

    def end(self, past: Frame) -> None:
        if not self._frames:
            self._findings.broke("F1", past, "there is no event in it")
        elif not self._done and self._findings.protocol in _DONE_RULES:
            self._findings.broke(_DONE_RULES[self._findings.protocol], past, "there is no [DONE]")

    def _name(self, frame: Frame) -> None:
        broke = self._findings.broke
        if self._findings.protocol == "services":
            return  # The name is checked by S1.
        if self._findings.protocol != "responses":
            if frame.event is not None:
                broke("F4", frame, f"it has event: {quote(frame.event)}")
            return
        kind = text_in(frame.value, "type") if frame.value is not None else None
        if kind is not None and frame.event is None:
            broke("F4", frame, "it has no event: line")
        elif frame.event is not None and frame.event != kind:
            broke("F4", frame, f"event: is {quote(frame.event)}, type is {quote(kind)}")


def check_head(findings: Findings, headers: Mapping[str, str]) -> None:
    """Check the headers of a streamed response, with names in lower case."""
    kind = headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "text/event-stream":
        findings.broke("F5", None, f"the content type is {quote(kind)}")
    version = headers.get("x-vercel-ai-ui-message-stream")
    if findings.protocol == "ui-stream" and version != "v1":
        findings.broke("U14", None, f"the header is {quote(version)}")


def check_refusal(findings: Findings, status: int, body: bytes) -> None:
    """Check the response to a malformed request."""
    if not 400 <= status < 500:
        findings.broke("E2", None, f"the answer is {status}: {_body_text(body)}")
        return
    text = body.decode("utf-8", "replace")
    value = json.parse_or_text(text)
    if findings.protocol == "ui-stream":
        if not text.strip() or not isinstance(value, str):
            findings.broke("E3", None, f"the body is {_body_text(body)}")
        return
    document = as_object(value) or {}
    if findings.protocol == "services":
        if number_in(document, "code") != status or not text_in(document, "message") or not text_in(document, "type"):
            findings.broke("E3", None, f"the body is {_body_text(body)}")
        return
    error = object_in(document, "error") or {}
    if not text_in(error, "message"):
        findings.broke("E3", None, f"the body is {_body_text(body)}")
    elif not error.keys() >= {"type", "code", "param"} or not text_in(document, "detail"):
        findings.broke("E4", None, f"the body is {_body_text(body)}")


def _body_text(body: bytes) -> str:
    return quote(shorten(body[:1000].decode("utf-8", "replace"), 200)) if body else "nothing"
