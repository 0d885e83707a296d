"""The workflows pages: descriptions, example programs, and connecting other services."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect

from tests.e2e.conftest import FLOWS
from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import cell, send_message, take_screenshot, take_screenshots, wait_for_answer
from tests.server_process import ServerProcess, server_process

REMOTE_SOURCE = '''
from collections.abc import AsyncIterator
from palaver import Message, chat

@chat
async def oracle(messages: list[Message]) -> AsyncIterator[str]:
    """Answers from another machine, or nearly."""
    yield f"The oracle has heard: {messages[-1].text}"
'''


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that may connect to services on this machine."""
    folder = tmp_path_factory.mktemp("site")
    with server_process(
        folder, FLOWS.read_text("utf-8"), "--allow-private-urls", db=str(folder / "palaver.db")
    ) as server:
        yield server


def workflow_row(page: Page, name: str) -> Locator:
    """A workflow's line in the list."""
    link = page.get_by_role("link", name=name, exact=True)
    return page.locator("main").get_by_role("listitem").filter(has=link)


async def test_the_list_shows_every_workflow_and_whether_it_is_a_chat(page: Page) -> None:
    await page.goto("/workflows")
    rows = (await (await page.request.get("/api/workflows")).json())["data"]
    assert {row["name"] for row in rows} >= {"eliza", "headline", "shout", "tutor"}
    for row in rows:
        kind = "Chat" if row["is_chat"] else "Single-turn"
        await expect(workflow_row(page, row["name"]).get_by_text(re.compile(rf"^{kind}"))).to_be_visible()
    await take_screenshots(page, "workflows")

    await page.get_by_role("group", name="Type").get_by_role("button", name="Single-turn").click()
    await expect(workflow_row(page, "shout")).to_be_visible()
    await expect(workflow_row(page, "tutor")).to_have_count(0)
    await page.get_by_role("group", name="Type").get_by_role("button", name="All").click()
    await page.get_by_role("searchbox", name="Search workflows").fill("capitals")
    await expect(workflow_row(page, "shout")).to_be_visible()
    # Only this one: services connected by another test are in a separate list below.
    await expect(page.locator("main").get_by_role("list").first.get_by_role("listitem")).to_have_count(1)


async def test_a_workflow_is_shown_with_its_kind_schemas_and_flags(page: Page) -> None:
    await page.goto("/workflows")
    await workflow_row(page, "tutor").click()
    await expect(page).to_have_url(re.compile("/workflows/tutor$"))
    main = page.locator("main")
    await expect(main).to_contain_text("Chat: declared in code.")
    await expect(main).to_contain_text("is_chat: true")
    await expect(main).to_contain_text("How many words it says")
    await expect(main).to_contain_text("Seconds between two words")
    await page.get_by_role("button", name="Show the JSON Schema").first.click()
    await expect(main.get_by_text('"properties"').first).to_be_visible()
    await take_screenshots(page, "workflow")

    await page.goto("/workflows/shout")
    await expect(main).to_contain_text("Single-turn: declared in code.")
    await expect(main).to_contain_text("is_chat: false")


async def test_programs_for_five_clients_contain_this_server_and_can_be_copied(
    page: Page, context: BrowserContext, site: ServerProcess
) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
    workflow = await (await page.request.get("/api/workflows/tutor")).json()
    await page.goto("/workflows/tutor")
    tabs = page.get_by_role("tablist", name="Client").get_by_role("tab")
    await expect(tabs).to_have_text(["curl", "OpenAI Python", "OpenAI Node", "AI SDK", "LangChain"])
    for number, snippet in enumerate(workflow["snippets"]):
        await tabs.nth(number).click()
        program = page.get_by_role("tabpanel")
        await expect(program).to_contain_text(site.url)
        await program.get_by_role("button", name="Copy code").click()
        await expect(program.get_by_role("button", name="Copied")).to_be_visible()
        assert (await page.evaluate("navigator.clipboard.readText()")).strip() == snippet["code"].strip()

    for name, url in workflow["routes"].items():
        assert url.startswith(site.url), name
        await expect(page.locator("main")).to_contain_text(url)
    await page.get_by_role("button", name="Copy URL for AI SDK useChat").click()
    assert await page.evaluate("navigator.clipboard.readText()") == workflow["routes"]["ui_stream"]


async def test_a_button_leads_to_a_first_answer(page: Page) -> None:
    await page.goto("/workflows/scripted")
    await page.get_by_role("button", name="Open in playground").click()
    await send_message(page, "Nice to meet you")
    await wait_for_answer(cell(page, 1), "Nice to meet you")

    await page.goto("/workflows/shout")
    await page.get_by_role("button", name="Open in playground").click()
    await page.get_by_role("textbox", name=re.compile(r"^text\b")).fill("ahoy")
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("table", name="Rows and answers")).to_contain_text("AHOY")


async def test_a_service_is_tested_connected_used_and_disconnected(
    page: Page, watch: PageMonitor, tmp_path: Path
) -> None:
    with server_process(tmp_path, REMOTE_SOURCE) as other:
        await page.goto("/workflows")
        await page.get_by_role("button", name="Connect a service").click()
        dialog = page.get_by_role("dialog", name="Connect a service")
        await dialog.get_by_role("textbox", name="URL").fill(f"{other.url}/oracle")
        await dialog.get_by_role("button", name="Test").click()
        await expect(dialog).to_contain_text("Found: oracle")
        await expect(dialog).to_contain_text("Chat: declared by the service.")
        await take_screenshots(page, "connect")
        assert "oracle" not in await (await page.request.get("/api/workflows")).text()  # It was only tested.

        await dialog.get_by_role("button", name="Connect", exact=True).click()
        await expect(page).to_have_url(re.compile("/workflows/oracle$"))
        await expect(page.locator("main")).to_contain_text("Connected")
        await expect(page.locator("main")).to_contain_text("Answers from another machine, or nearly.")
        await take_screenshots(page, "connected")
        await page.get_by_role("button", name="Open in playground").click()
        await send_message(page, "Who is there?")
        await wait_for_answer(cell(page, 1), "The oracle has heard: Who is there?")

        await page.get_by_role("link", name="Workflows").first.click()
        await page.get_by_role("button", name="Disconnect oracle").click()
        await page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        await expect(workflow_row(page, "oracle")).to_have_count(0)
        await expect(page.get_by_role("button", name="Disconnect oracle")).to_have_count(0)
        await page.goto("/play")
        await expect(cell(page, 1)).to_contain_text("The oracle has heard: Who is there?")  # Threads stay.
        watch.forgive("404")  # The page requested the inputs of the removed workflow.


async def test_testing_a_url_that_is_not_a_service_lists_the_attempts(
    page: Page, watch: PageMonitor, site: ServerProcess
) -> None:
    await page.goto("/workflows")
    await page.get_by_role("button", name="Connect a service").click()
    dialog = page.get_by_role("dialog", name="Connect a service")
    await dialog.get_by_role("textbox", name="URL").fill(f"{site.url}/health")
    await dialog.get_by_role("button", name="Test").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("If you know the type and protocol, choose them above.")
    await expect(dialog.get_by_role("table")).to_contain_text("GET")
    await take_screenshot(page, "connect-refused")
    watch.forgive("Failed to load resource")
