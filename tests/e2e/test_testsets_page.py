"""The test set pages: imported from files, edited as drafts, saved, compared and restored."""

import json
import re
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import cell as chat_cell
from tests.e2e.playground import messages, overflow, send_message, take_screenshots, wait_for_answer
from tests.server_process import ServerProcess

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": '{"id":  7}'}}],
}
SCRIPT = {"turns": [{"user": "Where is my order?", "expect": {"tools": "any"}}, {"user": "Thanks"}]}


def question_row(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "You sell shoes."}, {"role": "user", "content": text}]


ROWS: list[dict[str, Any]] = [
    {"messages": question_row("Can I get a refund?"), "expected": "Yes, within 30 days.", "tries": 3, "open": True},
    {
        "messages": [*question_row("Where is order 7?"), CALL],
        "expected": "It is on its way.",
        "tries": 1,
        "note": {"by": "Ada"},
    },
    {"messages": question_row("Do you have size 52?"), "expected": "No.", "tries": 2, "script": SCRIPT},
]


async def create_testset(page: Page, name: str, rows: list[dict[str, Any]]) -> str:
    body = {"name": name, "rows": [{"data": row} for row in rows], "message": "As it began"}
    answer = await page.request.post("/api/testsets", data=body)
    assert answer.ok, await answer.text()
    return (await answer.json())["id"]


async def commit(page: Page, testset: str, base: int, delta: dict[str, Any]) -> None:
    answer = await page.request.post(
        f"/api/testsets/{testset}/revisions", data={"base": base, "message": "Meanwhile", "delta": delta}
    )
    assert answer.ok, await answer.text()


async def rows_of(page: Page, testset: str) -> list[dict[str, Any]]:
    return (await (await page.request.get(f"/api/testsets/{testset}/revisions/head/rows")).json())["data"]


def grid(page: Page) -> Locator:
    return page.get_by_role("grid")


def cell(page: Page, row: int, column: int) -> Locator:
    """A cell by row and column, from 0; row numbers are not cells."""
    return grid(page).locator(f'[data-cell="{row}.{column}"]')


