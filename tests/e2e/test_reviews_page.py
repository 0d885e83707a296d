"""The reviews pages: created, answered by keyboard, released, and agreement; and rules for live traffic."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, Route, expect

from tests.e2e.evaluations import country_rows, create_testset, run_evaluation
from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import take_screenshots
from tests.server_process import ServerProcess, server_process

FLOWS = Path(__file__).parent / "flows_evaluation.py"
GUIDE_ROWS = [
    {"messages": [{"role": "user", "content": "How long does a refund take?"}], "expected": "14 days"},
    {"messages": [{"role": "user", "content": "What about delivery?"}], "expected": "3 days"},
    {"messages": [{"role": "user", "content": "Hello"}], "expected": "a greeting"},
]


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`palaver serve` with workflows that were evaluated."""
    folder = tmp_path_factory.mktemp("reviews")
    with server_process(folder, FLOWS.read_text("utf-8"), db=str(folder / "palaver.db")) as server:
        yield server


def api_client(site: ServerProcess) -> httpx.AsyncClient:
    """An HTTP client of the same server."""
    return httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60)


async def answer_items(site: ServerProcess, review: str, reviewer: str, *answers: dict[str, Any]) -> None:
    """Answer the next items of another reviewer."""
    async with api_client(site) as http:
        for values in answers:
            item = (await http.get(f"/api/reviews/{review}/next", params={"reviewer": reviewer})).json()["item"]["id"]
            body = {"answers": values, "reviewer": reviewer}
            (await http.post(f"/api/reviews/{review}/items/{item}/answers", json=body)).raise_for_status()


