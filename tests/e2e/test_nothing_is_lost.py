"""Reloads, second tabs and lost connections: running answers continue."""

import re
import signal
from pathlib import Path

from playwright.async_api import BrowserContext, Page, expect

from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import cell, messages, send_message, take_screenshot, wait_for_answer, wait_until_idle
from tests.server_process import ServerProcess

BOARD_URL = re.compile(r"/play/brd_\w+")


async def test_a_running_answer_continues_after_a_reload(page: Page) -> None:
    await page.goto("/play?workflow=tutor")
    await send_message(page, "Go on")
    await expect(messages(cell(page, 1)).last).to_contain_text("word5 ")
    await expect(page).to_have_url(BOARD_URL)

    await page.reload()
    await expect(messages(cell(page, 1)).last).to_contain_text("word9 ")
    await wait_for_answer(cell(page, 1), "word199 done.")
    await expect(messages(cell(page, 1))).to_have_count(2)
    answer_text = await messages(cell(page, 1)).last.inner_text()
    assert re.findall(r"word\d+", answer_text) == [f"word{number}" for number in range(200)]


async def test_stop_works_after_a_reload(page: Page) -> None:
    await page.goto("/play?workflow=tutor")
    await send_message(page, "Go on")
    await expect(messages(cell(page, 1)).last).to_contain_text("word5 ")
    await page.reload()
    await expect(messages(cell(page, 1)).last).to_contain_text("word9 ")

    await cell(page, 1).get_by_role("button", name="Stop", exact=True).click()

    await wait_until_idle(cell(page, 1))
    await expect(messages(cell(page, 1)).last).to_contain_text("Stopped")
    await expect(messages(cell(page, 1)).last).not_to_contain_text("done.")


async def test_two_tabs_show_the_same_run(page: Page, context: BrowserContext) -> None:
    await page.goto("/play?workflow=tutor")
    await send_message(page, "First")
    await expect(page).to_have_url(BOARD_URL)
    other = await context.new_page()
    await other.goto(page.url)

    await expect(messages(cell(other, 1)).last).to_contain_text("word5 ")
    await wait_for_answer(cell(other, 1), "done.")
    await wait_for_answer(cell(page, 1), "done.")

    await send_message(other, "Second")
    await expect(messages(cell(page, 1)).nth(2)).to_contain_text("Second")
    await wait_for_answer(cell(page, 1), "you said 'Second'")
    await expect(messages(cell(page, 1))).to_have_count(4)
    await take_screenshot(page, "second-tab")


async def test_a_restarted_server_still_has_the_conversation(
    page: Page, watch: PageMonitor, tmp_path: Path, site: ServerProcess
) -> None:
    from tests.e2e.conftest import FLOWS
    from tests.server_process import server_process

    with server_process(tmp_path, FLOWS.read_text("utf-8"), db=str(tmp_path / "own.db")) as first:
        await page.goto(f"{first.url}/play?workflow=eliza")
        await send_message(page, "I feel fine")
        await wait_for_answer(cell(page, 1), re.compile(r"\w"))
        answer_text = await messages(cell(page, 1)).last.inner_text()
        path = page.url.removeprefix(first.url)
        first.stop(signal.SIGKILL)
    with server_process(tmp_path, FLOWS.read_text("utf-8"), db=str(tmp_path / "own.db")) as restarted:
        await page.goto(f"{restarted.url}{path}")
        await expect(messages(cell(page, 1))).to_have_count(2)
        assert (await messages(cell(page, 1)).last.inner_text()).split("\n")[0] == answer_text.split("\n")[0]
        await page.goto("about:blank")
    watch.faults.clear()  # The browser reports that the first server is unreachable, as expected.
