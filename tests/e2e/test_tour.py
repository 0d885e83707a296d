"""The tour of the demo: every step is done as its text says and is ticked off; also takes its pictures."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.docs.pages import DOCS, blocks
from tests.e2e.evaluations import wait_for_state
from tests.e2e.playground import (
    cell,
    cells,
    messages,
    overflow,
    send_message,
    take_docs_picture,
    take_screenshot,
    take_screenshots,
    wait_for_answer,
)
from tests.server_process import ServerProcess, demo_process

HOLIDAY_ANSWER = "What would it change if you had a holiday?"
HIDE_TOUR = """localStorage.setItem('palaver.tour', '{"look": "away", "done": []}')"""
PAGE = (DOCS / "get-started" / "tour.md").read_text("utf-8")


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`palaver demo`, filled."""
    port = ("--port", "8642") if os.environ.get("PALAVER_PICTURES") else ()  # The port in the docs, which must be free.
    with demo_process(tmp_path_factory.mktemp("tour"), *port) as server:
        yield server


def tour(page: Page) -> Locator:
    """The checklist; on a phone it is in the menu."""
    return page.get_by_role("region", name="Tour", exact=True)


async def open_link(page: Page, link: str) -> None:
    """Follow the link of the step that is open."""
    await tour(page).get_by_role("link", name=link).click()


async def expect_ticked(page: Page, count: int) -> None:
    """Wait until exactly the first `count` steps are ticked."""
    ticks = tour(page).get_by_role("checkbox")
    for index in range(7):
        await expect(ticks.nth(index)).to_be_checked(checked=index < count)
    await expect(tour(page).get_by_role("button", name=re.compile("^Tour"))).to_contain_text(f"{count} of 7")


async def test_the_pictures_of_the_readme_are_taken(page: Page, context: BrowserContext) -> None:
    await context.add_init_script(HIDE_TOUR)
    await page.goto("/play")
    board = page.get_by_role("region", name="Boards").get_by_role("link", name=re.compile("^Two orders"))
    await board.click()
    await wait_for_answer(cell(page, 1, 1), "The answer is 14.")
    await send_message(page, "And 10 - 2 * 3?")
    for row in (1, 2, 3):
        await wait_for_answer(cell(page, row, 1), "The answer is 4.")
        await wait_for_answer(cell(page, row, 2), "The answer is 24.")
    await take_docs_picture(page, "playground")
    await page.goto("/traces?f=service~eq~travel-desk")
    await page.get_by_role("main").get_by_role("link", name=re.compile("travel desk")).click()
    await expect(page.get_by_role("main")).to_contain_text("Three berths are left.")
    await take_docs_picture(page, "trace")
    await page.goto("/evaluations")
    await page.get_by_role("main").get_by_role("link", name="As written").click()
    await page.get_by_role("button", name="Compare with…").click()
    await page.get_by_role("dialog", name="Compare").get_by_role("button", name="Compare", exact=True).click()
    await expect(page.get_by_role("region", name="Verdicts")).to_contain_text("Worse")
    await take_docs_picture(page, "worse")


async def test_every_step_of_the_tour_can_be_completed(
    page: Page, context: BrowserContext, site: ServerProcess
) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto("/")
    await expect_ticked(page, 0)
    await talk(page)
    await expect_ticked(page, 1)
    await take_docs_picture(page, "tour-1-talk")
    await compare(page)
    await expect_ticked(page, 2)
    await take_docs_picture(page, "tour-2-compare")
    await take_screenshots(page, "tour")
    await open_a_trace(page)
    await expect_ticked(page, 3)
    await save_a_turn(page)
    await expect_ticked(page, 4)
    await evaluate(page)
    await expect_ticked(page, 5)
    await take_docs_picture(page, "tour-5-evaluate")
    await compare_evaluations(page)
    await expect_ticked(page, 6)
    await take_docs_picture(page, "tour-6-worse")
    await copy_programs(page)
    await expect_ticked(page, 7)
    await take_docs_picture(page, "tour-7-call")
    assert HOLIDAY_ANSWER in await run_curl(site)
    assert (await run_openai(site)).strip() == HOLIDAY_ANSWER