def editor(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("dialog", name=name)


def unsaved_changes(page: Page) -> Locator:
    return page.get_by_role("region", name="Unsaved changes")


async def test_a_file_is_previewed_before_it_is_imported(page: Page, tmp_path: Path, watch: PageMonitor) -> None:
    await page.route("**/api/testsets?*", lambda route: route.fulfill(json={"data": [], "next": None}))
    await page.goto("/")
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Test sets").click()
    await expect(page.get_by_role("heading", name="No test sets yet")).to_be_visible()
    await take_screenshots(page, "testsets-empty")
    await page.unroute("**/api/testsets?*")

    chat = json.dumps(question_row("Hi")).replace('"', '""')
    file = tmp_path / "refunds.csv"
    file.write_text(f'id,messages,expected\r\n007,"{chat}",42\r\n008,,"""42"""\r\n', "utf-8")
    await page.get_by_label("File to import").set_input_files(file)
    dialog = page.get_by_role("dialog", name="Import test set")
    await expect(dialog.get_by_role("status")).to_have_text("3 columns; 2 rows:")
    await expect(dialog.get_by_role("row")).to_have_text(["idmessagesexpected", "0072 messages: Hi42", "008\u201342"])
    await expect(dialog.get_by_label("Name")).to_have_value("refunds")
    await take_screenshots(page, "testsets-import")
    await dialog.get_by_role("button", name="Text only").click()
    await expect(dialog.get_by_role("row").nth(2)).to_contain_text("Empty text")
    await dialog.get_by_role("button", name="Detect").click()
    await dialog.get_by_role("button", name="Import", exact=True).click()
    await expect(dialog.get_by_role("status")).to_have_text("Imported 2 rows (revision 1): 2 added.")
    await dialog.get_by_role("button", name="Open test set").click()
    await expect(page).to_have_url(re.compile(r"/testsets/ts_\w+$"))
    await expect(cell(page, 0, 0)).to_have_text("007")
    await expect(cell(page, 0, 1)).to_contain_text("Hi")

    # Errors name their line: in the page's preview, and from the server, which reads the whole file.
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n1,2,3\n", "utf-8")
    (tmp_path / "broken.jsonl").write_text('{"a": 1}\n' * 20_000 + "{\n", "utf-8")
    (tmp_path / "sheet.xlsx").write_bytes(b"PK\x03\x04")
    await page.goto("/testsets")
    await expect(page.get_by_role("list", name="Test sets")).to_contain_text("refunds")
    picker = page.get_by_label("File to import")
    await picker.set_input_files(tmp_path / "broken.csv")
    await expect(dialog.get_by_role("alert")).to_have_text("Line 3: found 3 cells for 2 columns.")
    await dialog.get_by_role("button", name="Cancel").click()
    await picker.set_input_files(tmp_path / "sheet.xlsx")
    await expect(dialog.get_by_role("alert")).to_contain_text("“CSV UTF-8”")
    await expect(dialog.get_by_role("button", name="Import", exact=True)).to_be_disabled()
    await dialog.get_by_role("button", name="Cancel").click()
    await picker.set_input_files(tmp_path / "broken.jsonl")
    await expect(dialog.get_by_role("status")).to_have_text("1 column; first 20 rows:")
    await dialog.get_by_role("button", name="Import", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("20001")
    watch.forgive("422")


async def test_cells_are_edited_by_kind_and_saved_as_one_revision(page: Page, watch: PageMonitor) -> None:
    testset = await create_testset(page, "Shoes", ROWS)
    await page.goto(f"/testsets/{testset}")
    heads = grid(page).get_by_role("columnheader")
    await expect(heads.filter(has_text="messages")).to_contain_text("chat")
    await expect(heads.filter(has_text="tries")).to_contain_text("number")
    await expect(heads.filter(has_text="open")).to_contain_text("boolean")
    await take_screenshots(page, "testset")

    # By the keyboard: arrows, Enter, and Escape, which asks before anything is lost.
    await cell(page, 0, 0).focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowDown")
    await expect(cell(page, 1, 1)).to_be_focused()
    await page.keyboard.press("Enter")
    sheet = editor(page, "expected, row 2")
    await sheet.get_by_role("textbox", name="Text").fill("It comes tomorrow.")
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog", name="Discard your edit?").get_by_role("button", name="Cancel").click()
    await expect(sheet.get_by_role("textbox", name="Text")).to_have_value("It comes tomorrow.")
    await sheet.get_by_role("textbox", name="Text").press("Control+Enter")
    await expect(sheet).to_have_count(0)
    await expect(cell(page, 1, 1)).to_have_text("It comes tomorrow.")
    await expect(cell(page, 1, 1)).to_be_focused()

    # A conversation: a text changed, a message added and moved; the tool call stays exactly as it is.
    await cell(page, 1, 0).click()
    sheet = editor(page, "messages, row 2")
    await expect(sheet.get_by_role("group", name="Message 3")).to_contain_text('find_order({"id":  7})')
    await sheet.get_by_role("textbox", name="Text of message 2").fill("Where is order seven?")
    await sheet.get_by_role("button", name="Add message").click()
    await sheet.get_by_role("textbox", name="Text of message 4").fill("Please.")
    await sheet.get_by_role("button", name="Move message 4 up").click()
    await take_screenshots(page, "testset-messages")
    await sheet.get_by_role("button", name="Apply").click()

    # Invalid JSON stays in the editor and cannot be applied.
    await cell(page, 1, 3).click()
    sheet = editor(page, re.compile("row 2"))
    await sheet.get_by_role("group", name="Format").get_by_role("button", name="JSON").click()
    await sheet.get_by_role("textbox", name="JSON").fill('{"by": ')
    await expect(sheet.get_by_role("alert")).to_have_text("Invalid JSON.")
    await expect(sheet.get_by_role("button", name="Apply")).to_be_disabled()
    await sheet.get_by_role("textbox", name="JSON").fill("false")
    await sheet.get_by_role("button", name="Apply").click()
    await expect(cell(page, 1, 3)).to_have_text("false")

    # A script with its expectations.
    await cell(page, 2, 5).click()
    sheet = editor(page, "script, row 3")
    await sheet.get_by_role("textbox", name="Text of turn 2").fill("Thank you")
    expected = sheet.get_by_role("textbox", name="Expectations for turn 1 (JSON)")
    await expected.fill('{"tool": "any"}')
    await expect(sheet.get_by_role("alert")).to_contain_text("Unknown check “tool”.")
    await expected.fill('{"tools": "some"}')
    await take_screenshots(page, "testset-script")
    await sheet.get_by_role("button", name="Apply").click()

    await expect(unsaved_changes(page).get_by_role("status")).to_have_text("4 changes")
    await unsaved_changes(page).get_by_role("textbox").fill("Kinder words")
    await unsaved_changes(page).get_by_role("button", name="Save").click()
    await expect(unsaved_changes(page).get_by_role("alert")).to_contain_text(
        "In script at turns/0/expect/tools"
    )  # An error from the server.
    watch.forgive("422")
    await unsaved_changes(page).get_by_role("button", name="Open cell").click()
    await expected.fill('{"tools": "none"}')
    await sheet.get_by_role("button", name="Apply").click()
    await unsaved_changes(page).get_by_role("button", name="Save").click()
    await expect(unsaved_changes(page)).to_have_count(0)
    await expect(page.get_by_text("columns · revision 2")).to_be_visible()
    _, second, third = [row["data"] for row in await rows_of(page, testset)]
    question = {"role": "user", "content": "Where is order seven?"}
    assert second == {
        "messages": [question_row("")[0], question, {"role": "user", "content": "Please."}, CALL],
        "expected": "It comes tomorrow.",
        "tries": 1,
        "note": {"by": "Ada"},
        "open": False,
    }
    assert third["script"] == {
        "turns": [{"user": "Where is my order?", "expect": {"tools": "none"}}, {"user": "Thank you"}]
    }


async def test_rows_and_columns_are_added_removed_renamed_and_undone(page: Page) -> None:
    testset = await create_testset(page, "Columns", [{"q": f"question {n}", "answer": "x", "tmp": n} for n in range(3)])
    await page.goto(f"/testsets/{testset}")
    await grid(page).get_by_role("checkbox", name="Select row 2").check()
    selection_bar = page.get_by_role("group", name="Selected rows")
    await selection_bar.get_by_role("button", name="Duplicate").click()
    await expect(cell(page, 2, 0)).to_have_text("question 1")
    await grid(page).get_by_role("checkbox", name="Select row 1", exact=True).check()
    await selection_bar.get_by_role("button", name="Remove").click()
    await expect(cell(page, 0, 0)).to_have_text("question 1")
    await page.get_by_role("button", name="Add row").click()
    await page.keyboard.press("Enter")
    await editor(page, "q, new row").get_by_role("textbox", name="Text").fill("the last")
    await editor(page, "q, new row").get_by_role("button", name="Apply").click()

    async def column(name: str, act: str) -> Locator:
        await page.get_by_role("button", name=f"Column {name}", exact=True).click()
        await page.get_by_role("menuitem", name=act).click()
        return page.get_by_role("dialog")

    form = await column("answer", "Rename")
    await form.get_by_label("Name").fill("q")
    await expect(form.get_by_role("alert")).to_have_text("A column with this name already exists.")
    await form.get_by_label("Name").fill("expected")
    await form.get_by_role("button", name="Rename").click()
    await column("tmp", "Remove column")
    await page.get_by_role("button", name="Add column").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("lang")
    await page.get_by_role("dialog").get_by_label("Value for all rows").select_option("Text")
    await page.get_by_role("dialog").get_by_role("textbox", name="Text").fill("en")
    await page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    await expect(unsaved_changes(page).get_by_role("status")).to_have_text("6 changes")
    await take_screenshots(page, "testset-draft")
    await unsaved_changes(page).get_by_role("button", name="Undo").click()
    await expect(grid(page).get_by_role("columnheader").filter(has_text="lang")).to_have_count(0)
    form = await column("expected", "Fill empty cells")
    await form.get_by_role("textbox", name="Text").fill("?")
    await form.get_by_role("button", name="Fill").click()

    # Leaving asks for confirmation, and the draft is still there on return.
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Traces").click()
    leaving = page.get_by_role("dialog", name="Leave without saving?")
    await leaving.get_by_role("button", name="Cancel").click()
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Traces").click()
    await leaving.get_by_role("button", name="Leave").click()
    await expect(page.get_by_role("heading", name="Traces", exact=True)).to_be_visible()
    await page.go_back()
    await expect(unsaved_changes(page).get_by_role("status")).to_have_text("6 changes")
    await page.keyboard.press("Control+s")
    await expect(unsaved_changes(page)).to_have_count(0)
    assert [row["data"] for row in await rows_of(page, testset)] == [
        {"q": "question 1", "expected": "x"},
        {"q": "question 1", "expected": "x"},
        {"q": "question 2", "expected": "x"},
        {"q": "the last", "expected": "?"},
    ]

    # Texts that contain messages can be converted to messages.
    texts = [{"chat": json.dumps(question_row(f"number {n}")), "long": "word " * 2_000} for n in range(3)]
    testset = await create_testset(page, "Texts", texts)
    await page.goto(f"/testsets/{testset}")
    await page.get_by_role("button", name="Convert to messages").click()
    await expect(unsaved_changes(page).get_by_role("status")).to_have_text("3 changes")
    await expect(cell(page, 2, 0)).to_contain_text("user number 2")
    await expect(cell(page, 0, 1)).to_contain_text("10 KB")  # Only the beginning is loaded.
    await cell(page, 0, 1).click()
    await expect(editor(page, "long, row 1").get_by_role("textbox", name="Text")).to_have_value("word " * 2_000)
    await page.keyboard.press("Escape")
    await unsaved_changes(page).get_by_role("button", name="Save").click()
    await expect(grid(page).get_by_role("columnheader").filter(has_text="chat")).to_contain_text("chat")
    await expect(unsaved_changes(page)).to_have_count(0)
    assert [row["data"]["chat"] for row in await rows_of(page, testset)] == [
        question_row(f"number {n}") for n in range(3)
    ]


async def test_a_conflicting_revision_is_reported_and_changes_can_be_reapplied(page: Page, watch: PageMonitor) -> None:
    testset = await create_testset(page, "Shared", [{"q": "one"}, {"q": "two"}, {"q": "three"}])
    await page.goto(f"/testsets/{testset}")
    await cell(page, 0, 0).click()
    await editor(page, "q, row 1").get_by_role("textbox", name="Text").fill("uno")
    await editor(page, "q, row 1").get_by_role("button", name="Apply").click()
    ids = [row["id"] for row in await rows_of(page, testset)]
    delta = {"patch": [{"id": ids[0], "set": {"q": "eins"}}, {"id": ids[2], "set": {"q": "drei"}}]}
    await commit(page, testset, 1, delta)
    await expect(unsaved_changes(page).get_by_role("alert")).to_contain_text("Revision 2 was saved in the meantime")
    await expect(unsaved_changes(page).get_by_role("button", name="Save")).to_be_disabled()
    await expect(cell(page, 2, 0)).to_have_text("three")
    await unsaved_changes(page).get_by_role("button", name="Reload and reapply my changes").click()
    await expect(
        page.get_by_text("1 cell was also changed in that revision; your values will be saved.")
    ).to_be_visible()
    await expect(cell(page, 2, 0)).to_have_text("drei")
    await expect(cell(page, 0, 0)).to_have_text("uno")
    await unsaved_changes(page).get_by_role("button", name="Save").click()
    await expect(unsaved_changes(page)).to_have_count(0)
    assert [row["data"]["q"] for row in await rows_of(page, testset)] == ["uno", "two", "drei"]

    # Without unsaved changes, revisions saved by others appear at once.
    await commit(page, testset, 3, {"remove": [ids[1]]})
    await expect(cell(page, 1, 0)).to_have_text("drei")
    assert watch.faults == []


async def test_history_shows_changes_and_an_old_revision_can_be_restored(page: Page) -> None:
    testset = await create_testset(page, "History", [*ROWS, {"messages": json.dumps(question_row("As text"))}])
    first, second, _, last = [row["id"] for row in await rows_of(page, testset)]
    conversation = [*question_row("Can I get my money back?"), {"role": "assistant", "content": "Yes."}]
    patch = [{"id": first, "set": {"messages": conversation, "expected": "Yes, within 60 days."}}]
    add = [{"data": {"expected": "new"}, "after": None}]
    await commit(page, testset, 1, {"patch": patch, "remove": [second], "add": add})

    await page.goto(f"/testsets/{testset}")
    await page.get_by_role("group", name="View").get_by_role("button", name="History").click()
    await expect(page.get_by_role("list", name="Revisions").get_by_role("listitem")).to_have_count(2)
    await take_screenshots(page, "testset-history")
    await page.get_by_role("link", name="What changed in revision 2").click()
    await expect(page.get_by_role("status")).to_contain_text("1 added1 removed1 changed")
    changed = page.get_by_role("article", name=f"Row {first}")
    await expect(changed.locator("ins, del")).to_have_text(["a", "my", "refund", "money back", "30", "60"])
    await expect(changed.get_by_text("1 unchanged message")).to_be_visible()
    await take_screenshots(page, "testset-diff")

    await page.go_back()
    await page.get_by_role("link", name="Rows of revision 1").click()
    await expect(page.get_by_text("You are viewing revision 1. The latest is 2.")).to_be_visible()
    await expect(cell(page, 0, 1)).to_have_text("Yes, within 30 days.")
    await cell(page, 0, 0).click()
    await expect(editor(page, "messages, row 1").get_by_text("Can I get a refund?")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Restore").click()
    await page.get_by_role("dialog", name="Restore revision 1?").get_by_role("button", name="Restore").click()
    await expect(page.get_by_text("columns · revision 3")).to_be_visible()
    restored = await rows_of(page, testset)
    assert [row["id"] for row in restored][:2] == [first, second]
    assert restored[3]["id"] == last


async def test_thousands_of_rows_are_scrolled_searched_and_exported(page: Page) -> None:
    rows = [{f"column {c}": f"cell {r} {c}" for c in range(40)} for r in range(2_000)]
    testset = await create_testset(page, "Many", rows)
    await page.goto(f"/testsets/{testset}")
    await cell(page, 0, 0).focus()
    await page.keyboard.press("End")
    await expect(cell(page, 0, 39)).to_be_focused()
    assert await grid(page).get_by_role("gridcell").count() < 400
    await page.keyboard.press("Control+ArrowDown")
    await expect(cell(page, 102, 39)).to_have_text("cell 102 39")  # More rows are loaded at the end.
    await page.get_by_role("searchbox", name="Search rows").fill("cell 1999 7")
    await expect(cell(page, 0, 39)).to_have_text("cell 1999 39")
    await expect(page.get_by_text("1 found")).to_be_visible()
    await page.get_by_role("searchbox", name="Search rows").fill("nowhere")
    await expect(page.get_by_role("heading", name="No matching rows")).to_be_visible()

    await page.get_by_role("button", name="Export").click()
    async with page.expect_download() as download:
        await page.get_by_role("menuitem", name="JSON Lines").click()
    path = await (await download.value).path()
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == rows


async def test_a_set_is_created_on_a_phone_renamed_and_archived(browser: Browser, site: ServerProcess) -> None:
    context = await browser.new_context(base_url=site.url, viewport={"width": 390, "height": 844}, has_touch=True)
    page = await context.new_page()
    await page.goto("/testsets")
    await page.get_by_role("button", name="New", exact=True).first.click()
    await page.get_by_role("dialog").get_by_role("textbox", name="Name").fill("By hand")
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()
    await page.get_by_role("button", name="Add column").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("question")
    await page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    await page.get_by_role("button", name="Add row").click()
    await cell(page, 0, 0).click()
    await editor(page, "question, new row").get_by_role("textbox", name="Text").fill("Why?")
    await editor(page, "question, new row").get_by_role("button", name="Apply").click()
    await unsaved_changes(page).get_by_role("button", name="Save").click()
    await expect(page.get_by_text("1 column · revision 2")).to_be_visible()
    assert await overflow(page) <= 0

    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Rename").click()
    await page.get_by_role("dialog").get_by_role("textbox", name="Name").fill("Made by hand")
    await page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    await expect(page.get_by_role("heading", name="Made by hand")).to_be_visible()
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Archive").click()
    await page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    await expect(page).to_have_url(re.compile("/testsets$"))
    await page.get_by_role("searchbox").fill("made by")
    await expect(page.get_by_role("heading", name="No matching test sets")).to_be_visible()
    await page.get_by_role("button", name="Show archived").click()
    await expect(page.get_by_role("list", name="Test sets")).to_contain_text("Archived")
    await context.close()


async def test_answers_and_traces_can_be_added_to_a_test_set(page: Page) -> None:
    await page.goto("/play?workflow=eliza")
    await send_message(page, "I need a holiday")
    await wait_for_answer(chat_cell(page, 1), re.compile("holiday", re.IGNORECASE))
    await messages(chat_cell(page, 1)).last.hover()
    await messages(chat_cell(page, 1)).last.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Add to test set").click()
    dialog = page.get_by_role("dialog", name="Add to test set")
    await dialog.get_by_role("combobox", name="Test set").select_option("New test set")
    await dialog.get_by_label("Name of the new test set").fill("From talks")
    await take_screenshots(page, "testset-adding")
    await dialog.get_by_role("button", name="Add", exact=True).click()
    done = page.get_by_role("dialog", name="Added to test set")
    await expect(done).to_contain_text("user I need a holiday")
    await take_screenshots(page, "testset-added")
    await done.get_by_role("button", name="Open test set").click()
    await expect(cell(page, 0, 0)).to_contain_text("I need a holiday")
    testset = page.url.rpartition("/")[2]

    # The answer goes where the test set has its answers already.
    own_set = await create_testset(page, "Own column", [{"question": "Who are you?", "correct_answer": "Eliza"}])
    await page.goto("/traces")
    await page.get_by_role("grid").locator("[data-place]").filter(has_text="holiday").first.click()
    await page.get_by_role("button", name="Add to test set").click()
    await dialog.get_by_role("combobox", name="Test set").select_option(own_set)
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await expect(done).to_contain_text("correct_answer")
    assert [sorted(row["data"]) for row in await rows_of(page, own_set)] == [
        ["correct_answer", "question"],
        ["correct_answer", "messages"],
    ]

    # A trace added as a script, then removed again.
    await page.goto("/traces")
    await page.get_by_role("grid").locator("[data-place]").filter(has_text="holiday").first.click()
    await page.get_by_role("button", name="Add to test set").click()
    await dialog.get_by_role("combobox", name="Test set").select_option(testset)
    await dialog.get_by_role("button", name="Script").click()
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await expect(done).to_contain_text("script")
    assert [sorted(row["data"]) for row in await rows_of(page, testset)][1:] == [["script"]]
    await done.get_by_role("button", name="Undo").click()
    await expect(page.get_by_text("Row removed.")).to_be_visible()
    assert len(await rows_of(page, testset)) == 1