async def test_a_first_review_is_created_answered_under_a_name_and_closed(page: Page, site: ServerProcess) -> None:
    rows = await create_testset(site, "Towns", country_rows())
    variants = [
        {"name": "long", "workflow": "atlas"},
        {"name": "short", "workflow": "atlas", "parameters": {"style": "short"}},
    ]
    ev = await run_evaluation(
        site, name="Towns", testset={"id": rows}, variants=variants, evaluators=[{"key": "contains"}]
    )
    # Another test may have created some.
    await page.route("**/api/reviews?*", lambda route: route.fulfill(json={"data": [], "next": None}))
    await page.goto("/")
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Reviews").click()
    await expect(page.get_by_role("heading", name="No reviews yet")).to_be_visible()
    await take_screenshots(page, "reviews-none")
    await page.unroute("**/api/reviews?*")

    await page.goto(f"/reviews?new=1&run={ev}")
    dialog = page.get_by_role("dialog", name="New review")
    await expect(dialog.get_by_role("combobox", name="Evaluation")).to_have_value(ev)
    await dialog.get_by_role("combobox", name="Variant").select_option("short")
    await dialog.get_by_role("combobox", name="Filter").select_option("Failed contains")
    await dialog.get_by_role("button", name="Add a question").click()
    tone = dialog.get_by_role("group", name="Question 2")
    await tone.get_by_role("textbox", name="Question").fill("How does it sound?")
    await tone.get_by_role("combobox", name="Answer").select_option("Choice")
    await expect(dialog).to_contain_text("Question 2: enter at least two choices.")
    await tone.get_by_role("textbox", name="Choices").fill("kind\nneutral\nrude")
    await dialog.get_by_role("button", name="Add a question").click()
    grade = dialog.get_by_role("group", name="Question 3")
    await grade.get_by_role("textbox", name="Question").fill("Which grade?")
    await grade.get_by_role("combobox", name="Answer").select_option("Score")
    await grade.get_by_role("checkbox", name="Required").uncheck()
    await take_screenshots(page, "reviews-new")
    await dialog.get_by_role("button", name="Start review").click()

    await expect(page).to_have_url(re.compile(r"/reviews/rv_"))
    await page.get_by_role("textbox", name="Your name").fill("Ada")
    await page.get_by_role("button", name="Start").click()
    item = page.get_by_role("region", name="Item 1", exact=True)
    await expect(item.get_by_role("region", name="Output")).to_contain_text("I do not know.")
    # The review is blind: the expected value is shown on demand, the variant not at all.
    await expect(item.get_by_role("region", name="Expected", exact=True)).to_have_count(0)
    await item.get_by_role("button", name="Expected answer").click()
    await expect(item).to_contain_text("Lima")
    form = page.get_by_role("form", name="Questions")
    await form.get_by_role("button", name="Save and next").click()
    await expect(form.get_by_role("status")).to_contain_text("Is the answer correct?, How does it sound?")
    await form.get_by_role("radio", name="No").check()
    await form.get_by_role("radio", name="neutral").check()
    await form.get_by_role("textbox", name=re.compile("Comment")).fill("It might have guessed.")
    await form.get_by_role("textbox", name=re.compile("Comment")).press("Control+Enter")
    await expect(page.get_by_role("region", name="Item 2", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Skip").click()
    await expect(page.get_by_role("region", name="Item 3", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Skip").click()
    await expect(page.get_by_role("heading", name=re.compile("^You.re done$"))).to_be_visible()
    await expect(page.get_by_text("You answered 1 and skipped 2.")).to_be_visible()
    await take_screenshots(page, "review-nothing")
    await page.get_by_role("button", name="View answers").click()
    line = page.get_by_role("list", name="Items").get_by_role("listitem").first
    await expect(line).to_contain_text("neutral")
    await expect(line).to_contain_text("It might have guessed.")

    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Close review").click()
    await expect(page.locator("header").get_by_text("Closed", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Queue").click()
    await expect(page.get_by_role("heading", name="This review is closed")).to_be_visible()


async def test_a_queue_is_answered_by_keyboard_and_reviewers_are_compared(
    page: Page, site: ServerProcess, watch: PageMonitor
) -> None:
    rows = await create_testset(site, "Shop", GUIDE_ROWS)
    ev = await run_evaluation(
        site, name="Shop", testset={"id": rows}, variants=[{"workflow": "guide"}], evaluators=[{"key": "contains"}]
    )
    questions = [
        {"key": "correct", "title": "Is it correct?"},
        {"key": "tone", "type": "choice", "title": "How does it sound?", "choices": ["kind", "neutral", "rude"]},
        {"key": "grade", "type": "score", "title": "Which grade would you give?", "range": [1, 5]},
        {"key": "why", "type": "text", "title": "Why?", "required": False},
    ]
    request = {"name": "Second look", "items": {"run": ev}, "questions": questions, "reviewers": 2, "blind": False}
    async with api_client(site) as http:
        review = (await http.post("/api/reviews", json=request)).json()["id"]
    values = [{"correct": True, "tone": "kind", "grade": 5}, {"correct": False, "tone": "kind", "grade": 2}]
    await answer_items(site, review, "Grace", *values)

    await page.add_init_script("localStorage.setItem('palaver.reviewer', 'Ada')")
    await page.goto(f"/reviews/{review}")
    first = page.get_by_role("region", name="Item 1", exact=True)
    await expect(first.get_by_role("region", name="Input")).to_contain_text("How long does a refund take?")
    await expect(first.get_by_role("region", name="Expected")).to_contain_text("14 days")
    await expect(first.get_by_role("region", name="Tool search_docs")).to_be_visible()
    await take_screenshots(page, "review-queue")
    for key in ("1", "1", "4", "Enter"):
        await page.keyboard.press(key)
    await expect(page.get_by_role("region", name="Item 2", exact=True)).to_be_focused()
    for key in ("2", "3"):
        await page.keyboard.press(key)
    await expect(page.get_by_role("radio", name="rude")).to_be_checked()
    await page.keyboard.press("2")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Item 3", exact=True)).to_be_visible()

    # Leaving releases the item: another reviewer can get it at once.
    async with page.expect_response(re.compile("/items/item_2/release$")):
        await page.get_by_role("link", name="Reviews").first.click()
    await answer_items(site, review, "Grace", {"correct": True, "tone": "kind", "grade": 4})
    # The page is updated live.
    line = page.get_by_role("list", name="Reviews").get_by_role("link", name=re.compile("Second look"))
    await expect(line).to_contain_text("5 of 6 answers")
    await expect(line.get_by_role("group", name="Agreement")).to_contain_text(re.compile(r"100%\s*κ 1\s*correct"))
    await take_screenshots(page, "reviews")
    await line.click()
    await expect(page.get_by_role("region", name="Item 3", exact=True)).to_be_visible()
    await page.keyboard.press("s")
    await expect(page.get_by_role("heading", name=re.compile("^You.re done$"))).to_be_visible()

    await page.get_by_role("button", name="Answers", exact=True).click()
    table = page.get_by_role("region", name="Agreement").get_by_role("table")
    await expect(table.get_by_role("row", name=re.compile("^correct"))).to_contain_text(
        re.compile("Ada and Grace.*2.*100%.*1 almost perfect")
    )
    await expect(table.get_by_role("row", name=re.compile("^tone"))).to_contain_text("50%")
    items = page.get_by_role("list", name="Items").locator(":scope > li")
    await expect(items.nth(1)).to_contain_text("Done")
    await expect(items.nth(2)).to_contain_text("1 of 2 answers")
    await take_screenshots(page, "review-answers")


async def test_a_rule_for_live_traffic_is_created_shown_and_disabled(page: Page, site: ServerProcess) -> None:
    # A trace is scored ten seconds after it ends, so the statistics are mocked.
    figures = {"at": "2026-11-01T00:00:00Z", "skipped": 2, "errors": 0, "cost": None}
    stats = {
        "waiting": 3,
        "done": 40,
        "dropped": 0,
        "data": [{**figures, "evaluator": "refusal", "n": 40, "passed": 38, "pass_rate": 0.95, "mean": 0.95}],
    }
    await page.route("**/stats?*", lambda route: route.fulfill(json=stats))
    await page.goto("/evaluations/online")
    await expect(page.get_by_role("heading", name="No live evaluators yet")).to_be_visible()
    await page.get_by_role("button", name="New live evaluator").first.click()
    dialog = page.get_by_role("dialog", name="New live evaluator")
    await dialog.get_by_role("textbox", name="Name").first.fill("Refusals in the shop")
    await dialog.get_by_role("button", name="Add a filter").click()
    editor = page.get_by_role("dialog", name="Filter")
    await editor.get_by_role("combobox", name="Field").select_option("Service")
    await editor.get_by_role("textbox", name="Value").or_(editor.get_by_role("combobox", name="Value")).fill("shop")
    await editor.get_by_role("button", name="Apply").click()
    await dialog.get_by_role("spinbutton", name=re.compile("Sample")).fill("25")
    await dialog.get_by_role("searchbox", name="Find an evaluator").fill("refusal")
    await dialog.get_by_role("list", name="Available evaluators").get_by_role("button").first.click()
    await expect(dialog.get_by_role("group", name=re.compile("^Evaluator"))).to_be_visible()
    await take_screenshots(page, "online-new")
    await dialog.get_by_role("button", name="Create").click()

    rule = page.get_by_role("list", name="Live evaluators").get_by_role("listitem", name="Refusals in the shop")
    await expect(rule).to_contain_text("Service is shop · samples 25% · max 60/min")
    await expect(rule.get_by_role("row", name=re.compile("^refusal"))).to_contain_text(
        re.compile("95% passed.*40 scores · 2 not scored")
    )
    await expect(rule).to_contain_text("40 traces scored, 3 waiting")
    await take_screenshots(page, "online")
    await rule.get_by_role("switch").click()
    await expect(rule.get_by_role("switch")).not_to_be_checked()
    await expect(rule).to_contain_text("Off")
    async with api_client(site) as http:
        rules = (await http.get("/api/online")).json()["data"]
    assert [(one["enabled"], one["sample"], one["filter"]["value"]) for one in rules] == [(False, 0.25, "shop")]


async def test_the_rule_dialog_stays_in_place_while_its_evaluators_load(page: Page, site: ServerProcess) -> None:
    loaded = asyncio.Event()

    async def answer_when_loaded(route: Route) -> None:
        await loaded.wait()
        await route.continue_()

    await page.route("**/api/evaluators", answer_when_loaded)
    await page.goto("/evaluations/online")
    await page.get_by_role("button", name="New live evaluator").first.click()
    dialog = page.get_by_role("dialog", name="New live evaluator")
    filter_button = dialog.get_by_role("button", name="Add a filter")
    before = await filter_button.bounding_box()
    evaluators = dialog.get_by_role("list", name="Available evaluators").get_by_role("button")
    await expect(evaluators).to_have_count(0)
    loaded.set()
    await expect(evaluators.first).to_be_visible()

    assert before is not None
    assert await filter_button.bounding_box() == before
