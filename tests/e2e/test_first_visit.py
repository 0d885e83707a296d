"""The first page load: security headers, size, speed, and no requests to other hosts."""

import re
from pathlib import Path

import httpx
from playwright.async_api import Browser, Page, expect

from tests.e2e.conftest import LAPTOP
from tests.e2e.page_load import asset_names, first_paint, first_view_sizes
from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import record_figure, take_screenshots
from tests.server_process import ServerProcess, server_process

MAX_FIRST_VIEW_BYTES = 350_000
"""Limit for the first view, compressed with gzip."""


def test_the_document_has_security_headers_and_no_cache(site: ServerProcess) -> None:
    answer = httpx.get(f"{site.url}/play/some/where", trust_env=False)

    nonce = re.search(r'nonce="([^"]+)"', answer.text)
    assert nonce is not None
    assert answer.status_code == 200
    assert {name: answer.headers.get(name) for name in CHECKED_HEADERS} == {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-cache",
        "content-security-policy": (
            f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce[1]}';"
            " style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self';"
            " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
    }
    assert "__ROOT__" not in answer.text
    assert "__NONCE__" not in answer.text
    assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text), "a script of the document's own"


CHECKED_HEADERS = (
    "content-type",
    "cache-control",
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "cross-origin-opener-policy",
)


def test_each_page_load_has_a_new_nonce(site: ServerProcess) -> None:
    nonces = {re.findall(r'nonce="([^"]+)"', httpx.get(site.url, trust_env=False).text)[0] for _ in range(3)}

    assert len(nonces) == 3


def test_assets_are_compressed_and_cached_as_immutable(site: ServerProcess) -> None:
    with httpx.Client(base_url=site.url, trust_env=False) as client:
        names = asset_names(client.get("/").text)
        answers = {name: client.get(f"/{name}", headers={"accept-encoding": "gzip, br"}) for name in names}
        conditional_response = client.get(f"/{names[0]}", headers={"if-none-match": answers[names[0]].headers["etag"]})

    assert {Path(name).suffix for name in names} == {".js", ".css", ".svg"}
    for name, answer in answers.items():
        assert (name, answer.status_code, answer.headers["content-encoding"]) == (name, 200, "gzip")
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert conditional_response.status_code == 304


def test_the_first_view_is_small(built: Path) -> None:
    sizes = first_view_sizes(built)

    record_figure("first view, bytes gzip'd", sum(sizes.values()))
    assert sum(sizes.values()) < MAX_FIRST_VIEW_BYTES, sizes


def test_the_build_contains_no_local_paths_and_no_foreign_urls(built: Path) -> None:
    """No path of the build machine and no URL that the page could request; URLs in it are only names and links."""
    for path in built.rglob("*"):
        if path.suffix in (".js", ".css", ".html", ".svg"):
            text = path.read_text("utf-8")
            assert str(Path.home()) + "/" not in text, path
            assert not re.search(r"(?:import|fetch|WebSocket|importScripts)\(\s*[\"'`](?:https?|wss?)://", text), path
            assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", text), path
            assert "sourceMappingURL" not in text, path


async def test_first_paint_and_loaded_assets_stay_within_their_limits(
    page: Page, watch: PageMonitor, built: Path
) -> None:
    await page.goto("/")
    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
    await expect(page.get_by_role("region", name="Tour")).to_have_count(0)  # Only the demo has a tour.

    first_paint_ms = await first_paint(page)
    record_figure("first contentful paint, ms", round(first_paint_ms))
    # A watchdog; the goal is one second on an idle machine.
    assert first_paint_ms < 20_000
    assert {answer.status for answer in watch.answers} <= {101, 200}
    fetched = {match[1] for url in watch.requests if (match := re.search(r"/(assets/.+)$", url))}
    assert sum((built / f"{name}.gz").stat().st_size for name in fetched) < MAX_FIRST_VIEW_BYTES, fetched
    await take_screenshots(page, "first-visit")


async def test_the_page_works_below_a_path_prefix(browser: Browser, tmp_path: Path) -> None:
    with server_process(tmp_path, root_path="/tools/palaver") as server:
        context = await browser.new_context(viewport=LAPTOP)
        watch = PageMonitor()
        await watch.follow(context)
        page = await context.new_page()
        # A proxy removes the prefix; without one, the server accepts paths with and without it.
        await page.goto(server.url)
        await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible(timeout=20_000)
        await context.close()

    assert watch.faults == []
    site_root = f"{server.url.removesuffix('/')}/"
    page_requests = [url for url in watch.requests if not url.startswith(("data:", "blob:"))]
    assert [url for url in page_requests if "/tools/palaver" not in url] == [], site_root
