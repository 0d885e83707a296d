"""A trace exported as one HTML file: complete without a server, and without network requests."""

import asyncio
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from tests.e2e.playground import cell, send_message, take_screenshot, wait_for_answer

INPUT_TEXT = "Trace <b>me</b> & keep me"


async def save_trace_page(page: Page, folder: Path) -> Path:
    """Run a chat with INPUT_TEXT and save the HTML export of its trace."""
    await page.goto("/play?workflow=scripted")
    await send_message(page, INPUT_TEXT)
    await wait_for_answer(cell(page, 1), INPUT_TEXT)
    rows: list[dict[str, str]] = []
    async with asyncio.timeout(60):
        while not rows:  # The trace of a run is stored a moment later.
            rows = (await (await page.request.get("/api/traces", params={"search": "trace keep"})).json())["data"]
    answer = await page.request.get(f"/api/traces/{rows[0]['trace_id']}/export.html")
    path = folder / "trace.html"
    path.write_bytes(await answer.body())
    return path


async def test_an_exported_trace_can_be_read_without_a_server(page: Page, browser: Browser, tmp_path: Path) -> None:
    html_file = await save_trace_page(page, tmp_path)
    for scheme in ("light", "dark"):
        urls: list[str] = []
        console_messages: list[str] = []
        context = await browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        context.on("request", lambda request, urls=urls: urls.append(request.url))
        standalone_page = await context.new_page()
        standalone_page.on(
            "console", lambda message, console_messages=console_messages: console_messages.append(message.text)
        )
        await standalone_page.goto(html_file.as_uri())

        await expect(standalone_page.locator("article.user").first).to_contain_text(INPUT_TEXT)
        await expect(standalone_page.locator("b")).to_have_count(0)
        span = standalone_page.locator("details.span").first
        await span.locator("summary").first.click()
        await expect(span).to_contain_text("attributes, events and links")
        await take_screenshot(standalone_page, f"trace-page-{scheme}")
        await context.close()
        assert (urls, console_messages) == ([html_file.as_uri()], [])
