"""A call with a service's payload: its text while it comes, and the document at the end (contract: job-chat, 8)."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from palaver.cli.finding import is_url
from palaver.core import json
from palaver.errors import UpstreamFailed
from palaver.outbound import printable
from palaver.protocols.sse import LineDecoder

if TYPE_CHECKING:
    import httpx

_OF_INVOKE = ("data", "inputs", "messages")
"""What the body of /invoke has one of. Of anything else the whole object is a service's payload."""
_LONGEST = 64 * 1024 * 1024
_HEADERS = {"content-type": "application/json"}


class Answered(NamedTuple):
    """What a service answered: its document, or the error object."""

    document: bytes
    is_error: bool


def is_meant(name: str, payload: object) -> bool:
    """Is a service to be called, and not /invoke? A URL says so by its path; else the payload by its keys."""
    steps = urlsplit(name).path.strip("/").split("/") if is_url(name) else []
    if steps[-1:] == ["invoke"]:
        return False
    return "services" in steps or not (isinstance(payload, dict) and any(key in payload for key in _OF_INVOKE))


def place(url: str) -> str:
    """Where the service stands whose workflow, or which itself, has that URL."""
    parts = urlsplit(url)
    steps = parts.path.strip("/").removesuffix("/stream").split("/")
    root = steps[:-2] if steps[-2:-1] == ["services"] else steps[:-1]
    return parts._replace(path="/".join(["", *root, "services", steps[-1]]), query="", fragment="").geturl()


async def call(
    opened: "AbstractAsyncContextManager[httpx.AsyncClient]",
    path: str,
    payload: bytes,
    *,
    say: Callable[[str], None] | None = None,
) -> Answered:
    """Call it. With `say` it is streamed, and what it says is said as it comes."""
    import httpx

    path = path if say is None else f"{path}/stream"
    try:
        async with opened as http, http.stream("POST", path, content=payload, headers=_HEADERS) as response:
            if say is None or response.status_code >= 400:
                return _whole(response.status_code, await response.aread())
            return await _followed(response.aiter_bytes(), say)
    except httpx.HTTPError as error:
        raise UpstreamFailed(f"{path} could not be reached: {printable(str(error))}") from None


def _whole(status: int, body: bytes) -> Answered:
    if status < 400:
        return Answered(body, is_error=False)
    match json.parse_or_text(body.decode("utf-8", "replace")):
        case {"code": int(), "message": str()} as error:
            return Answered(json.encode(error), is_error=True)
        case _:
            raise UpstreamFailed(f"The server answered {status}.")


async def _followed(body: AsyncIterator[bytes], say: Callable[[str], None]) -> Answered:
    lines, name, is_begun = LineDecoder(longest=_LONGEST), "", False
    async for piece in body:
        for line in lines.feed(piece):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value.decode("utf-8", "replace")
            elif field != b"data":
                continue
            elif name in ("complete", "error"):
                return Answered(value, is_error=name == "error")
            elif text := _said(name, value, is_begun):
                is_begun = True
                say(text)
    raise UpstreamFailed("The stream broke off before its end.")


def _said(name: str, data: bytes, is_begun: bool) -> str:
    """The text in an event; each block of text but the first begins a line."""
    event: Any = json.parse_or_text(data.decode("utf-8", "replace")) if name.startswith("content_block_") else None
    match event:
        case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
            return text
        case {"type": "content_block_start", "content_block": {"type": "text"}}:
            return "\n" if is_begun else ""
        case _:
            return ""
