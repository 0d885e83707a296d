"""The tutorial of the docs works as written, including what its reader does in the browser; also takes its pictures."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.docs.walkthrough import Reader, walkthrough_pages
from tests.e2e import review_guide
from tests.e2e.conftest import LAPTOP
from tests.e2e.playground import cell, send_message, take_docs_picture, wait_for_answer

PAGES = walkthrough_pages(in_browser=True)


async def chat(page: Page) -> None:
    await page.goto("/")
    await send_message(page, "When are you open?")
    await wait_for_answer(cell(page, 1), "We are open Monday to Saturday, 9:00 to 18:00.")
    await expect(page.get_by_role("region", name="Threads")).to_contain_text("When are you open?")
    await take_docs_picture(page, "first-workflow")


async def compare(page: Page) -> None:
    await page.goto("/evaluations")
    await page.get_by_role("main").get_by_role("link", name="questions").first.click()
    await page.get_by_role("button", name="Compare with…").click()
    await page.get_by_role("dialog", name="Compare").get_by_role("button", name="Compare", exact=True).click()
    await expect(page.get_by_role("region", name="Verdicts")).to_contain_text("contains")
    await take_docs_picture(page, "first-evaluation")


def trace_rows(page: Page) -> Locator:
    return page.get_by_role("grid").locator("[data-place]")


async def save(page: Page) -> None:
    await page.goto("/traces")
    await page.get_by_role("searchbox", name="Search", exact=True).fill("back from the repair")
    await expect(trace_rows(page)).to_have_count(1)
    await trace_rows(page).get_by_role("link", name="shop").click()
    await page.get_by_role("button", name="Add to test set").click()
    dialog = page.get_by_role("dialog", name="Add to test set")
    await expect(dialog.get_by_role("combobox", name="Test set").locator("option:checked")).to_have_text(
        "questions (8 rows)"
    )
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await page.get_by_role("dialog", name="Added to test set").get_by_role("button", name="Open test set").click()
    await page.get_by_role("gridcell", name="You can return a bike within 30 days.").click()
    editor = page.get_by_role("dialog", name="expected, row 9")
    await editor.get_by_role("textbox", name="Text of message 1").fill("two days")
    await editor.get_by_role("button", name="Apply").click()
    await page.get_by_role("region", name="Unsaved changes").get_by_role("button", name="Save").click()
    await expect(page.get_by_role("region", name="Unsaved changes")).to_have_count(0)


async def span(page: Page) -> None:
    await page.goto("/traces")
    await expect(trace_rows(page).first).to_contain_text("When do I get my bike back")
    await trace_rows(page).first.get_by_role("link", name="shop").click()
    await page.get_by_role("treeitem", name="find_answers").click()
    await expect(page.get_by_role("article", name="Span")).to_contain_text("A repair takes two days.")
    await take_docs_picture(page, "first-trace")


STEPS: dict[str, Callable[[Page], Coroutine[Any, Any, None]]] = {
    "chat": chat,
    "compare": compare,
    "save": save,
    "span": span,
    **review_guide.STEPS,
}
"""What the reader does in the browser, by the names in the pages."""


@pytest.fixture
def reader(built: Path, tmp_path: Path) -> Iterator[Reader]:
    with Reader(tmp_path / "you") as reader:
        yield reader


@pytest.fixture
async def context(browser: Browser, reader: Reader) -> AsyncIterator[BrowserContext]:
    """A browser for the server that the reader starts."""
    url = f"http://localhost:{reader.port('8642')}"
    context = await browser.new_context(base_url=url, viewport=LAPTOP, reduced_motion="reduce", locale="en-GB")
    yield context
    await context.close()


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_works_as_written(name: str, reader: Reader, page: Page) -> None:
    loop = asyncio.get_running_loop()

    async def do_step(step: str) -> None:
        await STEPS[step](page)
        await page.goto("about:blank")  # The server may be restarted before the next step.

    reader.browse = lambda step: asyncio.run_coroutine_threadsafe(do_step(step), loop).result()
    for previous in PAGES[name]:
        await asyncio.to_thread(reader.follow, previous)
