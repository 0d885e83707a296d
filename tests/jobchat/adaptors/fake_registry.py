"""A fake npm registry, or folder of descriptions, behind a local HTTP server."""

import asyncio
import base64
import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha512
from typing import Any

import msgspec


def describe(*names: str) -> bytes:
    """Return the description of an adaptor with these functions."""
    return msgspec.json.encode({"operations": [{"name": name, "params": []} for name in names]})


def tar(*members: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    """Return a tarball with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return buffer.getvalue()


def package(*names: str) -> bytes:
    """Return the tarball of an adaptor with these functions."""
    return tar(("package/package.json", b"{}"), ("package/ast.json", describe(*names)), ("package/index.js", b"1"))


def integrity(tarball: bytes) -> str:
    return "sha512-" + base64.b64encode(sha512(tarball).digest()).decode()


class RegistryResponse(msgspec.Struct):
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}
    hangs: bool = False
    """Send all but the last byte, then nothing."""


class FakeRegistry:
    """Responds by path, and records the requested paths."""

    def __init__(self) -> None:
        self.responses: dict[str, RegistryResponse] = {}
        self.requests: list[str] = []
        self.url = ""
        self.gate: asyncio.Event | None = None
        """If set, responses wait for it."""

    def publish(self, name: str, tarballs: dict[str, bytes], **changes: Any) -> None:
        """Publish versions. `changes` override fields of each `dist`."""
        versions = {}
        for version, tarball in tarballs.items():
            path = f"/@openfn/language-{name}/-/language-{name}-{version}.tgz"
            self.responses[path] = RegistryResponse(tarball)
            versions[version] = {
                "dist": {"tarball": self.url + path, "integrity": integrity(tarball), **changes},
                "name": name,
            }
        metadata = {"name": name, "dist-tags": {"latest": list(tarballs)[-1]}, "versions": versions}
        self.responses[f"/@openfn%2Flanguage-{name}"] = RegistryResponse(msgspec.json.encode(metadata))

    @property
    def tarballs(self) -> list[str]:
        """File names of the requested tarballs."""
        return [path.rsplit("/", 1)[-1] for path in self.requests if path.endswith(".tgz")]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            self.requests.append(path)
            if self.gate:
                await self.gate.wait()
            answer = self.responses.get(path, RegistryResponse(b"no such thing", 404))
            headers = {"Content-Length": str(len(answer.body)), "Connection": "close", **answer.headers}
            lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            writer.write(answer.body[:-1] if answer.hangs else answer.body)
            await writer.drain()
            if answer.hangs:
                await reader.read()  # Until the client disconnects.
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def run_registry() -> AsyncIterator[FakeRegistry]:
    """Run a registry."""
    registry = FakeRegistry()
    tasks = set[asyncio.Task[None]]()

    def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(registry._serve(reader, writer)))

    server = await asyncio.start_server(on_connect, "127.0.0.1", 0)
    registry.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield registry
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content)
