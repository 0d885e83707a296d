"""palaver call: one request, one reply."""

import asyncio
import codecs
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

import click

from palaver.cli.input_files import open_input, parse_document
from palaver.cli.output import error_reason, request_failure
from palaver.cli.workflow_lookup import (
    LOCAL_SERVER_URL,
    find_workflow,
    is_listening,
    is_target,
    is_url,
    require_valid_url,
)
from palaver.core import json
from palaver.errors import PalaverError, TargetNotFound, UpstreamFailed
from palaver.outbound import client as outbound
from palaver.outbound import printable_json, printable_lines
from palaver.protocols.sse import LineDecoder

if TYPE_CHECKING:
    import httpx


_INVOKE_KEYS = ("data", "inputs", "messages")
"""The body of /invoke has one of these keys; any other object is the payload of a service."""
_MAX_LINE_BYTES = 64 * 1024 * 1024
_HEADERS = {"content-type": "application/json"}


class ServiceReply(NamedTuple):
    """The document of a service, or its error object."""

    document: bytes
    is_error: bool


def is_service_call(name: str, payload: object) -> bool:
    """Whether a service is called rather than /invoke: by the path of a URL, or by the keys of the payload."""
    segments = urlsplit(name).path.strip("/").split("/") if is_url(name) else []
    if segments[-1:] == ["invoke"]:
        return False
    return "services" in segments or not (isinstance(payload, dict) and any(key in payload for key in _INVOKE_KEYS))


def service_url(url: str) -> str:
    """Return the URL of a service, given that of the service or its workflow."""
    parts = urlsplit(url)
    segments = parts.path.strip("/").removesuffix("/stream").split("/")
    root = segments[:-2] if segments[-2:-1] == ["services"] else segments[:-1]
    return parts._replace(path="/".join(["", *root, "services", segments[-1]]), query="", fragment="").geturl()


async def call_service(
    client: "AbstractAsyncContextManager[httpx.AsyncClient]",
    path: str,
    payload: bytes,
    *,
    on_text: Callable[[str], None] | None = None,
) -> ServiceReply:
    """Call a service. With `on_text` the reply is streamed, and `on_text` gets its text."""
    import httpx

    path = path if on_text is None else f"{path}/stream"
    try:
        async with client as http, http.stream("POST", path, content=payload, headers=_HEADERS) as response:
            if on_text is None or response.status_code >= 400:
                return _parse_reply(response.status_code, await response.aread())
            return await _follow_stream(response.aiter_bytes(), on_text)
    except httpx.HTTPError as error:
        raise UpstreamFailed(request_failure(path, error)) from None


def _parse_reply(status: int, body: bytes) -> ServiceReply:
    if status < 400:
        return ServiceReply(body, is_error=False)
    match json.parse_or_text(body.decode("utf-8", "replace")):
        case {"code": int(), "message": str()} as error:
            return ServiceReply(json.encode(error), is_error=True)
        case _:
            raise UpstreamFailed(f"The server responded with status {status}.")


async def _follow_stream(body: AsyncIterator[bytes], on_text: Callable[[str], None]) -> ServiceReply:
    lines, event_name, has_text = LineDecoder(max_bytes=_MAX_LINE_BYTES), "", False
    async for chunk in body:
        for line in lines.feed(chunk):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                event_name = value.decode("utf-8", "replace")
            elif field != b"data":
                continue
            elif event_name in ("complete", "error"):
                return ServiceReply(value, is_error=event_name == "error")
            elif text := _event_text(event_name, value, has_text):
                has_text = True
                on_text(text)
    raise UpstreamFailed("The stream ended unexpectedly.")


def _event_text(name: str, data: bytes, has_text: bool) -> str:
    """Return the text of an event; each text block but the first begins a new line."""
    event: Any = json.parse_or_text(data.decode("utf-8", "replace")) if name.startswith("content_block_") else None
    match event:
        case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
            return text
        case {"type": "content_block_start", "content_block": {"type": "text"}}:
            return "\n" if has_text else ""
        case _:
            return ""


_TIMEOUT_S = 600.0


