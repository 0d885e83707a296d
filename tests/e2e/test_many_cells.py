"""Three threads and two variants: six independent answers at once."""

import re

from playwright.async_api import Page, expect

from tests.e2e.playground import (
    cell,
    cells,
    messages,
    open_six_cells,
    send_message,
    stop_answer,
    take_screenshots,
    wait_until_idle,
)


async def test_six_cells_answer_at_once_and_one_can_be_stopped(page: Page) -> None:
    await open_six_cells(page)
    await send_message(page, "Why?")

    for index in range(6):
        await expect(messages(cells(page).nth(index)).last).to_contain_text("word3")
    await expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(6)

    second = cell(page, 1, 2)
    await stop_answer(second)
    await wait_until_idle(second)
    await expect(messages(second).last).to_contain_text("Stopped")
    await expect(messages(second).last).not_to_contain_text("done.")
    for index in (0, 2, 3, 4, 5):
        await expect(messages(cells(page).nth(index)).last).to_contain_text("done.")
    await wait_until_idle(page.locator("main"))
    await expect(messages(second).last).not_to_contain_text("done.")
    await take_screenshots(page, "six-cells")


async def test_a_message_can_be_sent_to_one_thread_or_one_cell(page: Page) -> None:
    await open_six_cells(page)
    await cell(page, 2).click()
    await page.get_by_role("combobox", name="Send to").select_option("Send to this thread")
    await send_message(page, "Only row two")
    await expect(messages(cell(page, 2, 2)).last).to_contain_text("word2")
    await page.get_by_role("button", name="Stop all").click()
    await wait_until_idle(page.locator("main"))

    await cell(page, 3, 2).click()
    await page.get_by_role("combobox", name="Send to").select_option("Send to this cell")
    await send_message(page, "Only the last")
    await expect(messages(cell(page, 3, 2)).last).to_contain_text("word2")
    await stop_answer(cell(page, 3, 2))
    await wait_until_idle(page.locator("main"))

    message_counts = [await messages(cells(page).nth(index)).count() for index in range(6)]
    assert message_counts == [0, 0, 2, 2, 0, 2]


async def test_columns_differ_by_their_parameters_and_rows_by_their_inputs(page: Page) -> None:
    await page.goto("/play?workflow=tutor")
    await page.get_by_role("button", name=re.compile("^Inputs")).click()
    await page.get_by_role("textbox", name="subject", exact=True).fill("physics")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Add variant").click()
    await page.get_by_role("menuitem", name="Duplicate tutor").click()
    await page.get_by_role("button", name=re.compile("^Parameters")).last.click()
    await page.get_by_role("textbox", name="words", exact=True).fill("3")
    await page.get_by_role("textbox", name="Variant name").fill("brief")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("combobox", name="Variant").last).to_have_value("brief")
    await page.keyboard.press("Escape")

    await send_message(page, "Hm?")
    await expect(messages(cell(page, 1, 2)).last).to_contain_text("On physics, you said 'Hm?': word0 word1 word2 done.")
    await expect(messages(cell(page, 1, 1)).last).to_contain_text("On physics, you said 'Hm?': word0 word1 word2 word3")
