"""palaver call: one request, one reply."""

import asyncio
import codecs
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import click

from palaver.cli import call_service
from palaver.cli.finding import LOCAL, find, is_target, is_url, listens
from palaver.core import json
from palaver.errors import PalaverError, TargetNotFound, UpstreamFailed
from palaver.outbound import client as outbound
from palaver.outbound import printable, printable_json, printable_lines

if TYPE_CHECKING:
    import httpx

_SECONDS = 600.0


@click.command()
@click.argument("name", metavar="NAME|TARGET|URL")
@click.argument("payload", type=click.File("rb"))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the reply to this file.")
@click.option("-O", "to_stdout", is_flag=True, help="Write the reply to standard output (the default).")
@click.option("--stream", is_flag=True, help="Show what it says as it comes.")
@click.option("--url", help=f"The server to look NAME up on ({LOCAL} if it runs, else installed workflows).")
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
    if call_service.is_meant(name, given):
        return asyncio.run(_call_service(name, url, body, stream, output))
    with _opened(output) as reply:
        asyncio.run(_call(name, url, body, stream, reply))
    return 0


def _opened(output: Path | None) -> IO[Any]:
    return output.open("wb") if output is not None else click.open_file("-", "wb")


async def _call_service(name: str, url: str | None, body: bytes, stream: bool, output: Path | None) -> int:
    opened, path = _client(name, url, service=True)
    talk = _Talk()
    try:
        answer = await call_service.call(opened, path, body, say=talk.say if stream else None)
    finally:
        talk.end()
    if answer.is_error:
        click.echo(printable_json(answer.document.decode()), err=True)
        return 1
    with _opened(output) as reply:
        reply.write((_for_terminals() if reply.isatty() else bytes)(answer.document) + b"\n")
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
                raise _refused(response.status_code, await response.aread())
            shown = _for_terminals() if reply.isatty() else bytes
            async for piece in response.aiter_bytes():
                reply.write(shown(piece))
                reply.flush()
            if not stream:
                reply.write(b"\n")
    except httpx.HTTPError as error:
        raise UpstreamFailed(f"{path} could not be reached: {printable(str(error))}") from None


def _for_terminals() -> Callable[[bytes], bytes]:
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
        return outbound(timeout=_SECONDS), call_service.place(base) if service else at
    if not is_target(name) and (url is not None or listens(LOCAL)):
        return outbound(timeout=_SECONDS), (url or LOCAL).rstrip("/") + _path(name, service=service)
    from palaver.server.in_process_client import client

    workflow = find(name)
    return client(workflow), _path(workflow.description.name, service=service)


def _path(workflow: str, *, service: bool) -> str:
    return f"/services/{workflow}" if service else f"/{workflow}/invoke"


def _refused(status: int, body: bytes) -> PalaverError:
    said: Any = json.parse_or_text(body.decode("utf-8", "replace"))
    match said:
        case {"status": {"message": str(message), "type": "workflow_not_found"}}:
            return TargetNotFound(message)
        case {"status": {"message": str(message), **rest}}:
            return UpstreamFailed("; ".join(_faults(rest.get("errors"))) or message)
        case _:
            return UpstreamFailed(f"The server answered {status}.")


def _faults(errors: Any) -> list[str]:
    listed = cast("list[Any]", errors) if isinstance(errors, list) else []
    return [f"{error['pointer']}: {error['message']}" for error in listed]
