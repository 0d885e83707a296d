"""Actions and locators of the playground, by role and name, and screenshots."""

import json
import os
import re
import shutil
from pathlib import Path

from playwright.async_api import Locator, Page, expect

BUILD = Path(__file__).parents[2] / "build"
SCREENSHOTS, FIGURES = BUILD / "screenshots", BUILD / "figures.json"
"""Screenshots are taken if SCREENSHOTS_WANTED, for visual inspection."""
SCREENSHOTS_WANTED = any(os.environ.get(name) for name in ("CI", "PALAVER_SCREENSHOTS", "PALAVER_PICTURES"))

IMAGES = Path(__file__).parents[2] / "docs" / "images"
"""Images of README and docs; updated if PALAVER_PICTURES is set (`make pictures`)."""

SIZES = {"laptop": (1280, 800), "desktop": (1920, 1080), "phone": (390, 844)}


async def send_message(page: Page, text: str) -> None:
    """Write a message and send it to the cells that the composer names."""
    await page.get_by_role("textbox", name="Message", exact=True).fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


def cells(page: Page) -> Locator:
    """All cells of the board, row by row."""
    return page.get_by_role("region", name=re.compile(r", thread "))


def cell(page: Page, row: int | str, column: int = 1) -> Locator:
    """One cell: the row is a thread's name, or its number where it has none; columns count from 1."""
    return page.get_by_role("region", name=re.compile(rf", thread {re.escape(str(row))}$")).nth(column - 1)


def messages(chat_cell: Locator) -> Locator:
    """The messages of a cell, oldest first."""
    return chat_cell.get_by_role("article")


async def stop_answer(chat_cell: Locator) -> None:
    """Stop the answer of a cell."""
    await chat_cell.get_by_role("button", name="Stop", exact=True).click()


async def wait_until_idle(chat_cell: Locator) -> None:
    """Wait until no answer is streaming in a cell."""
    await expect(chat_cell.get_by_role("button", name="Stop", exact=True)).to_have_count(0)


async def wait_for_answer(chat_cell: Locator, text: str | re.Pattern[str]) -> None:
    """Wait until the last message of a cell contains the text and is complete."""
    await expect(messages(chat_cell).last).to_contain_text(text)
    await wait_until_idle(chat_cell)


async def open_six_cells(page: Page) -> None:
    """Open a board of three threads and two variants of the tutor."""
    await page.goto("/play?workflow=tutor")
    await page.get_by_role("button", name="Add variant").click()
    await page.get_by_role("menuitem", name="Duplicate tutor").click()
    for _ in range(2):
        await page.get_by_role("button", name="Add thread").first.click()
    await expect(cells(page)).to_have_count(6)


async def take_screenshot(page: Page, name: str) -> None:
    """Render the page in light and dark, and save screenshots if wanted."""
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if SCREENSHOTS_WANTED:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")
    await page.emulate_media(color_scheme="light")


async def take_screenshots(page: Page, name: str) -> None:
    """Take screenshots in each screen size."""
    before = page.viewport_size
    for size, (width, height) in SIZES.items():
        await page.set_viewport_size({"width": width, "height": height})
        assert await overflow(page) <= 0, f"{name} is wider than the {size}"
        await take_screenshot(page, f"{name}-{size}")
    if before is not None:
        await page.set_viewport_size(before)


async def take_docs_picture(page: Page, name: str) -> None:
    """Take a screenshot for the docs, in light, and in dark if the docs have one."""
    await page.mouse.move(0, 0)  # No hover.
    await expect(page.locator("[data-radix-popper-content-wrapper]")).to_have_count(0)
    await take_screenshot(page, name)
    if os.environ.get("PALAVER_PICTURES"):
        shutil.copy(SCREENSHOTS / f"{name}-light.png", IMAGES / f"{name}.png")
        if (IMAGES / f"{name}-dark.png").exists():
            shutil.copy(SCREENSHOTS / f"{name}-dark.png", IMAGES)


async def overflow(page: Page) -> int:
    """Pixels by which the page is wider than the viewport."""
    return await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def record_figure(name: str, value: float) -> None:
    """Store a measured number."""
    BUILD.mkdir(exist_ok=True)
    figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    FIGURES.write_text(json.dumps({**figures, name: value}, indent=2, sort_keys=True), encoding="utf-8")
