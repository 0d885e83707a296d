"""Job Chat on the page without an API key: a rehearsal, from the first question to the changed job."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.e2e.playground import cell, messages, overflow, send_message, take_screenshots, wait_for_answer
from tests.e2e.test_code_edits import read_code
from tests.server_process import ServerProcess, server_process


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`palaver serve palaver_jobchat:app` on a machine without a key."""
    folder = tmp_path_factory.mktemp("jobchat")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
            patch.delenv(name)
        settings = {"jobchat_online": "0", "jobchat_cache": str(folder / "cache")}
        with server_process(
            folder, "from palaver_jobchat import app\n", db=str(folder / "palaver.db"), **settings
        ) as server:
            yield server


async def test_a_change_is_requested_shown_and_applied(page: Page) -> None:
    await page.goto("/play?workflow=job_chat")
    await expect(page.get_by_text("rehearsal: true")).to_be_visible()

    await send_message(page, "Log how many patients there are")
    await wait_for_answer(cell(page, 1), "Test mode: no model was called.")
    answer = messages(cell(page, 1)).last
    await expect(answer.get_by_role("note")).to_contain_text("Test mode: no model was called.")
    diff = answer.get_by_role("figure")
    await expect(diff).to_contain_text("No findings")
    await expect(diff).to_contain_text("fetch-patients")
    await expect(answer.get_by_role("button", name="Reply fields")).to_have_attribute("aria-expanded", "false")
    assert await overflow(page) == 0
    await take_screenshots(page, "job-chat")

    await diff.get_by_role("button", name="Apply", exact=True).click()
    await expect(diff.get_by_role("status")).to_contain_text("Applied to context.expression")
    changed = await read_code(page)
    assert changed.startswith("get('/patients');\n")
    assert "console.log" in changed

    await send_message(page, "rename records to patients")
    await wait_for_answer(cell(page, 1), "I'll rename records to patients in 3 places.")
    await expect(messages(cell(page, 1)).last.get_by_role("figure")).to_contain_text("`${patients.length} patients`")


async def test_a_call_without_rehearsal_reports_the_missing_key(page: Page) -> None:
    answer = await page.request.post("/services/job_chat", data={"content": "why?"})

    assert answer.status == 401
    assert (await answer.json())[
        "message"
    ] == "No API key for the model. Send api_key, or configure a key on the server."
