"""A chat that proposes code changes: a diff that is copied, or applied and sent with the next turn."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect

from tests.e2e.flows_edits import JOB
from tests.e2e.playground import (
    cell,
    messages,
    overflow,
    send_message,
    take_screenshot,
    take_screenshots,
    wait_for_answer,
    wait_until_idle,
)
from tests.server_process import ServerProcess, server_process

FLOWS = Path(__file__).parent / "flows_edits.py"
UPDATED_JOB = JOB.replace("/v1/", "/v2/")
PATCH = """\
--- a/patients
+++ b/patients
@@ -1,5 +1,5 @@
 // Fetches what is new, and keeps it.
-get('/v1/patients', { query: { since: $.cursor } });
+get('/v2/patients', { query: { since: $.cursor } });
"""


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a chat that proposes code changes."""
    folder = tmp_path_factory.mktemp("edits")
    with server_process(folder, FLOWS.read_text("utf-8"), db=str(folder / "palaver.db")) as server:
        yield server


@pytest.fixture
async def page(context: BrowserContext, page: Page) -> Page:
    """A tab whose clipboard can be read."""
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    return page


def diff(container: Page | Locator) -> Locator:
    """The proposed change that was shown last."""
    return container.get_by_role("figure").filter(has=container.get_by_text("patients", exact=True)).last


async def read_code(page: Page) -> str:
    """Return the job's code in the inputs form."""
    await page.get_by_role("button", name=re.compile("^(Inputs|context)")).click()
    form = page.get_by_role("dialog", name="Inputs")
    lines = form.get_by_role("textbox", name="expression").locator(".cm-line")
    await expect(lines.first).to_be_visible()
    text = "\n".join(await lines.all_text_contents())
    await page.keyboard.press("Escape")
    await expect(form).to_have_count(0)
    return text


async def write_code(page: Page, text: str) -> None:
    """Replace the code in the inputs form."""
    await page.get_by_role("button", name=re.compile("^(Inputs|context)")).click()
    field = page.get_by_role("dialog", name="Inputs").get_by_role("textbox", name="expression")
    await expect(field.locator(".cm-line").first).to_be_visible()
    for _ in range(5):  # A newly mounted editor may reset the selection before the text is replaced.
        await field.fill(text)
        if "\n".join(await field.locator(".cm-line").all_text_contents()) == text:
            break
    await page.keyboard.press("Escape")


async def last_run_inputs(page: Page) -> Any:
    """Return the inputs of the last run, as the server stored them."""
    runs = await (await page.request.get("/api/runs", params={"limit": 1})).json()
    run = await (await page.request.get(f"/api/runs/{runs['data'][0]['id']}", params={"include": "input"})).json()
    return run["input"]["inputs"]


async def read_clipboard(page: Page) -> str:
    """Return the text on the clipboard."""
    return await page.evaluate("navigator.clipboard.readText()")


async def test_a_change_is_shown_below_the_text_and_can_be_copied(page: Page) -> None:
    await page.goto("/play?workflow=mender")
    await send_message(page, "Move it on")
    container = cell(page, 1)
    await wait_for_answer(container, "I will move it to version 2.")
    answer = messages(container).last
    await expect(diff(page).get_by_role("list", name="Findings").get_by_role("listitem")).to_have_text(
        [
            "errorLine 2A token stands in the code; keep it in the credential.no_credentials",
            "warningLine 7The object that is returned leaves out what state had.keeps_state",
            "noteOnly operations stand at the top.top_level_operations",
        ]
    )

    notice = answer.get_by_role("note")
    await expect(notice).to_contain_text("Test mode: no model was called.")
    tops = [(await one.bounding_box() or {})["y"] for one in (notice, answer.get_by_text("The job has"), diff(page))]
    assert tops == sorted(tops)

    await diff(page).get_by_role("button", name="Copy new code").click()
    assert await read_clipboard(page) == UPDATED_JOB
    await diff(page).get_by_role("button", name="Copy as patch").click()
    assert (await read_clipboard(page)).startswith(PATCH)
    await take_screenshots(page, "code-edit")


