"""Size and load of the page, for these tests and the benchmarks."""

import gzip
import re
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.e2e.playground import cell

LONG_THREAD: dict[str, Any] = {
    "workflow": "scripted",
    "messages": [
        {
            "role": ("user", "assistant")[number % 2],
            "content": f"Message **{number}**\n\n- a\n- b\n\n```python\nx = {number}\n```",
        }
        for number in range(2_000)
    ],
}
"""A thread of two thousand messages, for `POST /api/threads`."""

_FIRST_PAINT = """
new Promise((done, fail) => {
  setTimeout(() => fail(new Error('Nothing was drawn')), 30_000);
  new PerformanceObserver((list) => {
    for (const paint of list.getEntriesByName('first-contentful-paint')) done(paint.startTime);
  }).observe({type: 'paint', buffered: true});
})
"""

_SCROLL_UP = """
async (box, text) => {
  for (let step = 0; !box.textContent.includes(text); step++) {
    if (step === 300) throw new Error(`There is no ${text}`);
    box.scrollBy(0, -1500);
    await new Promise((done) => setTimeout(done, 100));
  }
}
"""
_WAIT_FOR_TEXT = """
async (box, [text, times]) => {
  for (let step = 0; box.textContent.split(text).length <= times; step++) {
    if (step === 600) throw new Error(`There are not ${times} of ${text}`);
    await new Promise((done) => setTimeout(done, 100));
  }
  await new Promise((done) => setTimeout(done, 500));
}
"""


def asset_names(document: str) -> list[str]:
    """The assets that a document references."""
    return re.findall(r'(?:src|href)="[^"]*/(assets/[^"]+)"', document)


def first_view_sizes(built: Path) -> dict[str, int]:
    """Gzipped bytes of each file of a first visit."""
    document = (built / "index.html").read_text("utf-8")
    sizes = {name: (built / f"{name}.gz").stat().st_size for name in asset_names(document)}
    return {"index.html": len(gzip.compress(document.encode())), **sizes}


async def first_paint(page: Page) -> float:
    """Milliseconds from navigation to the first contentful paint."""
    return await page.evaluate(_FIRST_PAINT)


async def scroll_up(page: Page, *, to: int) -> None:
    """Scroll up from the end of the long thread to that message, fetching pages of messages on the way.

    Runs inside the page: locating elements by role would occupy its main thread longer than rendering them.
    """
    await cell(page, 1).get_by_role("log").evaluate(_SCROLL_UP, f"Message {to}")


async def wait_for_text(page: Page, text: str, *, times: int) -> None:
    """Wait until the board shows the text that many times, and half a second longer; runs inside the page."""
    await page.locator("main").evaluate(_WAIT_FOR_TEXT, [text, times])
