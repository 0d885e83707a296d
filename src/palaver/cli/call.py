"""palaver call: one request, one reply."""

import asyncio
import codecs
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast
from urllib.parse import urlsplit

import click

from palaver.cli.workflow_lookup import LOCAL_SERVER_URL, find_workflow, is_listening, is_target, is_url
from palaver.core import json
from palaver.errors import PalaverError, TargetNotFound, UpstreamFailed
from palaver.outbound import client as outbound
from palaver.outbound import printable, printable_json, printable_lines
from palaver.protocols.sse import LineDecoder

if TYPE_CHECKING:
    import httpx


_INVOKE_KEYS = ("data", "inputs", "messages")
"""What the body of /invoke has one of. Of anything else the whole object is a service's payload."""
_MAX_LINE_BYTES = 64 * 1024 * 1024
_HEADERS = {"content-type": "application/json"}


class ServiceReply(NamedTuple):
    """What a service answered: its document, or the error object."""

    document: bytes
    is_error: bool


def is_service_call(name: str, payload: object) -> bool:
    """Is a service to be called, and not /invoke? A URL says so by its path; else the payload by its keys."""
    steps = urlsplit(name).path.strip("/").split("/") if is_url(name) else []
    if steps[-1:] == ["invoke"]:
        return False
    return "services" in steps or not (isinstance(payload, dict) and any(key in payload for key in _INVOKE_KEYS))


def service_url(url: str) -> str:
    """Where the service stands whose workflow, or which itself, has that URL."""
    parts = urlsplit(url)
    steps = parts.path.strip("/").removesuffix("/stream").split("/")
    root = steps[:-2] if steps[-2:-1] == ["services"] else steps[:-1]
    return parts._replace(path="/".join(["", *root, "services", steps[-1]]), query="", fragment="").geturl()


async def call_service(
    opened: "AbstractAsyncContextManager[httpx.AsyncClient]",
    path: str,
    payload: bytes,
    *,
    say: Callable[[str], None] | None = None,
) -> ServiceReply:
    """Call it. With `say` it is streamed, and what it says is said as it comes."""
    import httpx

    path = path if say is None else f"{path}/stream"
    try:
        async with opened as http, http.stream("POST", path, content=payload, headers=_HEADERS) as response:
            if say is None or response.status_code >= 400:
                return _parse_reply(response.status_code, await response.aread())
            return await _follow_stream(response.aiter_bytes(), say)
    except httpx.HTTPError as error:
        raise UpstreamFailed(f"{path} could not be reached: {printable(str(error))}") from None


def _parse_reply(status: int, body: bytes) -> ServiceReply:
    if status < 400:
        return ServiceReply(body, is_error=False)
    match json.parse_or_text(body.decode("utf-8", "replace")):
        case {"code": int(), "message": str()} as error:
            return ServiceReply(json.encode(error), is_error=True)
        case _:
            raise UpstreamFailed(f"The server answered {status}.")


async def _follow_stream(body: AsyncIterator[bytes], say: Callable[[str], None]) -> ServiceReply:
    lines, name, is_begun = LineDecoder(longest=_MAX_LINE_BYTES), "", False
    async for piece in body:
        for line in lines.feed(piece):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value.decode("utf-8", "replace")
            elif field != b"data":
                continue
            elif name in ("complete", "error"):
                return ServiceReply(value, is_error=name == "error")
            elif text := _event_text(name, value, is_begun):
                is_begun = True
                say(text)
    raise UpstreamFailed("The stream broke off before its end.")


def _event_text(name: str, data: bytes, is_begun: bool) -> str:
    """The text in an event; each block of text but the first begins a line."""
    event: Any = json.parse_or_text(data.decode("utf-8", "replace")) if name.startswith("content_block_") else None
    match event:
        case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
            return text
        case {"type": "content_block_start", "content_block": {"type": "text"}}:
            return "\n" if is_begun else ""
        case _:
            return ""


_TIMEOUT_S = 600.0


