"""palaver call: one request, one reply."""

import asyncio
import codecs
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import click

from palaver.cli.finding import LOCAL, find, is_target, is_url, listens
from palaver.core import jsons
from palaver.errors import PalaverError, TargetNotFound, UpstreamFailed
from palaver.outbound import client as outbound
from palaver.outbound import printable, printable_lines

if TYPE_CHECKING:
    import httpx

_SECONDS = 600.0


@click.command()
@click.argument("name", metavar="NAME|TARGET|URL")
@click.argument("payload", type=click.File("rb"))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the reply to this file.")
@click.option("-O", "to_stdout", is_flag=True, help="Write the reply to standard output (the default).")
@click.option("--stream", is_flag=True, help="Print records, one line each, as they come.")
@click.option("--url", help=f"The server to look NAME up on ({LOCAL} if it runs, else installed workflows).")
def command(name: str, payload: BinaryIO, output: Path | None, to_stdout: bool, stream: bool, url: str | None) -> None:
    """Call a workflow with the JSON in PAYLOAD (a file, or - for standard input): the body of /invoke.

    \b
    Examples:
      palaver call headline payload.json
      echo '{"inputs": {"text": "It rained all day."}}' | palaver call headline - -O
      palaver call eliza payload.json --stream --url http://localhost:8642
    """
    if output is not None and to_stdout:
        raise click.UsageError("-o and -O say different things: give one of them.")
    body = payload.read()
    jsons.received(body)  # A payload that is not JSON is told here, not by a server.
    with output.open("wb") if output is not None else click.open_file("-", "wb") as reply:
        asyncio.run(_call(name, url, body, stream, reply))


async def _call(name: str, url: str | None, body: bytes, stream: bool, reply: IO[Any]) -> None:
    import httpx

    opened, path = _client(name, url)
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


def _client(name: str, url: str | None) -> "tuple[AbstractAsyncContextManager[httpx.AsyncClient], str]":
    """Who is to be asked, and where: a server, or the workflow itself in this process."""
    if is_url(name):
        base = name.rstrip("/")
        return outbound(timeout=_SECONDS), base if base.endswith("/invoke") else f"{base}/invoke"
    if not is_target(name) and (url is not None or listens(LOCAL)):
        return outbound(timeout=_SECONDS), f"{(url or LOCAL).rstrip('/')}/{name}/invoke"
    from palaver.server.in_process import client

    workflow = find(name)
    return client(workflow), f"/{workflow.description.name}/invoke"


def _refused(status: int, body: bytes) -> PalaverError:
    said: Any = jsons.parsed(body.decode("utf-8", "replace"))
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
