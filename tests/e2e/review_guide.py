"""What the reader of docs/guides/review-answers.md does in the browser."""

import re
from collections.abc import Callable, Coroutine
from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.e2e.playground import take_docs_picture

_ITEMS = 10


def _header_button(page: Page, name: str) -> Locator:
    return page.get_by_role("main").get_by_role("button", name=name, exact=True)


async def create_review(page: Page) -> None:
    await page.goto("/evaluations")
    await page.get_by_role("main").get_by_role("link", name="questions.csv").first.click()
    await _header_button(page, "More").click()
    await page.get_by_role("menuitem", name="Create a review…").click()
    dialog = page.get_by_role("dialog", name="New review")
    await dialog.get_by_role("button", name="From the evaluation").click()
    await dialog.get_by_role("spinbutton", name=re.compile("^Reviewers")).fill("2")
    await expect(dialog.get_by_role("switch", name="Blind")).to_be_checked()
    await dialog.get_by_role("button", name="Start review").click()
    await expect(page).to_have_url(re.compile(r"/reviews/rv_"))


async def answer(page: Page) -> None:
    await _open_review(page)
    await page.get_by_role("textbox", name="Your name").fill("Ada")
    await page.get_by_role("button", name="Start", exact=True).click()
    await _answer_all(page, friendly="5", picture="review")
    await page.get_by_role("button", name="Change name").click()
    await page.get_by_role("textbox", name="Your name").fill("Grace")
    await page.get_by_role("button", name="Start", exact=True).click()
    await _answer_all(page, friendly="4", unhelpful=("No idea.", "I don't know"))


async def agreement(page: Page) -> None:
    await _open_review(page)
    await page.get_by_role("button", name="Answers", exact=True).click()
    table = page.get_by_role("region", name="Agreement").get_by_role("table")
    await expect(table.get_by_role("row", name=re.compile("^helpful"))).to_contain_text(
        re.compile(r"Ada and Grace.*10.*90%.*0\.74")
    )
    await page.goto("/evaluations")
    await page.get_by_role("main").get_by_role("link", name="questions.csv").first.click()
    await expect(page.get_by_role("main")).to_contain_text("human.helpful")
    await page.get_by_role("button", name="Compare with…").click()
    await page.get_by_role("dialog", name="Compare").get_by_role("button", name="Compare", exact=True).click()
    verdicts = page.get_by_role("region", name="Verdicts")
    await expect(verdicts).to_contain_text(re.compile(r"human\.tone.*[Bb]etter", re.DOTALL))


async def _open_review(page: Page) -> None:
    await page.goto("/reviews")
    await page.get_by_role("list", name="Reviews").get_by_role("link").first.click()


async def _answer_all(
    page: Page,
    *,
    friendly: str,
    unhelpful: tuple[str, ...] = ("No idea.", "I don't know", "Call us."),
    picture: str | None = None,
) -> None:
    """Rate every item; friendly answers are those with an exclamation mark."""
    for number in range(1, _ITEMS + 1):
        item = page.get_by_role("region", name=f"Item {number}", exact=True)
        output = await item.get_by_role("region", name="Output").inner_text()
        await page.keyboard.press("2" if any(text in output for text in unhelpful) else "1")
        await page.keyboard.press(friendly if "!" in output else "2")
        if picture and number == 2:
            await take_docs_picture(page, picture)
        await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=re.compile("^(You.re done|All reviewed)$"))).to_be_visible()


STEPS: dict[str, Callable[[Page], Coroutine[Any, Any, None]]] = {
    "create-review": create_review,
    "answer": answer,
    "agreement": agreement,
}
