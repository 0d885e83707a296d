"""The settings page: choices for this browser, and the settings of the server."""

import re

from playwright.async_api import Page, expect

from tests.e2e.playground import cell, messages, take_screenshots, wait_until_idle


async def test_a_theme_is_chosen_and_survives_a_reload(page: Page) -> None:
    html = page.locator("html")
    await page.goto("/settings")
    await expect(html).to_have_attribute("data-theme", "light")
    await page.emulate_media(color_scheme="dark")
    await expect(html).to_have_attribute("data-theme", "dark")  # The system is followed.
    await page.emulate_media(color_scheme="light")

    themes = page.get_by_role("group", name="Theme")
    await themes.get_by_role("button", name="Dark").click()
    await expect(html).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(html).to_have_attribute("data-theme", "dark")
    await expect(themes.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    await page.goto("/play")
    await expect(html).to_have_attribute("data-theme", "dark")

    await page.goto("/settings")
    await themes.get_by_role("button", name="System").click()
    await expect(html).to_have_attribute("data-theme", "light")
    await take_screenshots(page, "settings")


async def test_the_key_that_sends_a_message_can_be_chosen(page: Page) -> None:
    await page.goto("/settings")
    await page.get_by_role("group", name="Send messages with").get_by_role("button", name="Ctrl + Enter").click()
    await page.goto("/play?workflow=scripted")
    field = page.get_by_role("textbox", name="Message", exact=True)
    await field.fill("one")
    await field.press("Enter")
    await field.press_sequentially("two")
    await expect(field).to_have_value("one\ntwo")
    await field.press("Control+Enter")
    await expect(messages(cell(page, 1)).last).to_contain_text(re.compile(r"one\s+two"), use_inner_text=True)
    await wait_until_idle(cell(page, 1))


async def test_server_settings_are_shown_and_browser_settings_can_be_cleared(page: Page) -> None:
    await page.goto("/settings")
    await page.get_by_role("group", name="Theme").get_by_role("button", name="Dark").click()
    main = page.locator("main")
    await expect(main.get_by_role("listitem").filter(has_text="db")).to_contain_text("environment")
    await page.get_by_role("group", name="Settings filter").get_by_role("button", name="All").click()
    await expect(main.get_by_role("listitem").filter(has_text="max_file").first).to_be_visible()
    await expect(main).to_contain_text("SQLite, schema")

    await page.reload()
    await page.get_by_role("button", name="Clear").click()
    await page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert await page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('palaver.'))") == []
