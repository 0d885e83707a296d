"""Single-turn mode: rows of inputs, a column per variant, and a chat used as a completion."""

import re
from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.e2e.playground import cell, messages, send_message, take_screenshot, take_screenshots, wait_for_answer

TEXT_FIELD = re.compile(r"^text\b")


def row(page: Page, number: int) -> Locator:
    """A row of the table, counted from 1; the heads are its first row."""
    return page.get_by_role("table", name="Rows and answers").get_by_role("row").nth(number)


def output(page: Page, number: int, column: int = 1) -> Locator:
    """The output of a column for a row."""
    return row(page, number).get_by_role("cell").nth(column - 1)


async def fill_rows(page: Page, *texts: str) -> None:
    """Fill in the rows, adding as many as needed."""
    for number, text in enumerate(texts, 1):
        if number > 1:
            await page.get_by_role("button", name="Add row").first.click()
        await row(page, number).get_by_role("textbox", name=TEXT_FIELD).fill(text)


async def wait_for_progress(page: Page, words: str) -> None:
    """Wait until the progress bar shows `words`."""
    await expect(page.get_by_role("progressbar", name="Cells done")).to_have_attribute("aria-valuetext", words)


async def get_board(page: Page) -> dict[str, Any]:
    """Return the board of the current URL, as the server stored it."""
    await expect(page).to_have_url(re.compile(r"/play/brd_\w+"))
    name = re.findall(r"brd_\w+", page.url)[0]
    return await (await page.request.get(f"/api/boards/{name}")).json()


async def test_rows_are_run_and_failed_ones_can_be_rerun(page: Page) -> None:
    await page.goto("/play?workflow=shout")
    await fill_rows(page, "hello", "wide world", "  ")
    await page.get_by_role("button", name="Run all").click()

    await wait_for_progress(page, "3 of 3 done, 1 failed")
    await expect(output(page, 1)).to_contain_text("HELLO")
    await expect(output(page, 2)).to_contain_text("WIDE WORLD")
    await expect(output(page, 3).get_by_role("alert")).to_contain_text("There is nothing to shout.")
    await take_screenshots(page, "single-turn")

    await row(page, 3).get_by_role("textbox", name=TEXT_FIELD).fill("again")
    await page.get_by_role("button", name="More run options").click()
    await page.get_by_role("menuitem", name="Run failed cells").click()
    await wait_for_progress(page, "3 of 3 done")
    await expect(output(page, 3)).to_contain_text("AGAIN")
    await expect(output(page, 3).get_by_role("alert")).to_have_count(0)

    stored_board = await get_board(page)
    runs = await (await page.request.get("/api/runs", params={"board": stored_board["id"]})).json()
    assert len(runs["data"]) == 4  # Three, and the one that had failed.

    await page.reload()
    await wait_for_progress(page, "3 of 3 done")
    for number, (input_text, output_text) in enumerate(
        (("hello", "HELLO"), ("wide world", "WIDE WORLD"), ("again", "AGAIN")), 1
    ):
        await expect(row(page, number).get_by_role("textbox", name=TEXT_FIELD)).to_have_value(input_text)
        await expect(output(page, number)).to_contain_text(output_text)


async def test_columns_are_compared_word_by_word(page: Page) -> None:
    await page.goto("/play?workflow=shout")
    await fill_rows(page, "hear me")
    await page.get_by_role("button", name="Add variant").click()
    await page.get_by_role("menuitem", name="Duplicate shout").click()
    await page.get_by_role("button", name=re.compile("^Parameters")).last.click()
    await page.get_by_role("textbox", name="times").fill("2")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Run all").click()
    await wait_for_progress(page, "2 of 2 done")
    await expect(output(page, 1, 2)).to_contain_text("HEAR ME HEAR ME")

    await page.get_by_role("combobox", name="Compare").select_option(label="with 1: shout")
    await expect(output(page, 1, 2).locator("ins")).to_have_text([re.compile(r"^\s*HEAR ME\s*$")])
    await expect(output(page, 1, 1).locator("ins, del")).to_have_count(0)
    await take_screenshots(page, "single-turn-compared")

    await page.get_by_role("button", name="Run row 1", exact=True).click()  # New answers are compared as well.
    await wait_for_progress(page, "2 of 2 done")
    await page.reload()
    await expect(output(page, 1, 2).locator("ins")).to_have_count(1)
    await page.get_by_role("combobox", name="Compare").select_option(label="Off")
    await expect(output(page, 1, 2).locator("ins")).to_have_count(0)


