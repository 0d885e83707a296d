"""The documentation site at /docs: pages, files, missing paths, policy, and that it is public."""

import base64
import gzip
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.docs_site import DocsSite
from palaver.server.settings import Settings
from palaver.testing import client, echo, in_process_transport
from tests.server.keyed_server import keyed_server

SCRIPT = "var base = new URL('.', location);"
FRONT_PAGE = f"<!doctype html><script>{SCRIPT}</script><script src='assets/bundle.js'></script><h1>Palaver</h1>"
GUIDE = "<!doctype html><h1>Guide</h1>"
NOT_FOUND_PAGE = '<!doctype html><script src="/__DOCS__/assets/bundle.js"></script><h1>Not found</h1>'
BUNDLE = b"export const search = 1;\n"


@pytest.fixture
def docs_folder(tmp_path: Path) -> Path:
    """The folder of a built site, next to a file that it must not serve."""
    folder = tmp_path / "docs_site"
    (folder / "guides" / "langgraph").mkdir(parents=True)
    (folder / "assets").mkdir()
    (folder / "index.html").write_text(FRONT_PAGE, "utf-8")
    (folder / "index.html.gz").write_bytes(gzip.compress(FRONT_PAGE.encode()))
    (folder / "404.html").write_text(NOT_FOUND_PAGE, "utf-8")
    (folder / "guides" / "langgraph" / "index.html").write_text(GUIDE, "utf-8")
    (folder / "assets" / "bundle.js").write_bytes(BUNDLE)
    (folder / "search.json").write_text("{}", "utf-8")
    (tmp_path / "secret.txt").write_text("swordfish", "utf-8")
    return folder


@asynccontextmanager
async def docs_client(folder: Path, *, root_path: str = "") -> AsyncIterator[httpx.AsyncClient]:
    server = Server(Registry([echo]), Settings(root_path=root_path))
    server.docs_site = DocsSite(folder, root_path=root_path)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        yield http
    await server.close()


def policy(scripts: str = "", styles: str = " 'unsafe-inline'") -> str:
    return (
        f"default-src 'none'; script-src 'self'{scripts}; style-src 'self'{styles}; style-src-attr 'unsafe-inline';"
        " img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    )


async def test_pages_end_with_a_slash_and_files_do_not(docs_folder: Path) -> None:
    async with docs_client(docs_folder) as http:
        front, guide = await http.get("/docs/"), await http.get("/docs/guides/langgraph/")
        redirects = [await http.get(path) for path in ("/docs", "/docs/guides/langgraph")]
        file = await http.get("/docs/search.json")

    assert (front.status_code, front.text, guide.text) == (200, FRONT_PAGE, GUIDE)
    assert front.headers["content-type"] == "text/html; charset=utf-8"
    assert [(answer.status_code, answer.headers["location"]) for answer in redirects] == [
        (307, "/docs/"),
        (307, "/docs/guides/langgraph/"),
    ]
    assert (file.status_code, file.headers["content-type"], file.text) == (200, "application/json", "{}")


async def test_redirects_keep_the_path_prefix(docs_folder: Path) -> None:
    async with docs_client(docs_folder, root_path="/base") as http:
        redirect = await http.get("/base/docs/guides/langgraph")
        missing = await http.get("/base/docs/guides/none/", headers={"accept": "text/html"})

    assert redirect.headers["location"] == "/base/docs/guides/langgraph/"
    assert missing.text == NOT_FOUND_PAGE.replace("/__DOCS__", "/base/docs")


async def test_a_page_may_run_exactly_its_own_inline_scripts(docs_folder: Path) -> None:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    async with docs_client(docs_folder) as http:
        front, guide, file = [await http.get(f"/docs/{path}") for path in ("", "guides/langgraph/", "assets/bundle.js")]
        changed = FRONT_PAGE.replace(SCRIPT, "alert(1)")
        (docs_folder / "index.html").write_text(changed, "utf-8")
        (docs_folder / "index.html.gz").write_bytes(gzip.compress(changed.encode()))
        rebuilt = await http.get("/docs/")

    other_digest = base64.b64encode(hashlib.sha256(b"alert(1)").digest()).decode()
    assert front.headers["content-security-policy"] == policy(f" 'sha256-{digest}'")
    assert guide.headers["content-security-policy"] == policy()
    assert file.headers["content-security-policy"] == policy(styles="")
    assert (rebuilt.text, rebuilt.headers["content-security-policy"]) == (changed, policy(f" 'sha256-{other_digest}'"))


async def test_pages_are_revalidated_and_hashed_files_are_kept(docs_folder: Path) -> None:
    async with docs_client(docs_folder) as http:
        page, file = await http.get("/docs/"), await http.get("/docs/assets/bundle.js")
        again = await http.get("/docs/", headers={"if-none-match": page.headers["etag"]})

    assert (page.headers["cache-control"], page.headers["content-encoding"]) == ("no-cache", "gzip")
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (again.status_code, again.content) == (304, b"")


async def test_missing_and_unnormalized_paths_are_refused(docs_folder: Path) -> None:
    async with docs_client(docs_folder) as http:
        names = ("none", "assets", "%2e%2e/secret.txt", "/index.html")
        answers = [await http.get(f"/docs/{name}") for name in names]

    assert [answer.status_code for answer in answers] == [404, 404, 400, 400]
    assert [answer.json()["error"]["code"] for answer in answers[:2]] == ["not_found", "not_found"]


async def test_browsers_get_a_page_for_a_missing_path(docs_folder: Path) -> None:
    async with docs_client(docs_folder) as http:
        answer = await http.get("/docs/none/", headers={"accept": "text/html,*/*"})

    assert (answer.status_code, answer.text) == (404, NOT_FOUND_PAGE.replace("/__DOCS__", "/docs"))
    assert answer.headers["content-security-policy"] == policy()


async def test_without_a_built_site_the_error_says_how_to_build_it() -> None:
    async with client(echo) as http:
        answer = await http.get("/docs/")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert "make docs" in answer.json()["error"]["message"]


async def test_the_site_is_public_on_a_server_with_keys(docs_folder: Path) -> None:
    async with keyed_server() as backend:
        await backend.create_key("read")
        backend.server.docs_site = DocsSite(docs_folder)
        statuses = [(await backend.http.get(path)).status_code for path in ("/docs/", "/docs/search.json", "/traces")]

    assert statuses == [200, 200, 401]
