"""Turns: run again, edit, switch branches, fork, rate, delete; failures and approvals."""

import re

from playwright.async_api import Locator, Page, expect

from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import cell, messages, send_message, take_screenshot, take_screenshots, wait_for_answer


async def click_button(message: Locator, name: str | re.Pattern[str]) -> None:
    """Click a button below a message; the buttons appear on hover."""
    await message.hover()
    await message.get_by_role("button", name=name).click()


async def talk(page: Page, *texts: str) -> Locator:
    """Have a conversation with the echoing workflow."""
    await page.goto("/play?workflow=scripted")
    chat_cell = cell(page, 1)
    for number, text in enumerate(texts, 1):
        await send_message(page, text)
        await expect(messages(chat_cell)).to_have_count(2 * number)
        await wait_for_answer(chat_cell, text)
    return chat_cell


async def test_regenerating_a_middle_turn_keeps_both_branches(page: Page) -> None:
    chat_cell = await talk(page, "one", "two", "three")

    await click_button(messages(chat_cell).nth(3), "Regenerate")
    await expect(messages(chat_cell)).to_have_count(4)
    await wait_for_answer(chat_cell, "two")
    await expect(messages(chat_cell).nth(3)).to_contain_text("2/2")
    await take_screenshot(page, "versions")

    await click_button(messages(chat_cell).nth(3), "Previous version")
    await expect(messages(chat_cell)).to_have_count(6)
    await expect(messages(chat_cell).last).to_contain_text("three")
    await expect(messages(chat_cell).nth(3)).to_contain_text("1/2")

    await page.reload()
    await expect(messages(chat_cell)).to_have_count(6)


async def test_editing_a_question_adds_a_branch(page: Page) -> None:
    chat_cell = await talk(page, "one", "two")

    await click_button(messages(chat_cell).nth(0), "Edit")
    await messages(chat_cell).nth(0).get_by_role("textbox").fill("uno")
    await page.keyboard.press("Enter")

    await wait_for_answer(chat_cell, "uno")
    await expect(messages(chat_cell)).to_have_count(2)
    await click_button(messages(chat_cell).nth(0), "Previous version")
    await expect(messages(chat_cell)).to_have_count(4)
    await expect(messages(chat_cell).nth(0)).to_contain_text("one")


async def test_deleting_a_message_keeps_the_following_ones(page: Page) -> None:
    chat_cell = await talk(page, "one", "two")

    await click_button(messages(chat_cell).nth(1), "More")
    await page.get_by_role("menuitem", name="Delete").click()
    await expect(messages(chat_cell)).to_have_count(3)
    await page.reload()
    await expect(messages(chat_cell)).to_have_count(3)


async def test_forking_creates_a_separate_thread(page: Page) -> None:
    chat_cell = await talk(page, "one", "two")
    await click_button(messages(chat_cell).nth(1), "More")
    await page.get_by_role("menuitem", name="Fork into a new thread").click()

    await expect(page).to_have_url(re.compile(r"/play/conv_\w+"))
    await expect(messages(cell(page, 1))).to_have_count(2)
    await send_message(page, "three")
    await wait_for_answer(cell(page, 1), "three")
    await expect(messages(cell(page, 1))).to_have_count(4)


async def test_a_thumbs_up_is_stored_as_feedback(page: Page) -> None:
    chat_cell = await talk(page, "rate me")
    await click_button(messages(chat_cell).last, re.compile("Good|Up|up"))
    await page.keyboard.press("Escape")
    await page.reload()
    await expect(messages(chat_cell)).to_have_count(2)

    feedback = await (await page.request.get("/api/feedback")).json()
    assert [row["rating"] for row in feedback["data"]] == ["up"]


async def test_a_failure_is_shown_and_can_be_retried(page: Page) -> None:
    await page.goto("/play?workflow=failing")
    await send_message(page, "Try this")
    chat_cell = cell(page, 1)
    await expect(chat_cell.get_by_role("alert")).to_contain_text("The model went away.")
    await expect(chat_cell).to_contain_text("So far so good.")
    await take_screenshots(page, "failure")

    await page.reload()
    await expect(chat_cell.get_by_role("alert")).to_contain_text("The model went away.")
    await chat_cell.get_by_role("button", name="Retry").click()

    await wait_for_answer(chat_cell, "And now it works.")
    await expect(chat_cell.get_by_role("alert")).to_have_count(0)
    await expect(messages(chat_cell)).to_have_count(2)


async def test_a_tool_call_waits_for_approval(page: Page) -> None:
    await page.goto("/play?workflow=keeper")
    await send_message(page, "Delete my notes")
    chat_cell = cell(page, 1)
    await expect(chat_cell).to_contain_text("delete_file")
    await take_screenshots(page, "approval")

    await page.reload()
    await chat_cell.get_by_role("button", name="Approve").click()
    await wait_for_answer(chat_cell, "It is deleted.")

    await send_message(page, "Once more")
    await chat_cell.get_by_role("button", name="Deny").click()
    await wait_for_answer(chat_cell, "I left it alone.")
    await page.reload()
    await expect(messages(chat_cell).last).to_contain_text("I left it alone.")


async def test_a_message_can_be_added_in_another_role(page: Page, watch: PageMonitor) -> None:
    await page.goto("/play?workflow=scripted")
    await page.get_by_role("combobox", name="Role").select_option("System")
    await page.get_by_role("textbox", name="Message", exact=True).fill("Be brief.")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(messages(cell(page, 1))).to_have_count(1)
    await send_message(page, "Hello")
    await wait_for_answer(cell(page, 1), "Hello")
    await expect(messages(cell(page, 1))).to_have_count(3)
    await page.reload()
    await expect(messages(cell(page, 1)).first).to_contain_text("Be brief.")
