"""The built web page: one document for every path of the page, and its assets."""

import gzip
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from palaver.discovery.registry import Registry
from palaver.server import web
from palaver.server.app import Server
from palaver.server.routing import PAGE_SEGMENTS
from palaver.server.settings import Settings
from palaver.testing import client, echo, in_process_transport
from tests.server.keyed_server import keyed_server

INDEX = '<!doctype html><meta name="palaver-root" content="/__ROOT__"><script src="/__ROOT__/assets/a-1.js"></script>'
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
SCRIPT = b"export const answer = 42;\n"


@pytest.fixture
def web_folder(tmp_path: Path) -> Path:
    """The folder of a built web app."""
    assets = tmp_path / "web" / "assets"
    assets.mkdir(parents=True)
    (assets.parent / "index.html").write_text(INDEX, encoding="utf-8")
    (assets / "a-1.js").write_bytes(SCRIPT)
    (assets / "a-1.js.gz").write_bytes(gzip.compress(SCRIPT))
    (assets / "a-1.js.br").write_bytes(b"brotli of it")
    (assets / "plain-2.css").write_bytes(b"body{}")
    (assets / "alone.gz").write_bytes(b"not a sibling")
    (tmp_path / "secret.txt").write_text("swordfish", encoding="utf-8")
    return assets.parent


@asynccontextmanager
async def web_client(web: Path | None, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    server = Server(Registry([echo]), Settings(**settings), web=web)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        yield http
    await server.close()


async def test_every_page_path_returns_the_same_document(web_folder: Path) -> None:
    expected = INDEX.replace("/__ROOT__", "")
    async with web_client(web_folder) as http:
        answers = [
            await http.get(path) for path in ("/", "/play/brd_1?cell=r1.c1", *(f"/{page}" for page in PAGE_SEGMENTS))
        ]
        head = await http.head("/play")
        posted = await http.post("/play", json={})

    assert {(answer.status_code, answer.text) for answer in answers} == {(200, expected)}
    assert {answer.headers["cache-control"] for answer in answers} == {"no-cache"}
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(expected)), b"")
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")


async def test_the_login_does_not_preload_data_that_needs_a_key(web_folder: Path) -> None:
    preload = '<link rel="preload" as="fetch" crossorigin="anonymous" href="/__ROOT__/api/bootstrap" />'
    (web_folder / "index.html").write_text(f"{INDEX}{preload}<p>", encoding="utf-8")
    async with web_client(web_folder, root_path="/base") as http:
        page, login = await http.get("/base/play"), await http.get("/base/login?next=/play")

    document = INDEX.replace("/__ROOT__", "/base")
    assert page.text == f"{document}{preload.replace('/__ROOT__', '/base')}<p>"
    assert login.text == f"{document}<p>"


async def test_pages_and_assets_have_the_security_headers(web_folder: Path) -> None:
    async with web_client(web_folder) as http:
        answers = [await http.get(path) for path in ("/", "/login", "/assets/a-1.js", "/assets/plain-2.css")]

    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"


async def test_every_response_has_a_new_nonce_in_both_header_and_document(web_folder: Path) -> None:
    (web_folder / "index.html").write_text('<meta property="csp-nonce" nonce="__NONCE__">', encoding="utf-8")
    async with web_client(web_folder) as http:
        answers = [await http.get("/"), await http.get("/")]

    in_document = [re.findall(r'nonce="([\w-]{20,})"', answer.text) for answer in answers]
    in_header = [
        re.findall(r"style-src 'self' 'nonce-([\w-]+)';", answer.headers["content-security-policy"])
        for answer in answers
    ]
    assert in_document == in_header
    assert in_document[0] != in_document[1]
    assert not any("etag" in answer.headers for answer in answers)


async def test_the_root_path_is_the_prefix_of_every_url_in_the_document(web_folder: Path) -> None:
    async with web_client(web_folder, root_path="/base") as http:
        with_prefix, without_prefix = await http.get("/base/play/x"), await http.get("/play/x")
        file = await http.get("/base/assets/plain-2.css")

    assert with_prefix.text == without_prefix.text == INDEX.replace("/__ROOT__", "/base")
    assert file.text == "body{}"


