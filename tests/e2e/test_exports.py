"""Threads and boards in the sidebar: export, rename, pin, search and delete."""

import json
import re
from pathlib import Path

from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import cell, messages, send_message, take_screenshot, wait_for_answer

MENU = "Thread menu"


def threads(page: Page) -> Locator:
    """The list of threads."""
    return page.get_by_role("region", name="Threads")


def boards(page: Page) -> Locator:
    """The list of boards."""
    return page.get_by_role("region", name="Boards")


def list_row(container: Locator, title: str) -> Locator:
    """One thread or board of a list."""
    return container.get_by_role("listitem").filter(has_text=title)


async def choose_menu_item(container: Locator, label: str, item: str) -> None:
    """Choose an item of a row's menu."""
    await container.hover()
    await container.get_by_role("button", name=label).click()
    await container.page.get_by_role("menuitem", name=item, exact=True).click()


async def send_and_wait(page: Page, text: str) -> None:
    """Have a conversation whose thread gets `text` as its title."""
    await page.goto("/play?workflow=scripted")
    await send_message(page, text)
    await wait_for_answer(cell(page, 1), text)
    await expect(list_row(threads(page), text)).to_be_visible()


async def export_thread(page: Page, title: str, item: str, folder: Path) -> Path:
    """Export a thread and return the downloaded file."""
    async with page.expect_download() as download:
        await choose_menu_item(list_row(threads(page), title), MENU, item)
    file = await download.value
    path = folder / file.suggested_filename
    await file.save_as(path)
    return path


async def test_a_thread_is_exported_in_three_formats(page: Page, browser: Browser, tmp_path: Path) -> None:
    await send_and_wait(page, "Export <b>me</b> & keep me")
    title = "Export <b>me</b>"

    all_branches = await export_thread(page, title, "All branches (JSON Lines)", tmp_path)
    lines = [json.loads(text) for text in all_branches.read_text("utf-8").splitlines()]
    assert all_branches.suffixes == [".jsonl"]
    assert sum("Export <b>me</b> & keep me" in json.dumps(one) for one in lines) >= 1

    messages_only = await export_thread(page, title, "Messages (JSON Lines)", tmp_path)
    assert messages_only.suffixes == [".messages", ".jsonl"]
    assert "keep me" in messages_only.read_text("utf-8")

    html_file = await export_thread(page, title, "Web page (HTML)", tmp_path)
    assert html_file.suffixes == [".html"]
    urls: list[str] = []
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    context.on("request", lambda request: urls.append(request.url))
    export_page = await context.new_page()
    await export_page.goto(html_file.as_uri())
    await expect(export_page.locator("body")).to_contain_text("Export <b>me</b> & keep me")
    await expect(export_page.locator("b")).to_have_count(0)
    await take_screenshot(export_page, "exported")
    await context.close()
    assert urls == [html_file.as_uri()]


async def test_a_thread_is_renamed_pinned_and_deleted(page: Page) -> None:
    await send_and_wait(page, "A thread among others")
    await send_and_wait(page, "The second thread")
    await choose_menu_item(list_row(threads(page), "A thread among others"), MENU, "Rename")
    await page.get_by_role("dialog").get_by_role("textbox", name="Title").fill("Renamed")
    await page.keyboard.press("Enter")
    await expect(list_row(threads(page), "Renamed")).to_be_visible()
    await expect(list_row(threads(page), "A thread among others")).to_have_count(0)

    await choose_menu_item(list_row(threads(page), "Renamed"), MENU, "Pin")
    await expect(threads(page).get_by_role("heading", name="Pinned")).to_be_visible()
    await expect(threads(page).get_by_role("listitem").first).to_contain_text("Renamed")
    await take_screenshot(page, "pinned")
    await page.reload()
    await expect(threads(page).get_by_role("listitem").first).to_contain_text("Renamed")
    await choose_menu_item(list_row(threads(page), "Renamed"), MENU, "Unpin")
    await expect(threads(page).get_by_role("heading", name="Pinned")).to_have_count(0)

    await choose_menu_item(list_row(threads(page), "Renamed"), MENU, "Delete")
    cancel = page.get_by_role("dialog", name="Delete this thread?").get_by_role("button", name="Cancel")
    await expect(cancel).to_be_focused()
    await cancel.click()
    await expect(list_row(threads(page), "Renamed")).to_be_visible()
    await choose_menu_item(list_row(threads(page), "Renamed"), MENU, "Delete")
    await page.get_by_role("dialog", name="Delete this thread?").get_by_role("button", name="Delete").click()
    await expect(list_row(threads(page), "Renamed")).to_have_count(0)
    await page.reload()
    await expect(list_row(threads(page), "The second thread")).to_be_visible()
    await expect(list_row(threads(page), "Renamed")).to_have_count(0)


async def test_threads_are_found_by_the_text_of_their_messages(page: Page) -> None:
    await send_and_wait(page, "About marmalade")
    await send_message(page, "and the kumquat in it")
    await wait_for_answer(cell(page, 1), "and the kumquat in it")
    await send_and_wait(page, "About nothing")

    await page.get_by_role("searchbox", name="Search threads").fill("kumquat")
    await expect(list_row(threads(page), "About nothing")).to_have_count(0)
    await list_row(threads(page), "About marmalade").click()
    await expect(messages(cell(page, 1)).nth(2)).to_contain_text("and the kumquat in it")
    await page.get_by_role("button", name="Clear search").click()
    await expect(list_row(threads(page), "About nothing")).to_be_visible()


async def test_a_thread_that_is_deleted_while_it_is_shown_leaves_an_empty_cell(page: Page, watch: PageMonitor) -> None:
    await send_and_wait(page, "Here today")
    await choose_menu_item(list_row(threads(page), "Here today"), MENU, "Delete")
    await page.get_by_role("dialog", name="Delete this thread?").get_by_role("button", name="Delete").click()
    await expect(messages(cell(page, 1))).to_have_count(0)
    await send_message(page, "Here again")
    await wait_for_answer(cell(page, 1), "Here again")
    await expect(list_row(threads(page), "Here again")).to_be_visible()
    watch.forgive("404")  # The cell requested the deleted thread.


async def test_a_board_is_renamed_and_deleted_and_its_threads_stay(page: Page, watch: PageMonitor) -> None:
    await send_and_wait(page, "On a board of its own")
    name = page.get_by_role("textbox", name="Board name")
    await name.fill("First name")
    await expect(list_row(boards(page), "First name")).to_be_visible()
    await choose_menu_item(list_row(boards(page), "First name"), "Board menu", "Rename")
    await page.get_by_role("dialog").get_by_role("textbox", name="Name").fill("Second name")
    await page.keyboard.press("Enter")
    await expect(list_row(boards(page), "Second name")).to_be_visible()
    await expect(name).to_have_value("Second name")

    await choose_menu_item(list_row(boards(page), "Second name"), "Board menu", "Delete")
    await page.get_by_role("dialog", name="Delete this board?").get_by_role("button", name="Delete").click()
    await expect(list_row(boards(page), "Second name")).to_have_count(0)
    await expect(page).not_to_have_url(re.compile(r"/play/brd_\w+$"))
    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()

    await page.reload()
    await list_row(threads(page), "On a board of its own").click()
    await expect(page).to_have_url(re.compile(r"/play/conv_\w+"))
    await expect(messages(cell(page, 1))).to_have_count(2)