async def test_a_change_is_applied_sent_with_the_next_question_and_undone(page: Page, context: BrowserContext) -> None:
    await page.goto("/play?workflow=mender")
    assert await read_code(page) == JOB
    await send_message(page, "Move it on")
    await wait_for_answer(cell(page, 1), "version 2")
    await expect(diff(page).get_by_role("status")).to_have_text("to input context.expression")

    # With the keyboard alone; the focus stays on the button.
    await diff(page).get_by_role("button", name="Apply", exact=True).focus()
    await page.keyboard.press("Enter")
    undo = diff(page).get_by_role("button", name="Undo")
    await expect(undo).to_be_focused()
    await expect(diff(page).get_by_role("status")).to_contain_text("Applied to context.expression")
    assert await read_code(page) == UPDATED_JOB
    await take_screenshots(page, "code-edit-applied")

    # Another tab shows it too and can undo it.
    other = await context.new_page()
    await other.goto(page.url)
    await diff(other).get_by_role("button", name="Undo").click()
    await expect(diff(page).get_by_role("button", name="Apply", exact=True)).to_be_visible()
    assert await read_code(page) == JOB
    await diff(page).get_by_role("button", name="Apply", exact=True).click()
    await expect(diff(other).get_by_role("button", name="Undo")).to_be_visible()
    await other.close()

    await send_message(page, "And once more, clean")
    await wait_for_answer(cell(page, 1), "calls version 2; I will move it to version 3.")
    assert (await last_run_inputs(page))["context"] == {
        "expression": UPDATED_JOB,
        "adaptor": "http@6.5.4",
        "input": {"cursor": "2026-01-01"},
    }
    await expect(diff(page)).to_contain_text("No findings")


async def test_code_that_has_changed_is_replaced_only_after_confirmation(page: Page) -> None:
    await page.goto("/play?workflow=mender")
    await send_message(page, "Move it on")
    await wait_for_answer(cell(page, 1), "version 2")
    await write_code(page, "// My own work\n")
    await expect(diff(page).get_by_role("status")).to_have_text("context.expression has changed since this edit")
    await diff(page).get_by_role("button", name="Apply", exact=True).click()
    confirmation = page.get_by_role("dialog", name="Replace newer code?")
    await expect(confirmation).to_be_visible()
    await take_screenshot(page, "code-edit-changed")
    await confirmation.get_by_role("button", name="Cancel").click()
    assert await read_code(page) == "// My own work\n"

    await diff(page).get_by_role("button", name="Apply", exact=True).click()
    await confirmation.get_by_role("button", name="Apply anyway").click()
    await expect(diff(page).get_by_role("button", name="Undo")).to_be_visible()
    assert await read_code(page) == UPDATED_JOB
    await diff(page).get_by_role("button", name="Undo").click()
    assert await read_code(page) == "// My own work\n"


async def test_an_edit_without_a_name_finds_its_input_and_an_empty_job_is_filled(page: Page) -> None:
    await page.goto("/play?workflow=mender")
    await send_message(page, "Move it on, nameless and unchecked")
    await wait_for_answer(cell(page, 1), "version 2")
    await expect(diff(page)).not_to_contain_text("finding")
    await diff(page).get_by_role("button", name="Apply", exact=True).click()
    assert await read_code(page) == UPDATED_JOB

    await write_code(page, "")
    await send_message(page, "Begin anew, for Windows")
    await wait_for_answer(cell(page, 1), "The job has 0 lines")
    await diff(page).get_by_role("button", name="Apply", exact=True).click()
    assert await read_code(page) == "get('/v1/patients');\n"
    await send_message(page, "Go on")
    await wait_for_answer(cell(page, 1), "The job has 1 lines")
    assert (await last_run_inputs(page))["context"][
        "expression"
    ] == "get('/v1/patients');\r\n"  # Viewing does not edit it.


async def test_the_inputs_form_has_an_editor_with_syntax_highlighting(page: Page) -> None:
    await page.goto("/play?workflow=mender")
    await page.get_by_role("button", name=re.compile("^context")).click()
    form = page.get_by_role("dialog", name="Inputs")
    comment = form.get_by_role("textbox", name="expression").locator("span", has_text="// Fetches what is new")
    await expect(comment).to_have_class(re.compile("italic"))
    await take_screenshots(page, "code-edit-inputs")


async def test_a_change_can_be_applied_to_a_single_turn_row(page: Page) -> None:
    await page.goto("/play?workflow=mender")
    await page.get_by_role("radio", name="Single-turn").click()
    table = page.get_by_role("table", name="Rows and answers")
    await table.get_by_role("textbox").first.fill("Move it on")
    await page.get_by_role("button", name="Run all").click()
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "1 of 1 done")
    await diff(page).get_by_role("button", name="Apply", exact=True).click()
    await expect(table.get_by_role("textbox", name="expression")).to_contain_text("get('/v2/patients'")
    await take_screenshots(page, "code-edit-single")


async def test_a_thread_with_code_edits_can_be_exported(page: Page) -> None:
    await page.goto("/play?workflow=mender")
    await send_message(page, "Move it on")
    await wait_until_idle(cell(page, 1))
    assert await overflow(page) <= 0
    board = re.findall(r"brd_\w+", page.url)[0]
    thread = (await (await page.request.get(f"/api/boards/{board}")).json())["cells"][0]["thread"]
    for form in ("jsonl", "html"):
        answer = await page.request.get(f"/api/threads/{thread}/export", params={"format": form})
        assert (form, answer.status) == (form, 200)
        assert "Test mode" in await answer.text()
