"""Four main user journeys: one chat, chats side by side, a chat over a test set, tool calls scored."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.evaluations import create_testset, drawer, result_rows, run_evaluation, wait_for_state
from tests.e2e.playground import cell, cells, messages, send_message, take_screenshots, wait_for_answer
from tests.server_process import ServerProcess, server_process

FLOWS = Path(__file__).parent / "flows_evaluation.py"
CSV = """question,expected
How long does a refund take?,14 days
When is my delivery?,3 days
What is the price?,30 euros
"""


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`palaver serve` with a shop's assistant, a plain function in a file."""
    folder = tmp_path_factory.mktemp("journeys")
    with server_process(folder, FLOWS.read_text("utf-8"), db=str(folder / "palaver.db")) as server:
        yield server


def search_calls(container: Locator) -> Locator:
    """The calls of `search_docs` shown in a container."""
    return container.get_by_role("region", name="Tool search_docs")


async def test_a_plain_function_is_used_as_a_chat(page: Page) -> None:
    await page.goto("/workflows/guide")
    await expect(
        page.get_by_text("A shop's assistant: looks things up with tools, then answers.").first
    ).to_be_visible()
    await page.goto("/play?workflow=guide")
    await send_message(page, "How long does a refund take?")
    await wait_for_answer(cell(page, 1), "Refunds take 14 days.")
    await expect(search_calls(cell(page, 1))).to_contain_text("refund")
    await send_message(page, "And what is the price?")
    await wait_for_answer(cell(page, 1), "It costs 20 euros.")
    await expect(messages(cell(page, 1))).to_have_count(4)
    await take_screenshots(page, "journey-chat")


async def test_conversations_run_side_by_side(page: Page) -> None:
    await page.goto("/play?workflow=guide")
    await page.get_by_role("button", name="Add variant").click()
    await page.get_by_role("menuitem", name="Duplicate guide").click()
    await page.get_by_role("button", name="Parameters").nth(1).click()
    await page.get_by_role("switch", name="careful").click()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Add thread").first.click()
    await expect(cells(page)).to_have_count(4)
    await send_message(page, "When is my delivery?")
    await wait_for_answer(cell(page, 1, 1), "We deliver within 3 days.")
    await wait_for_answer(cell(page, 1, 2), "I think the delivery is fine.")
    await wait_for_answer(cell(page, 2, 1), "We deliver within 3 days.")
    await wait_for_answer(cell(page, 2, 2), "I think the delivery is fine.")
    await expect(search_calls(page.locator("body"))).to_have_count(2)
    await take_screenshots(page, "journey-side-by-side")


async def test_a_chat_is_evaluated_over_an_imported_test_set(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_text(CSV, "utf-8")
    await page.goto("/testsets")
    await page.get_by_label("File to import").set_input_files(file)
    dialog = page.get_by_role("dialog", name="Import test set")
    await dialog.get_by_role("button", name="Import", exact=True).click()
    await dialog.get_by_role("button", name="Open test set").click()
    await expect(page).to_have_url(re.compile("/testsets/ts_"))
    await expect(
        page.get_by_role("region", name="Test set").get_by_text("How long does a refund take?")
    ).to_be_visible()
    await take_screenshots(page, "journey-completion-set")

    await page.get_by_role("button", name="Evaluate").click()
    dialog = page.get_by_role("dialog", name="New evaluation")
    await dialog.get_by_role("button", name="Add a workflow").click()
    await dialog.get_by_role("combobox", name="Workflow").select_option("guide")
    await (
        dialog.get_by_role("list", name="Available evaluators")
        .get_by_role("button", name=re.compile("^Contains The"))
        .click()
    )
    # A chat needs messages: each question becomes one.
    await dialog.get_by_role("button", name="Column mapping").click()
    await dialog.get_by_role("combobox", name="Messages").select_option(label="question (text)")
    await dialog.get_by_role("button", name="Run", exact=True).click()

    await expect(page).to_have_url(re.compile("/evaluations/ev_"))
    await wait_for_state(page)
    await expect(
        page.get_by_role("region", name="Summary").get_by_role("row", name=re.compile("^guide"))
    ).to_contain_text("66.7%")
    await expect(result_rows(page)).to_have_count(3)
    await expect(result_rows(page).nth(2)).to_contain_text("It costs 20 euros.")
    await take_screenshots(page, "journey-completion-results")
    await result_rows(page).nth(2).click()
    await expect(drawer(page).get_by_role("region", name="Input")).to_contain_text("What is the price?")
    await expect(drawer(page).get_by_role("region", name="Expected")).to_contain_text("30 euros")
    await expect(drawer(page).get_by_role("region", name="Output")).to_contain_text("It costs 20 euros.")
    await drawer(page).get_by_role("link", name="Trace").click()
    await expect(page).to_have_url(re.compile("/traces/"))
    await expect(page.get_by_text("guide").first).to_be_visible()


async def test_tool_calls_of_a_chat_are_scored_and_shown(page: Page, site: ServerProcess) -> None:
    def row(text: str, topic: str) -> dict[str, object]:
        expected_calls = [{"name": "search_docs", "arguments": {"q": topic}}]
        return {"messages": [{"role": "user", "content": text}], "expected": {"tool_calls": expected_calls}}

    set_id = await create_testset(
        site, "Tools", [row("How long does a refund take?", "refund"), row("What about the price?", "delivery")]
    )
    ev = await run_evaluation(
        site,
        name="Does it look things up?",
        testset={"id": set_id},
        variants=[
            {"name": "careful", "workflow": "guide"},
            {"name": "hasty", "workflow": "guide", "parameters": {"careful": False}},
        ],
        evaluators=[
            {"key": "tool_called", "name": "looks it up", "parameters": {"names": ["search_docs"]}},
            {"key": "tool_sequence", "parameters": {"arguments": "exact"}},
        ],
    )
    await page.goto(f"/evaluations/{ev}")
    figures = page.get_by_role("region", name="Summary")
    await expect(figures.get_by_role("row", name=re.compile("^careful"))).to_contain_text(
        re.compile("100%.*50%", re.DOTALL)
    )
    await expect(figures.get_by_role("row", name=re.compile("^hasty"))).to_contain_text("0%")
    await take_screenshots(page, "journey-tools")

    await page.get_by_role("combobox", name="Outcome").select_option("Failed")
    await page.get_by_role("combobox", name="Variant").select_option("careful")
    await expect(result_rows(page)).to_have_count(1)
    await result_rows(page).first.click()
    expected, actual = (
        drawer(page).get_by_role("region", name="Expected"),
        drawer(page).get_by_role("region", name="Output"),
    )
    await expect(search_calls(expected)).to_contain_text("delivery")
    await expect(search_calls(actual)).to_contain_text("price")
    await search_calls(actual).get_by_role("button").click()
    await expect(search_calls(actual)).to_contain_text("It costs 20 euros.")
    await expect(drawer(page).get_by_role("region", name="Score tool_sequence")).to_contain_text("search_docs")
    await take_screenshots(page, "journey-tools-cell")

    await drawer(page).get_by_role("button", name="Open in playground").click()
    await expect(page).to_have_url(re.compile("/play/"))
    await expect(messages(cell(page, 1)).first).to_contain_text("What about the price?")
