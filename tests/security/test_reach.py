"""S1: who can reach the server, and what a web page can do."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from palaver.server.routing import OTLP_ROUTES, PAGE_SEGMENTS, SERVER_ROUTES, WORKFLOW_ROUTES
from palaver.testing import client, echo, scripted
from tests.server_process import ServerProcess, raw_status, send_raw, server_process

ROUTES = [
    "/",
    *(f"/{name}" for name in SERVER_ROUTES),
    *(f"/echo/{name}" for name in WORKFLOW_ROUTES),
    "/api/workflows",
    "/nothing",
]
ROUTES += ["/assets/a.js", *(f"/{name}" for name in OTLP_ROUTES), *(f"/{page}" for page in sorted(PAGE_SEGMENTS))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("reach")) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client(echo, scripted) as opened:
        yield opened


def test_public_host_is_refused_without_keys(tmp_path: Path) -> None:  # S1.1
    refusal = "no valid API key found in the in-memory database"
    with pytest.raises(AssertionError, match=refusal), server_process(tmp_path, host="0.0.0.0"):
        pass


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "localhost.evil.example", "127.0.0.1:1"])
def test_unknown_host_is_answered_with_421_on_every_route(server: ServerProcess, route: str, host: str) -> None:  # S1.2
    answer = send_raw(server.port, f"GET {route} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())

    assert raw_status(answer) == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
@pytest.mark.parametrize("with_port", [True, False])
def test_loopback_host_names_are_accepted(server: ServerProcess, host: str, with_port: bool) -> None:  # S1.2
    host_header = f"{host}:{server.port}" if with_port else host

    assert raw_status(send_raw(server.port, f"GET /health HTTP/1.1\r\nHost: {host_header}\r\n\r\n".encode())) == 200


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"]])
def test_missing_or_repeated_host_header_is_rejected(server: ServerProcess, hosts: list[str]) -> None:  # S1.2
    lines = "".join(f"Host: {host}\r\n" for host in hosts)

    assert raw_status(send_raw(server.port, f"GET /health HTTP/1.1\r\n{lines}\r\n".encode())) == 400


def test_allowed_host_is_accepted(tmp_path: Path) -> None:
    with server_process(tmp_path, allowed_hosts="palaver.test, other.test") as running:
        assert raw_status(send_raw(running.port, b"GET /health HTTP/1.1\r\nHost: palaver.test\r\n\r\n")) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://localhost:1"},
    ],
)
async def test_cross_origin_posts_and_preflights_are_rejected(
    http: httpx.AsyncClient, headers: dict[str, str]
) -> None:  # S1.3
    posted = await http.post("/echo/invoke", json={"inputs": {}}, headers=headers)
    preflight = await http.options("/echo/invoke", headers={**headers, "access-control-request-method": "POST"})

    assert posted.status_code == 403
    assert posted.json()["status"]["type"] == "foreign_origin"
    assert preflight.status_code == 403  # S1.5
    assert not [name for name in {**posted.headers, **preflight.headers} if name.startswith("access-control-")]


async def test_same_origin_and_allowed_origins_are_accepted(http: httpx.AsyncClient) -> None:  # S1.3
    same_origin = await http.post("/echo/invoke", json={"inputs": {}}, headers={"origin": "http://localhost"})
    async with client(echo, allowed_origins=("https://app.example",)) as other:
        allowed = await other.post("/echo/invoke", json={"inputs": {}}, headers={"origin": "https://app.example"})

    assert (same_origin.status_code, allowed.status_code) == (200, 200)


@pytest.mark.parametrize("route", ["/echo/invoke", "/echo/run", "/echo/test", "/echo/inspect"])
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None]
)
async def test_content_types_that_a_form_can_post_are_rejected(
    http: httpx.AsyncClient, route: str, kind: str | None
) -> None:
    headers = {"content-type": kind} if kind else {}  # S1.4

    answer = await http.post(route, content=b'{"inputs": {}}', headers=headers)

    assert answer.status_code == 415


PATH_VARIANTS = [
    "/%2e%2e{}",
    "/.{}",
    "/..{}",
    "/{}%2f",
    "/%2f{}",
    "//{}",
    "{}//",
    "{};a=b",
    "{}.",
    "{}%00",
    "\\{}",
    "{}%5c",
    "/%2565cho{}",
]


@pytest.mark.parametrize("route", [route for route in ROUTES if route not in ("/", "/nothing")])
@pytest.mark.parametrize("trick", PATH_VARIANTS)
def test_alternative_spellings_of_a_path_are_rejected(server: ServerProcess, route: str, trick: str) -> None:  # S1.7
    path = trick.format(route if trick.startswith("{") else route.removeprefix("/") if "/{}" in trick else route)

    answer = send_raw(server.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    assert raw_status(answer) in (400, 404), (path, answer[:200])


def test_root_path_allows_no_alternative_spellings(tmp_path: Path) -> None:  # S1.7
    with server_process(tmp_path, root_path="/base") as running:
        statuses = {
            path: raw_status(send_raw(running.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()))
            for path in (
                "/base/health",
                "/health",
                "/base/base/health",
                "/basehealth",
                "/base/../health",
                "/base%2fhealth",
            )
        }

    assert statuses == {
        "/base/health": 200,
        "/health": 200,
        "/base/base/health": 404,
        "/basehealth": 404,
        "/base/../health": 400,
        "/base%2fhealth": 400,
    }


async def test_forwarded_headers_are_ignored_by_default(http: httpx.AsyncClient) -> None:  # S1.6
    headers = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https", "forwarded": "host=evil.example"}

    page = await http.get("/", headers=headers)

    assert "evil" not in page.text