@click.command()
@click.argument("name", metavar="NAME|TARGET|URL")
@click.argument("payload", type=click.File("rb"))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the reply to this file.")
@click.option("-O", "to_stdout", is_flag=True, help="Write the reply to standard output (the default).")
@click.option("--stream", is_flag=True, help="Show what it says as it comes.")
@click.option("--url", help=f"The server to look NAME up on ({LOCAL_SERVER_URL} if it runs, else installed workflows).")
def command(name: str, payload: BinaryIO, output: Path | None, to_stdout: bool, stream: bool, url: str | None) -> int:
    """Call a workflow with the JSON in PAYLOAD: a file, or - for standard input.

    An object with `inputs`, `messages` or `data` is the body of /invoke, whose reply is printed; with --stream its
    records, one line each. Anything else is the payload of a service, POST /services/NAME, whose document is printed;
    with --stream its text goes to standard error as it comes. Exit code 1: it failed, and standard error says why, of
    a service with its error object in one line of JSON.

    \b
    Examples:
      palaver call headline payload.json
      echo '{"inputs": {"text": "It rained all day."}}' | palaver call headline - -O
      palaver call eliza payload.json --stream --url http://localhost:8642
      echo '{"content": "I need a holiday", "history": []}' | palaver call eliza - --stream
      palaver call app.py:tutor payload.json -o reply.json
    """
    if output is not None and to_stdout:
        raise click.UsageError("-o and -O say different things: give one of them.")
    body = payload.read()
    given = json.decode(body)  # A payload that is not JSON is told here, not by a server.
    if is_service_call(name, given):
        return asyncio.run(_print_service_reply(name, url, body, stream, output))
    with _open_output(output) as reply:
        asyncio.run(_call(name, url, body, stream, reply))
    return 0


def _open_output(output: Path | None) -> IO[Any]:
    return output.open("wb") if output is not None else click.open_file("-", "wb")


async def _print_service_reply(name: str, url: str | None, body: bytes, stream: bool, output: Path | None) -> int:
    opened, path = _client(name, url, service=True)
    talk = _Talk()
    try:
        answer = await call_service(opened, path, body, say=talk.say if stream else None)
    finally:
        talk.end()
    if answer.is_error:
        click.echo(printable_json(answer.document.decode()), err=True)
        return 1
    with _open_output(output) as reply:
        reply.write((_terminal_filter() if reply.isatty() else bytes)(answer.document) + b"\n")
    return 0


class _Talk:
    """What a service says while it works, on standard error; a line that was begun is ended."""

    def __init__(self) -> None:
        self._is_inside = False
        self._is_shown = sys.stderr.isatty()

    def say(self, text: str) -> None:
        click.echo(printable_lines(text) if self._is_shown else text, nl=False, err=True)
        self._is_inside = not text.endswith("\n")

    def end(self) -> None:
        if self._is_inside:
            self.say("\n")


async def _call(name: str, url: str | None, body: bytes, stream: bool, reply: IO[Any]) -> None:
    import httpx

    opened, path = _client(name, url, service=False)
    headers = {"content-type": "application/json", "accept": "application/x-ndjson" if stream else "application/json"}
    try:
        async with opened as http, http.stream("POST", path, content=body, headers=headers) as response:
            if response.status_code >= 400:
                raise _response_error(response.status_code, await response.aread())
            shown = _terminal_filter() if reply.isatty() else bytes
            async for piece in response.aiter_bytes():
                reply.write(shown(piece))
                reply.flush()
            if not stream:
                reply.write(b"\n")
    except httpx.HTTPError as error:
        raise UpstreamFailed(f"{path} could not be reached: {printable(str(error))}") from None


def _terminal_filter() -> Callable[[bytes], bytes]:
    """Pieces of what a stranger says, without what a terminal would act on; a file gets them as they are."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda piece: printable_lines(decode(piece)).encode()


def _client(
    name: str, url: str | None, *, service: bool
) -> "tuple[AbstractAsyncContextManager[httpx.AsyncClient], str]":
    """Who is to be asked, and where: a server, or the workflow itself in this process."""
    if is_url(name):
        base = name.rstrip("/")
        at = base if base.endswith("/invoke") else f"{base}/invoke"
        return outbound(timeout=_TIMEOUT_S), service_url(base) if service else at
    if not is_target(name) and (url is not None or is_listening(LOCAL_SERVER_URL)):
        return outbound(timeout=_TIMEOUT_S), (url or LOCAL_SERVER_URL).rstrip("/") + _path(name, service=service)
    from palaver.server.in_process_client import client

    workflow = find_workflow(name)
    return client(workflow), _path(workflow.description.name, service=service)


def _path(workflow: str, *, service: bool) -> str:
    return f"/services/{workflow}" if service else f"/{workflow}/invoke"


def _response_error(status: int, body: bytes) -> PalaverError:
    said: Any = json.parse_or_text(body.decode("utf-8", "replace"))
    match said:
        case {"status": {"message": str(message), "type": "workflow_not_found"}}:
            return TargetNotFound(message)
        case {"status": {"message": str(message), **rest}}:
            return UpstreamFailed("; ".join(_error_details(rest.get("errors"))) or message)
        case _:
            return UpstreamFailed(f"The server answered {status}.")


def _error_details(errors: Any) -> list[str]:
    listed = cast("list[Any]", errors) if isinstance(errors, list) else []
    return [f"{error['pointer']}: {error['message']}" for error in listed]
