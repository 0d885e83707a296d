"""A first conversation: write, send, read."""

from playwright.async_api import Page, expect

from tests.e2e.playing import answered, cell, messages, send, shots


async def test_a_message_is_answered_in_its_cell(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    await send(page, "Well, hello there")

    first = cell(page, 1)
    await answered(first, "Well, hello there")
    await expect(messages(first)).to_have_count(2)
    await shots(page, "first-answer")