async def talk(page: Page) -> None:
    await open_link(page, "Talk to eliza")
    await page.get_by_role("textbox", name="Message", exact=True).fill("I need a holiday")
    await page.keyboard.press("Enter")
    await wait_for_answer(cell(page, 1), HOLIDAY_ANSWER)


async def compare(page: Page) -> None:
    await open_link(page, "Open calculator")
    await page.get_by_role("button", name="Add variant").click()
    await page.get_by_role("menuitem", name="Duplicate calculator").click()
    await page.get_by_role("combobox", name="Variant").nth(1).select_option("hasty")
    for _ in range(2):
        await page.get_by_role("button", name="Add thread").click()
    await expect(cells(page)).to_have_count(6)
    await send_message(page, "2 + 3 * 4")
    for row in (1, 2, 3):
        await wait_for_answer(cell(page, row, 1), "The answer is 14.")
        await wait_for_answer(cell(page, row, 2), "The answer is 20.")


async def open_a_trace(page: Page) -> None:
    await open_link(page, "Traces from travel-desk")
    await page.get_by_role("main").get_by_role("link", name=re.compile("travel desk")).click()
    await expect(page.get_by_role("heading", name="invoke_agent travel desk")).to_be_visible()
    await expect(page.get_by_role("main")).to_contain_text("Three berths are left.")
    await take_docs_picture(page, "tour-3-trace")
    await page.get_by_role("button", name="Open in playground").click()
    which = page.get_by_role("dialog", name="Continue with which workflow?")
    await which.get_by_role("button", name=re.compile("^eliza")).click()
    await expect(page).to_have_url(re.compile("/play/conv_"))
    await wait_for_answer(cell(page, 1), "Three berths are left.")
    await send_message(page, "I need a berth")
    await wait_for_answer(cell(page, 1), "What would it change if you had a berth?")
    await take_screenshot(page, "tour-3-thread")


async def save_a_turn(page: Page) -> None:
    await open_link(page, "Chat with calculator")
    await send_message(page, "6 * 7 - 2")
    await wait_for_answer(cell(page, 1), "The answer is 40.")
    answer = messages(cell(page, 1)).last
    await answer.hover()
    await answer.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Add to test set").click()
    dialog = page.get_by_role("dialog", name="Add to test set")
    await expect(dialog.get_by_role("combobox", name="Test set").locator("option:checked")).to_have_text(
        re.compile("^Sums")
    )
    await dialog.get_by_role("button", name="Add", exact=True).click()
    added = page.get_by_role("dialog", name="Added to test set")
    await expect(added).to_contain_text("The answer is 40.")
    await take_docs_picture(page, "tour-4-case")
    await added.get_by_role("button", name="Close").first.click()


async def evaluate(page: Page) -> None:
    await open_link(page, "New evaluation")
    form = page.get_by_role("dialog", name="New evaluation")
    await form.get_by_role("combobox", name="Test set", exact=True).select_option("Sums (25 rows)")
    await form.get_by_role("button", name="Add a workflow").click()
    await expect(form.get_by_role("combobox", name="Workflow")).to_have_value("calculator")
    offered = form.get_by_role("list", name="Available evaluators")
    await offered.get_by_role("button", name=re.compile("^Contains The")).click()
    await take_screenshot(page, "tour-5-form")
    await form.get_by_role("button", name="Run", exact=True).click()
    await expect(page).to_have_url(re.compile("/evaluations/ev_"))
    await wait_for_state(page)
    await expect(page.get_by_role("region", name="Summary")).to_contain_text("100%")


async def compare_evaluations(page: Page) -> None:
    await open_link(page, "Evaluations")
    await page.get_by_role("main").get_by_role("link", name="As written").click()
    await page.get_by_role("button", name="Compare with…").click()
    await page.get_by_role("dialog", name="Compare").get_by_role("button", name="Compare", exact=True).click()
    verdict = page.get_by_role("region", name="Verdicts").get_by_role("button", name=re.compile("contains"))
    await expect(verdict).to_contain_text("Worse")


