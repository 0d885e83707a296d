"""Parse a curl call into the request that it makes."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_LOCAL_HOSTS = ("localhost:8642", "127.0.0.1:8642")


class CurlRequest(NamedTuple):
    method: str
    host: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes | None

    @property
    def is_local(self) -> bool:
        """Whether it goes to the server of the docs."""
        return self.host in _LOCAL_HOSTS

    @property
    def target(self) -> str:
        return self.path + (f"?{self.query}" if self.query else "")


def parse_curl(arguments: Sequence[str], folder: Path) -> CurlRequest:
    """Return the request that curl would send. Raises SystemExit for an option that no page uses so far."""
    parser = argparse.ArgumentParser(prog="curl", add_help=False)
    parser.add_argument("url")
    parser.add_argument("-s", "-N", "-i", "--no-buffer", "--fail", action="store_true")
    parser.add_argument("-X", "--request")
    parser.add_argument("-o", "--output")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("-d", "--data", "--json", "--data-binary")
    options = parser.parse_args(arguments)
    url = urlsplit(options.url if "://" in options.url else f"http://{options.url}")
    headers = {name.lower(): value.strip() for name, _, value in (header.partition(":") for header in options.header)}
    if "--json" in arguments:
        headers |= {"content-type": "application/json", "accept": "application/json"}
    body: bytes | None = None
    if options.data is not None:
        headers.setdefault("content-type", "application/x-www-form-urlencoded")
        body = (folder / options.data[1:]).read_bytes() if options.data.startswith("@") else options.data.encode()
    method = options.request or ("GET" if body is None else "POST")
    return CurlRequest(method, url.netloc, unquote(url.path) or "/", url.query, headers, body)
