"""Large volumes: long threads, long answers and six streams, without blocking the main thread."""

import asyncio

import httpx
from playwright.async_api import Page, expect

from tests.e2e.page_load import LONG_THREAD, scroll_up
from tests.e2e.playground import (
    cell,
    messages,
    open_six_cells,
    record_figure,
    send_message,
    take_screenshot,
    wait_for_answer,
    wait_until_idle,
)
from tests.server_process import ServerProcess

# The browser's definition of a long task: 50 ms in which no input is handled.
LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longTasks.push(Math.round(task.duration));
}).observe({type: 'longtask', buffered: false});
"""


async def take_long_tasks(page: Page) -> list[int]:
    """Return the durations (ms) of the long tasks since the last call, longest first."""
    long_tasks: list[int] = await page.evaluate("window.longTasks.splice(0)")
    return sorted(long_tasks, reverse=True)


async def test_two_thousand_messages_can_be_scrolled(page: Page, site: ServerProcess) -> None:
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as http:
        thread = (await http.post("/api/threads", json=LONG_THREAD)).json()["id"]
    await page.goto(f"/play/{thread}")
    await expect(messages(cell(page, 1)).last).to_contain_text("Message 1999")
    await page.evaluate(LONG_TASKS)

    await scroll_up(page, to=1701)  # Through three hundred messages.
    await expect(messages(cell(page, 1)).filter(has_text="Message 1701")).to_have_count(1)
    tasks = await take_long_tasks(page)
    record_figure("long tasks while scrolling 2,000 messages, ms", max(tasks, default=0))
    assert max(tasks, default=0) < 5_000  # A wide watchdog; the figure is what we look at.

    await page.get_by_role("button", name="Scroll to end").click()
    await expect(messages(cell(page, 1)).last).to_be_in_viewport()
    await take_screenshot(page, "two-thousand-messages")


async def test_ten_thousand_deltas_leave_the_page_responsive(page: Page) -> None:
    await page.goto("/play?workflow=hasty")
    await page.evaluate(LONG_TASKS)
    await send_message(page, "Go")
    field = page.get_by_role("textbox", name="Message", exact=True)
    await expect(messages(cell(page, 1)).last).to_contain_text("Paragraph 3")
    await field.fill("typed meanwhile")
    await expect(field).to_have_value("typed meanwhile")

    await wait_for_answer(cell(page, 1), "The end.")

    tasks = await take_long_tasks(page)
    record_figure("long tasks in an answer of 10,000 deltas, ms", max(tasks, default=0))
    assert max(tasks, default=0) < 5_000  # A wide watchdog; the figure is what we look at.
    await expect(messages(cell(page, 1)).last).to_contain_text("piece 9999")


async def test_six_streams_keep_the_main_thread_free(page: Page) -> None:
    await open_six_cells(page)
    await send_message(page, "Talk")
    await expect(messages(cell(page, 3, 2)).last).to_contain_text("word5")
    await page.evaluate(LONG_TASKS)
    await asyncio.sleep(2)

    tasks = await take_long_tasks(page)
    record_figure("long tasks of six streams, ms", max(tasks, default=0))
    assert max(tasks, default=0) < 5_000  # A wide watchdog; the figure is what we look at.
    await page.get_by_role("button", name="Stop all").click()
    await wait_until_idle(page.locator("main"))