async def copy_programs(page: Page) -> None:
    await open_link(page, "Code for eliza")
    for client, known_names in (
        ("AI SDK", "DefaultChatTransport"),
        ("OpenAI Python", "from openai import OpenAI"),
        ("curl", "curl "),
    ):
        await page.get_by_role("tab", name=client).click()
        await page.get_by_role("tabpanel", name=client).get_by_role("button", name="Copy code").click()
        await expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert known_names in await page.evaluate("navigator.clipboard.readText()")


async def run_curl(site: ServerProcess) -> str:
    """Run the curl command of the docs page and return its output."""
    (program,) = [block.source for block in blocks(PAGE, "sh") if "curl" in block.source]
    if shutil.which("curl") is None:
        body = re.search(r"-d '(.+)'", program)
        assert body is not None
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            return (await http.post(f"{site.url}/eliza/invoke", json=json.loads(body[1]))).text
    return await run(["sh", "-e", "-c", with_site_url(program, site)])


async def run_openai(site: ServerProcess) -> str:
    """Run the Python program of the docs page and return its output."""
    (program,) = [block.source for block in blocks(PAGE, "python")]
    return await run([sys.executable, "-c", with_site_url(program, site)])


def with_site_url(program: str, site: ServerProcess) -> str:
    assert "http://localhost:8642" in program
    return program.replace("http://localhost:8642", site.url)


async def run(command: list[str]) -> str:
    completed = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


async def test_the_tour_can_be_ticked_folded_hidden_and_shown_again(page: Page) -> None:
    await page.goto("/play?workflow=eliza")
    title = tour(page).get_by_role("button", name=re.compile("^Tour"))
    await tour(page).get_by_role("checkbox").nth(0).check()
    await expect_ticked(page, 1)
    # The next step is open; any other opens as well, by keyboard.
    await expect(tour(page).get_by_role("link")).to_have_text("Open calculator")
    await tour(page).get_by_role("button", name="Run an evaluation").focus()
    await page.keyboard.press("Enter")
    await expect(tour(page).get_by_role("link")).to_have_text("New evaluation")
    await title.click()
    await expect(title).to_have_attribute("aria-expanded", "false")
    await expect(tour(page).get_by_role("listitem")).to_have_count(0)
    await page.reload()
    await expect(title).to_have_attribute("aria-expanded", "false")
    await expect(title).to_contain_text("1 of 7")

    await tour(page).get_by_role("button", name="Hide tour").click()
    await expect(tour(page)).to_have_count(0)
    await page.reload()
    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
    await expect(tour(page)).to_have_count(0)
    await page.goto("/settings")
    await page.get_by_role("button", name="Show tour").click()
    await expect_ticked(page, 1)
    await page.get_by_role("button", name="Restart tour").click()
    await expect_ticked(page, 0)


@pytest.fixture
async def phone(browser: Browser, site: ServerProcess) -> AsyncIterator[Page]:
    """A visitor with a phone."""
    context = await browser.new_context(
        base_url=site.url,
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
        reduced_motion="reduce",
    )
    context.set_default_timeout(20_000)
    yield await context.new_page()
    await context.close()


async def test_on_a_phone_the_tour_is_in_the_menu(phone: Page) -> None:
    await phone.goto("/play?workflow=headline")
    await phone.get_by_role("button", name="Tour, 0 of 7").tap()
    await expect(tour(phone)).to_be_in_viewport()
    await take_screenshot(phone, "phone-tour")
    assert await overflow(phone) <= 0
    await open_link(phone, "Talk to eliza")
    await expect(phone.get_by_role("dialog", name="Menu")).to_have_count(0)
    await send_message(phone, "Hello")
    await expect(phone.get_by_role("button", name="Tour, 1 of 7")).to_be_visible()
