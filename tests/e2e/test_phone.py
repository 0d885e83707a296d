"""On a phone: the drawer, a conversation, rows and settings fit and can be used by touch."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.e2e.playground import cell, cells, messages, overflow, send_message, take_screenshot, wait_for_answer
from tests.server_process import ServerProcess

LONG_WORD = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverleihung" * 3


@pytest.fixture
async def context(browser: Browser, site: ServerProcess) -> AsyncIterator[BrowserContext]:
    """A visitor with a phone."""
    context = await browser.new_context(
        base_url=site.url,
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        reduced_motion="reduce",
        locale="en-GB",
    )
    context.set_default_timeout(20_000)
    yield context
    await context.close()


async def assert_fits(page: Page, name: str) -> None:
    """Check that nothing overflows and take a screenshot."""
    assert await overflow(page) <= 0, name
    await take_screenshot(page, f"phone-{name}")


async def test_a_conversation_fits_and_the_drawer_opens_other_pages(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    await send_message(page, f"{LONG_WORD}\n\n| a | b |\n|---|---|\n| {LONG_WORD} | 2 |\n\n```\n{LONG_WORD}\n```")
    await wait_for_answer(cell(page, 1), "Donaudampfschifffahrt")
    await expect(messages(cell(page, 1))).to_have_count(2)
    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_in_viewport()
    await assert_fits(page, "conversation")

    await page.get_by_role("button", name="Menu", exact=True).tap()
    drawer = page.get_by_role("dialog", name="Menu")
    await expect(drawer.get_by_role("listitem").filter(has_text="Donau").first).to_be_visible()
    await assert_fits(page, "drawer")
    await drawer.get_by_role("link", name="Workflows").tap()
    await expect(page.get_by_role("heading", name="Workflows", exact=True)).to_be_visible()
    await expect(drawer).to_have_count(0)
    await assert_fits(page, "workflows")

    await page.get_by_role("button", name="Menu", exact=True).tap()
    await drawer.get_by_role("listitem").filter(has_text="Donau").last.get_by_role("link").tap()
    await expect(drawer).to_have_count(0)
    await expect(messages(cell(page, 1))).to_have_count(2)
    await page.get_by_role("button", name="Menu", exact=True).tap()
    await drawer.get_by_role("button", name="Hide sidebar").tap()
    await expect(drawer).to_have_count(0)
    await page.get_by_role("button", name="New chat").tap()
    await expect(messages(cell(page, 1))).to_have_count(0)


async def test_two_variants_can_be_scrolled_through(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    await page.get_by_role("button", name="Add variant").tap()
    await page.get_by_role("menuitem", name="Duplicate scripted").tap()
    await expect(cells(page)).to_have_count(2)
    await send_message(page, "Both of you")
    await wait_for_answer(cell(page, 1, 1), "Both of you")
    await wait_for_answer(cell(page, 1, 2), "Both of you")
    await assert_fits(page, "two-variants")
    await cell(page, 1, 2).scroll_into_view_if_needed()
    await expect(cell(page, 1, 2)).to_be_in_viewport(ratio=0.9)
    await assert_fits(page, "second-variant")


async def test_rows_fit_and_can_be_filled_run_and_compared(page: Page) -> None:
    await page.goto("/play?workflow=headline")
    for _ in range(2):
        await page.get_by_role("button", name="Add row").first.tap()
    fields = page.get_by_role("textbox", name="text")
    await expect(fields).to_have_count(3)
    for index in range(3):
        await fields.nth(index).fill(f"{LONG_WORD} was written {index + 1} times.")
    for index in range(3):
        await expect(fields.nth(index)).to_have_value(f"{LONG_WORD} was written {index + 1} times.")
    await page.get_by_role("button", name="Run all").tap()
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "3 of 3 done")
    await page.get_by_role("button", name="More actions for row 1").scroll_into_view_if_needed()
    await assert_fits(page, "rows")
    await page.get_by_role("button", name="Add variant").tap()
    await page.get_by_role("menuitem", name="shout", exact=True).tap()
    await page.get_by_role("button", name="Run all").tap()
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "6 of 6 done")
    await page.get_by_role("combobox", name="Compare").select_option(index=1)
    await assert_fits(page, "rows-compared")


async def test_forms_and_settings_fit(page: Page) -> None:
    for path in ("/settings", "/workflows/tutor", "/workflows/headline", "/play/no/where"):
        await page.goto(path)
        await expect(page.get_by_role("main").get_by_role("heading").first).to_be_visible()
        await assert_fits(page, path.strip("/").replace("/", "-"))
    await page.goto("/workflows")
    await page.get_by_role("button", name="Connect a service").tap()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await assert_fits(page, "connect")