@pytest.mark.parametrize(
    ("accepted", "encoding", "body"),
    [
        ("gzip, deflate, br, zstd", "br", b"brotli of it"),
        ("gzip;q=0.8, br;q=0", "gzip", SCRIPT),
        ("GZIP", "gzip", SCRIPT),
        ("identity", None, SCRIPT),
        ("br;q=0.0, gzip; q=0", None, SCRIPT),
        ("", None, SCRIPT),
    ],
)
async def test_an_asset_is_sent_in_an_encoding_that_the_browser_accepts(
    web_folder: Path, accepted: str, encoding: str | None, body: bytes
) -> None:
    async with (
        web_client(web_folder) as http,
        http.stream("GET", "/assets/a-1.js", headers={"accept-encoding": accepted}) as answer,
    ):
        raw = b"".join([piece async for piece in answer.aiter_raw()])

    assert (gzip.decompress(raw) if encoding == "gzip" else raw) == body
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_an_asset_with_a_matching_etag_is_304(web_folder: Path) -> None:
    async with web_client(web_folder) as http:
        first = await http.get("/assets/plain-2.css")
        again = await http.get("/assets/plain-2.css", headers={"if-none-match": f'"x", W/{first.headers["etag"]}'})
        packed = await http.get("/assets/a-1.js", headers={"if-none-match": first.headers["etag"]})

    assert "vary" not in first.headers
    assert (again.status_code, again.content, "content-length" in again.headers) == (304, b"", False)
    assert again.headers["etag"] == first.headers["etag"]
    assert packed.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/assets",
        "/assets/",
        "/assets/nothing.js",
        "/assets/a-1.js.gz",
        "/assets/a-1.js/",
        "/assets/../index.html",
        "/assets/%2e%2e/index.html",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/....//secret.txt",
        "/assets//a-1.js",
        "/assets/a-1.js%00",
        "/assets/a-1.js;x",
        "/assets/\\..\\secret.txt",
        "/index.html",
        "/secret.txt",
        "/play/../secret.txt",
    ],
)
async def test_no_spelling_of_a_path_returns_another_file(web_folder: Path, path: str) -> None:
    server = Server(Registry([echo]), web=web_folder)
    answers: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        answers.append(message)

    scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(b"host", b"localhost")], "server": ("localhost", 80)}

    async def receive() -> dict[str, object]:
        raise AssertionError

    await server(scope, receive, send)  # type: ignore[arg-type]
    await server.close()

    expected = (200,) if path == "/assets/a-1.js/" else (400, 404)
    assert answers[0]["status"] in expected
    assert b"swordfish" not in bytes(answers[-1].get("body", b""))  # type: ignore[call-overload]


async def test_a_deleted_asset_is_not_found(web_folder: Path) -> None:
    async with web_client(web_folder) as http:
        (web_folder / "assets" / "plain-2.css").unlink()
        answer = await http.get("/assets/plain-2.css")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_a_rebuilt_page_is_served_without_a_restart(web_folder: Path) -> None:
    async with web_client(web_folder) as http:
        (web_folder / "assets" / "b-3.js").write_bytes(b"new")
        index = web_folder / "index.html"
        index.write_text("new", encoding="utf-8")
        os.utime(index, ns=(1, 1))
        shown, file = await http.get("/play"), await http.get("/assets/b-3.js")

    assert (shown.text, file.text) == ("new", "new")


async def test_a_deleted_page_is_still_served(web_folder: Path) -> None:
    """The plain page lists the served workflows, so it must not replace a public page."""
    async with web_client(web_folder) as http:
        (web_folder / "index.html").unlink()
        shown = await http.get("/")

    assert shown.text == INDEX.replace("/__ROOT__", "")


async def test_without_a_built_web_app_only_the_plain_page_is_served() -> None:
    async with client(echo) as http:
        plain, page, file = await http.get("/"), await http.get("/play"), await http.get("/assets/a.js")

    assert plain.text.endswith("<p>The playground is not built. Run <code>make demo</code> to build it.</p></html>")
    assert (page.status_code, file.status_code) == (404, 404)


async def test_with_keys_the_page_is_public_and_the_data_is_not(web_folder: Path) -> None:
    async with keyed_server() as backend:
        await backend.create_key("read")
        plain = await backend.http.get("/")
        backend.server.pages = web.WebPages(web_folder, backend.server.registry)
        open_to_all = [await backend.http.get(path) for path in ("/", "/play/x", "/login", "/assets/a-1.js")]
        data = [await backend.http.get(path) for path in ("/api/bootstrap", "/api/workflows", "/openapi.json")]

    assert plain.status_code == 401
    assert [answer.status_code for answer in open_to_all] == [200, 200, 200, 200]
    assert [answer.status_code for answer in data] == [401, 401, 401]