async def test_rows_are_pasted_as_a_table_or_as_json_lines(page: Page) -> None:
    await page.goto("/play?workflow=headline")
    await row(page, 1).get_by_role("textbox", name=TEXT_FIELD).fill("The first row was typed.")
    await page.get_by_role("button", name="Paste rows").click()
    rows = page.get_by_role("textbox", name="Rows")
    await rows.fill("text,colour\nA rose,red")
    await expect(page.get_by_role("dialog")).to_contain_text("Unknown input “colour”")
    await rows.fill('text,words\n"A cat, a dog and a hen went out.",3\nIt rained all day long.,\n')
    await expect(page.get_by_role("dialog")).to_contain_text("2 rows: text, words")
    await take_screenshot(page, "paste-rows")
    await page.get_by_role("button", name="Add 2 rows").click()

    await page.get_by_role("button", name="Paste rows").click()
    await rows.fill('{"text": "Lines of JSON come in too."}\n{"text": "And more of them.", "words": 2}')
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)

    await expect(row(page, 5).get_by_role("textbox", name=TEXT_FIELD)).to_have_value("And more of them.")
    await expect(row(page, 5).get_by_role("textbox", name="words")).to_have_value("2")
    await page.get_by_role("button", name="More run options").click()
    await page.get_by_role("menuitem", name="Run empty cells").click()
    await wait_for_progress(page, "5 of 5 done")
    await expect(output(page, 2)).to_contain_text("Cat", ignore_case=True)
    await expect(output(page, 3)).to_contain_text("Rained", ignore_case=True)


async def test_a_row_is_run_by_keyboard_copied_and_deleted(page: Page) -> None:
    await page.goto("/play?workflow=shout")
    await row(page, 1).get_by_role("textbox", name=TEXT_FIELD).fill("quick")
    await page.keyboard.press("Control+Enter")
    await expect(output(page, 1)).to_contain_text("QUICK")

    await page.get_by_role("button", name="More actions for row 1").click()
    await page.get_by_role("menuitem", name="Duplicate row").click()
    await expect(row(page, 2).get_by_role("textbox", name=TEXT_FIELD)).to_have_value("quick")
    await wait_for_progress(page, "1 of 2 done")
    await page.get_by_role("button", name="More actions for row 1").click()
    await page.get_by_role("menuitem", name="Delete row").click()
    await expect(row(page, 2)).to_have_count(0)
    await expect(output(page, 1)).not_to_contain_text("QUICK")  # The copy has not been run.


async def test_a_batch_is_cancelled(page: Page) -> None:
    await page.goto("/play?workflow=tutor")
    await page.get_by_role("radio", name="Single-turn").click()
    await row(page, 1).get_by_role("textbox", name="Message 1").fill("Why?")
    await page.get_by_role("button", name="Run all").click()
    await expect(output(page, 1)).to_contain_text("word3 ")
    await page.get_by_role("button", name="Cancel", exact=True).click()

    await wait_for_progress(page, "1 of 1 done, 1 failed")
    await expect(output(page, 1)).to_contain_text("Stopped")
    await expect(output(page, 1)).not_to_contain_text("done.")


async def test_switching_between_chat_and_single_turn_loses_nothing(page: Page) -> None:
    await page.goto("/play?workflow=scripted")
    await send_message(page, "A turn of a chat")
    await wait_for_answer(cell(page, 1), "A turn of a chat")
    before = await get_board(page)

    await page.get_by_role("radio", name="Single-turn").click()
    await row(page, 1).get_by_role("textbox", name="Message 1").fill("Asked once")
    await page.get_by_role("button", name="Run row 1", exact=True).click()
    await expect(output(page, 1)).to_contain_text("Asked once")
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "1 of 1 done")
    await take_screenshot(page, "completion")

    await page.get_by_role("radio", name="Chat").click()
    await expect(messages(cell(page, 1))).to_have_count(2)
    await expect(messages(cell(page, 1)).last).to_contain_text("A turn of a chat")
    await page.get_by_role("radio", name="Single-turn").click()
    await expect(output(page, 1)).to_contain_text("Asked once")
    async with page.expect_response(lambda answer: answer.request.method == "PUT"):
        await page.get_by_role("radio", name="Chat").click()

    await page.reload()
    await expect(messages(cell(page, 1))).to_have_count(2)
    await send_message(page, "And a second")
    await wait_for_answer(cell(page, 1), "And a second")
    await expect(messages(cell(page, 1))).to_have_count(4)
    after = await get_board(page)
    assert after["cells"][0]["thread"] == before["cells"][0]["thread"]
    assert after["cells"][0]["run"] is not None
    assert (after["mode"], after["columns"]) == (before["mode"], before["columns"])


async def test_text_typed_just_before_a_reload_is_saved(page: Page) -> None:
    await page.goto("/play?workflow=shout")
    await fill_rows(page, "first")
    await page.keyboard.press("Control+Enter")
    await expect(output(page, 1)).to_contain_text("FIRST")
    await row(page, 1).get_by_role("textbox", name=TEXT_FIELD).fill("first and last")
    await page.reload()
    await expect(row(page, 1).get_by_role("textbox", name=TEXT_FIELD)).to_have_value("first and last")