@click.command()
@click.argument("name", metavar="NAME|TARGET|URL")
@click.argument("payload", metavar="PAYLOAD")
@click.option("-o", "--output", metavar="FILE", help="Write the reply to FILE.")
@click.option("-O", "to_stdout", is_flag=True, help="Write the reply to standard output (the default).")
@click.option("--stream", is_flag=True, help="Stream the reply as it is generated.")
@click.option(
    "--url",
    help=f"URL of the server (default: {LOCAL_SERVER_URL} if a server is running there; otherwise an installed "
    "workflow is called without a server).",
)
def command(name: str, payload: str, output: str | None, to_stdout: bool, stream: bool, url: str | None) -> int:
    """Call a workflow with the JSON in PAYLOAD, a file or - for standard input.

    An object with `inputs`, `messages` or `data` is sent to /NAME/invoke; with
    --stream, the records of the reply are printed one per line. Any other JSON
    is sent to /services/NAME; with --stream, the text is printed to standard
    error while it is generated, followed by the document on standard output.

    Exit code 1 means that the call failed. A service's error object is printed
    to standard error as one line of JSON.

    \b
    Examples:
      palaver call headline payload.json
      echo '{"inputs": {"text": "It rained."}}' | palaver call headline - -O
      palaver call eliza payload.json --stream --url http://localhost:8642
      echo '{"content": "Hi", "history": []}' | palaver call eliza - --stream
      palaver call app.py:tutor payload.json -o reply.json
    """
    if output is not None and to_stdout:
        raise click.UsageError("-o can't be combined with -O.")
    with open_input(payload) as stream_in:
        body = stream_in.read()
    parsed = parse_document(body, payload)  # Reject a payload that is not JSON here, not on the server.
    if is_service_call(name, parsed):
        return asyncio.run(_print_service_reply(name, url, body, stream, output))
    with _open_output(output) as output_file:
        asyncio.run(_call(name, url, body, stream, output_file))
    return 0


def _open_output(output: str | None) -> IO[Any]:
    try:
        return click.open_file(output or "-", "wb")
    except OSError as error:
        raise TargetNotFound(f"Cannot write {output}: {error_reason(error)}.") from None


async def _print_service_reply(name: str, url: str | None, body: bytes, stream: bool, output: str | None) -> int:
    client, path = _open_client(name, url, is_service=True)
    printer = _StreamPrinter()
    try:
        service_reply = await call_service(client, path, body, on_text=printer.print if stream else None)
    finally:
        printer.end()
    if service_reply.is_error:
        click.echo(printable_json(service_reply.document.decode()), err=True)
        return 1
    with _open_output(output) as output_file:
        output_file.write((_terminal_filter() if output_file.isatty() else bytes)(service_reply.document) + b"\n")
    return 0


class _StreamPrinter:
    """Prints the text of a service on standard error, and ends a line that was started."""

    def __init__(self) -> None:
        self._has_open_line = False
        self._is_terminal = sys.stderr.isatty()

    def print(self, text: str) -> None:
        click.echo(printable_lines(text) if self._is_terminal else text, nl=False, err=True)
        self._has_open_line = not text.endswith("\n")

    def end(self) -> None:
        if self._has_open_line:
            self.print("\n")


async def _call(name: str, url: str | None, body: bytes, stream: bool, output_file: IO[Any]) -> None:
    import httpx

    client, path = _open_client(name, url, is_service=False)
    headers = {"content-type": "application/json", "accept": "application/x-ndjson" if stream else "application/json"}
    try:
        async with client as http, http.stream("POST", path, content=body, headers=headers) as response:
            if response.status_code >= 400:
                raise _response_error(response.status_code, await response.aread())
            convert = _terminal_filter() if output_file.isatty() else bytes
            async for chunk in response.aiter_bytes():
                output_file.write(convert(chunk))
                output_file.flush()
            if not stream:
                output_file.write(b"\n")
    except httpx.HTTPError as error:
        raise UpstreamFailed(request_failure(path, error)) from None


def _terminal_filter() -> Callable[[bytes], bytes]:
    """Return a filter that makes output safe for a terminal. It is not applied to files."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda piece: printable_lines(decode(piece)).encode()


def _open_client(
    name: str, url: str | None, *, is_service: bool
) -> "tuple[AbstractAsyncContextManager[httpx.AsyncClient], str]":
    """Return a client and URL: of a server, or of the workflow run in this process."""
    if is_url(name):
        require_valid_url(name)
        base = name.rstrip("/")
        invoke_url = base if base.endswith("/invoke") else f"{base}/invoke"
        return outbound(timeout=_TIMEOUT_S), service_url(base) if is_service else invoke_url
    if url is not None:
        require_valid_url(url)
    if not is_target(name) and (url is not None or is_listening(LOCAL_SERVER_URL)):
        return outbound(timeout=_TIMEOUT_S), (url or LOCAL_SERVER_URL).rstrip("/") + _path(name, is_service=is_service)
    from palaver.testing import client

    workflow = find_workflow(name)
    return client(workflow), _path(workflow.description.name, is_service=is_service)


def _path(workflow: str, *, is_service: bool) -> str:
    return f"/services/{workflow}" if is_service else f"/{workflow}/invoke"


def _response_error(status: int, body: bytes) -> PalaverError:
    document: Any = json.parse_or_text(body.decode("utf-8", "replace"))
    match document:
        case {"status": {"message": str(message), "type": "workflow_not_found"}}:
            return TargetNotFound(message)
        case {"status": {"message": str(message), **status_fields}}:
            return UpstreamFailed("; ".join(_error_details(status_fields.get("errors"))) or message)
        case _:
            return UpstreamFailed(f"The server responded with status {status}.")


def _error_details(errors: Any) -> list[str]:
    items = cast("list[Any]", errors) if isinstance(errors, list) else []
    return [f"{error['pointer']}: {error['message']}" for error in items]
