"""A first conversation: write, send and read an answer."""

from playwright.async_api import Page, expect

from tests.e2e.playground import cell, messages, send_message, take_screenshots, wait_for_answer


async def test_a_message_is_answered_in_its_cell(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    await send_message(page, "Well, hello there")

    first = cell(page, 1)
    await wait_for_answer(first, "Well, hello there")
    await expect(messages(first)).to_have_count(2)
    await take_screenshots(page, "first-answer")
