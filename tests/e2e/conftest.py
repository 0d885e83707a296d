"""Fixtures: a server with the built page, and a browser limited to loopback."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright, expect

from tests import chromium
from tests.e2e.page_monitor import PageMonitor
from tests.server_process import ServerProcess, server_process

PAGE = Path(__file__).parents[2] / "src" / "palaver" / "web" / "index.html"
FLOWS = Path(__file__).parent / "flows.py"
LAPTOP: ViewportSize = {"width": 1280, "height": 800}

expect.set_options(timeout=60_000)  # Generous, for a busy machine.


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder of the built page."""
    assert PAGE.exists(), "The page is not built: make src/palaver/web/index.html"
    return PAGE.parent


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`palaver serve` with chats and workflows, and a database in a file."""
    folder = tmp_path_factory.mktemp("site")
    with server_process(folder, FLOWS.read_text("utf-8"), db=str(folder / "palaver.db")) as server:
        yield server


# Per module: tests elsewhere count the tasks of the event loop, and Playwright has some.
@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Chromium with a temporary profile."""
    try:
        program = chromium.program()
    except chromium.Unavailable as error:
        pytest.skip(str(error))
    async with async_playwright() as playwright:
        options = [*chromium.OPTIONS, *chromium.LOOPBACK_ONLY]
        browser = await playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        await browser.close()


@pytest.fixture
async def watch(context: BrowserContext) -> PageMonitor:
    """Records errors and requests of the test's pages; `watch.forgive` removes an expected error."""
    watch = PageMonitor()
    await watch.follow(context)
    return watch


@pytest.fixture
async def context(browser: Browser, site: ServerProcess) -> AsyncIterator[BrowserContext]:
    """A new browser context with a laptop's viewport."""
    context = await browser.new_context(base_url=site.url, viewport=LAPTOP, reduced_motion="reduce", locale="en-GB")
    context.set_default_timeout(60_000)
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext, watch: PageMonitor) -> AsyncIterator[Page]:
    """A tab; the test fails on errors, CSP violations and requests to other hosts."""
    page = await context.new_page()
    yield page
    assert watch.faults == []
    assert watch.foreign == []
