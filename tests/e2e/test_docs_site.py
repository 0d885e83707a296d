"""The documentation site in the browser: opened from the page, searched, and free of errors."""

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.e2e.page_load import first_paint
from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import take_screenshot, take_screenshots
from tests.e2e.test_keyboard import FIND_UNNAMED_CONTROLS

DOCS = Path(__file__).parents[2] / "src" / "palaver" / "docs_site"
PAGES = sorted(
    path.parent.relative_to(DOCS).as_posix()
    for path in DOCS.glob("*/**/index.html")
    if path.relative_to(DOCS).parts[0] != "decisions"
)

pytestmark = pytest.mark.usefixtures("built_docs")


@pytest.fixture(scope="module")
def built_docs() -> None:
    assert PAGES, "The documentation is not built: make docs"


async def test_the_sidebar_opens_the_docs(page: Page) -> None:
    await page.goto("/workflows")
    link = page.get_by_role("link", name="Docs")
    async with page.context.expect_page() as opened:
        await link.click()
    docs = await opened.value
    await expect(docs.get_by_role("heading", level=1)).to_contain_text("Palaver")
    assert docs.url.endswith("/docs/")

    await page.bring_to_front()
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("docs")
    async with page.context.expect_page() as opened:
        await page.get_by_role("option", name="Docs", exact=True).click()
    assert (await opened.value).url.endswith("/docs/")


async def test_the_front_page_is_drawn_before_the_search_is_loaded(page: Page) -> None:
    await page.goto("/docs/")
    assert await first_paint(page) < 10_000  # A second on an idle machine; benchmarks measure it.
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await take_screenshots(page, "docs")


@pytest.mark.parametrize(
    ("query", "heading"),
    [
        ("LangGraph", "Serve a LangGraph agent"),
        ("api key", "API keys"),
        ("retention", "Retention"),
        ("regression", "Fix the regression"),
    ],
)
async def test_the_search_finds_what_people_look_for(query: str, heading: str, page: Page) -> None:
    await page.goto("/docs/guides/authoring/")
    await page.keyboard.press("/")
    await expect(page.get_by_role("combobox", name="Search")).to_be_focused()  # What is typed before that is lost.
    await page.keyboard.type(query)
    results = page.get_by_role("listbox", name="Search results").get_by_role("option")
    await expect(results.filter(has=page.get_by_role("heading", name=heading)).first).to_be_visible()
    await take_screenshot(page, f"docs-search-{query.replace(' ', '-')}")


async def test_every_page_has_no_errors_and_passes_the_accessibility_check(page: Page) -> None:
    faults: dict[str, list[str]] = {}
    for path in PAGES:
        await page.goto(f"/docs/{path}/")
        await expect(page.get_by_role("heading", level=1)).to_have_count(1)
        if found := await page.evaluate(FIND_UNNAMED_CONTROLS):
            faults[path] = found

    assert faults == {}


async def test_a_missing_page_leads_back_to_the_docs(page: Page, watch: PageMonitor) -> None:
    response = await page.goto("/docs/guides/none/")
    assert response is not None
    assert response.status == 404
    await page.get_by_role("link", name="Palaver").first.click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Palaver")
    watch.forgive("404")
