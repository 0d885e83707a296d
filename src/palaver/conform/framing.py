"""The rules of framing (F…), which are the same for every protocol, and `[DONE]`."""

from collections.abc import Mapping

from palaver.conform.findings import Findings, shown, text_in
from palaver.conform.frames import NO_OBJECT, Frame
from palaver.conform.rule import Protocol

_DONE: Mapping[Protocol, str] = {
    "responses": "I3b",
    "invocations": "I3b",
    "chat-completions": "C12",
    "ui-stream": "U13",
}


class Checker:
    """Looks at each frame as it stands on the wire, and at what ends the stream."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._frames = 0
        self._done = False

    def feed(self, frame: Frame) -> None:
        """Look at the next frame."""
        broke = self._findings.broke
        self._frames += 1
        if self._done:
            broke("F6", frame, "it stands after [DONE]")
        self._done = self._done or frame.is_done
        if frame.fault and not (self._findings.protocol == "services" and frame.fault == NO_OBJECT):
            broke("F1", frame, frame.fault)
        if not frame.closed:
            broke("F2", frame, "the stream ends without the empty line that closes it")
        if frame.extra:
            broke("F4", frame, f"it has {', '.join(frame.extra)}")
        self._name(frame)

    def end(self, past: Frame) -> None:
        """The stream is over."""
        if not self._frames:
            self._findings.broke("F1", past, "there is no event in it")
        elif not self._done and self._findings.protocol in _DONE:
            self._findings.broke(_DONE[self._findings.protocol], past, "there is no [DONE]")

    def _name(self, frame: Frame) -> None:
        broke = self._findings.broke
        if self._findings.protocol == "services":
            return  # There the name is the event's own: S1.
        if self._findings.protocol != "responses":
            if frame.event is not None:
                broke("F4", frame, f"it has event: {shown(frame.event)}")
            return
        kind = text_in(frame.value, "type") if frame.value is not None else None
        if kind is not None and frame.event is None:
            broke("F4", frame, "it has no event: line")
        elif frame.event is not None and frame.event != kind:
            broke("F4", frame, f"event: is {shown(frame.event)}, type is {shown(kind)}")


def check_head(findings: Findings, headers: Mapping[str, str]) -> None:
    """The headers of a streamed answer, with names in lower case."""
    kind = headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "text/event-stream":
        findings.broke("F5", None, f"the content type is {shown(kind)}")
    version = headers.get("x-vercel-ai-ui-message-stream")
    if findings.protocol == "ui-stream" and version != "v1":
        findings.broke("U14", None, f"the header is {shown(version)}")
