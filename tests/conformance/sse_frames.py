"""The server-sent events of a stream."""

import json
from typing import Any, NamedTuple

import httpx

from tests.conformance.scenarios import Step


class Frame(NamedTuple):
    """One server-sent event."""

    event: str | None
    data: Any
    """Parsed, except `[DONE]`."""


def stream_frames(http: httpx.Client, path: str, body: dict[str, Any], **headers: str) -> list[Frame]:
    """All frames of a streamed answer."""
    answer = http.post(path, json={**body, "stream": True}, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    return [_frame(block) for block in answer.text.split("\n\n") if block and not block.startswith(":")]


def responses_body(script: list[Step], **more: Any) -> dict[str, Any]:
    """The body of a request on any route of the Responses family."""
    return {"input": "Go on.", "custom_inputs": {"script": script}, **more}


def _frame(block: str) -> Frame:
    lines = dict(line.split(": ", 1) for line in block.split("\n"))
    data = lines.pop("data")
    event = lines.pop("event", None)
    assert lines == {}
    return Frame(event, data if data == "[DONE]" else json.loads(data))
