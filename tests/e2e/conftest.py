"""A server with the built page, and a browser that sees nothing but this machine."""

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

expect.set_options(timeout=60_000)  # A busy machine may take its time; what is right is seen at once.


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder of the page as it was built."""
    assert PAGE.exists(), "The page is not built: make src/palaver/web/index.html"
    return PAGE.parent


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`palaver serve` with chats and workflows, and a database in a file."""
    folder = tmp_path_factory.mktemp("site")
    with server_process(folder, FLOWS.read_text("utf-8"), db=str(folder / "palaver.db")) as server:
        yield server


# For a module, not for the session: tests elsewhere count the tasks of their loop, and Playwright has some.
@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Debian's chromium, with a profile of its own that goes with it."""
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
    """What the pages of this test did; `watch.forgive` takes back a fault that was meant."""
    watch = PageMonitor()
    await watch.follow(context)
    return watch


@pytest.fixture
async def context(browser: Browser, site: ServerProcess) -> AsyncIterator[BrowserContext]:
    """A new visitor, with a laptop; paths are the site's."""
    context = await browser.new_context(base_url=site.url, viewport=LAPTOP, reduced_motion="reduce", locale="en-GB")
    context.set_default_timeout(60_000)
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext, watch: PageMonitor) -> AsyncIterator[Page]:
    """A tab that must not fail, break the page's policy or ask another host."""
    page = await context.new_page()
    yield page
    assert watch.faults == []
    assert watch.foreign == []
