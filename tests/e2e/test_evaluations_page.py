"""The evaluations pages: start, follow, inspect, compare and export an evaluation."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.evaluations import country_rows, create_testset, drawer, result_rows, run_evaluation, wait_for_state
from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import overflow, record_figure, take_screenshot, take_screenshots
from tests.e2e.test_hostile import PAYLOADS
from tests.e2e.test_long import LONG_TASKS, take_long_tasks
from tests.server_process import ServerProcess, server_process

FLOWS = Path(__file__).parent / "flows_evaluation.py"
ATLAS_VARIANTS = [
    {"name": "long", "workflow": "atlas"},
    {"name": "short", "workflow": "atlas", "parameters": {"style": "short"}},
]

LOADED = "(count) => document.querySelector('[role=grid] [role=rowgroup]').offsetHeight >= count * 60"
"""True once `count` results are loaded, however many of them are rendered."""


@pytest.fixture(scope="module")
def site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`palaver serve` with workflows to evaluate."""
    folder = tmp_path_factory.mktemp("evaluations")
    with server_process(folder, FLOWS.read_text("utf-8"), db=str(folder / "palaver.db")) as server:
        yield server


async def add_evaluator(dialog: Locator, words: str) -> None:
    """Add the first evaluator that matches `words`."""
    await dialog.get_by_role("searchbox", name="Find an evaluator").fill(words)
    await expect(dialog.get_by_role("list", name="Available evaluators").get_by_role("button").first).to_be_visible()
    await dialog.get_by_role("searchbox", name="Find an evaluator").press("Enter")


async def test_the_empty_page_explains_how_to_start_and_a_first_evaluation_is_run(
    page: Page, site: ServerProcess, watch: PageMonitor
) -> None:
    # Other tests may have created some.
    await page.route("**/api/evaluations?*", lambda route: route.fulfill(json={"data": [], "next": None}))
    await page.goto("/evaluations")
    await expect(page.get_by_role("heading", name="No evaluations yet")).to_be_visible()
    await expect(page.get_by_text("palaver eval")).to_be_visible()
    await take_screenshots(page, "evaluations-empty")
    await page.unroute("**/api/evaluations?*")

    set_id = await create_testset(
        site, "Capitals", country_rows([{"country": "Atlantis", "expected": "?", "region": "sea"}])
    )
    await page.goto(f"/evaluations?new=1&testset={set_id}")
    dialog = page.get_by_role("dialog", name="New evaluation")
    await expect(dialog.get_by_role("combobox", name="Test set", exact=True)).to_have_value(set_id)
    await dialog.get_by_role("button", name="Add a workflow").click()
    first = dialog.get_by_role("group", name="Variant 1")
    await first.get_by_role("combobox", name="Workflow").select_option("atlas")
    await dialog.get_by_role("button", name="Add another variant").click()
    second = dialog.get_by_role("group", name="Variant 2")
    await second.get_by_role("button", name="Parameters").click()
    await second.get_by_role("combobox", name="style").select_option("short")
    await second.get_by_role("textbox", name=re.compile("^Name")).fill("short")
    await dialog.get_by_role("searchbox", name="Find an evaluator").fill("contains")
    await dialog.get_by_role("button", name=re.compile(r"^Contains The text contains a substring")).click()
    await dialog.get_by_role("button", name="Add an evaluator").click()
    await add_evaluator(dialog, "regular")
    regex = dialog.get_by_role("group", name="Evaluator Regular expression")
    await regex.get_by_role("textbox", name="pattern").fill("^[A-Z")
    await expect(dialog).to_contain_text("8 rows × 2 variants: 16 cells")
    await dialog.get_by_role("button", name="Column mapping").click()
    await expect(dialog.get_by_role("combobox", name="Expected")).to_be_visible()
    await take_screenshots(page, "evaluations-new")

    # A server error is shown at its field.
    await dialog.get_by_role("button", name="Run", exact=True).click()
    await expect(regex.get_by_role("alert")).to_contain_text(
        re.compile("pattern|regular|bracket|character", re.IGNORECASE)
    )
    watch.forgive("422")
    await regex.get_by_role("textbox", name="pattern").fill("^[A-Z]")
    await regex.get_by_role("button", name="Try it").click()
    await regex.get_by_role("textbox", name=re.compile("^Answer")).fill("paris")
    await regex.get_by_role("button", name="Try", exact=True).click()
    await expect(regex.get_by_role("region", name="Score regex")).to_contain_text("failed")
    await dialog.get_by_role("button", name="Repeats and limits").click()
    await dialog.get_by_role("textbox", name=re.compile(r"^Name\s*optional")).fill("First try")
    await dialog.get_by_role("button", name="Run", exact=True).click()

    await expect(page).to_have_url(re.compile(r"/evaluations/ev_"))
    await wait_for_state(page, "Partial")  # The workflow does not know Atlantis.
    figures = page.get_by_role("region", name="Summary")
    await expect(figures.get_by_role("row", name=re.compile("^short"))).to_contain_text("1 failed call")
    await expect(page.get_by_role("button", name="Rerun failed")).to_be_visible()
    await page.goto("/evaluations")
    line = page.get_by_role("row", name=re.compile("First try"))
    await expect(line).to_contain_text("Capitals")
    await expect(line).to_contain_text("75%")
    await take_screenshots(page, "evaluations-list")


async def test_an_imported_file_of_questions_is_evaluated_with_a_chat(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "shop.csv"
    file.write_text(
        "question,expected\nHow long does a refund take?,14 days\nWhen is my delivery?,3 days\n", encoding="utf-8"
    )
    await page.goto("/testsets")
    await page.get_by_label("File to import").set_input_files(file)
    importing = page.get_by_role("dialog", name="Import test set")
    await importing.get_by_role("button", name="Import", exact=True).click()
    await importing.get_by_role("button", name="Open test set").click()
    await page.get_by_role("button", name="Evaluate").click()
    dialog = page.get_by_role("dialog", name="New evaluation")
    await dialog.get_by_role("button", name="Add a workflow").click()
    await dialog.get_by_role("combobox", name="Workflow").select_option("guide")
    await add_evaluator(dialog, "contains")

    columns = dialog.get_by_role("region", name="Column mapping")
    await expect(columns).to_contain_text("user message \u2190 question \u00b7 expected \u2190 expected")
    await columns.get_by_role("button", name="Column mapping").click()
    messages = columns.get_by_role("combobox", name="Messages")
    await expect(messages.locator("option:checked")).to_have_text("question (detected)")
    await take_screenshots(page, "evaluations-new-questions")
    await dialog.get_by_role("button", name="Run", exact=True).click()

    await expect(page).to_have_url(re.compile("/evaluations/ev_"))
    await wait_for_state(page)
    await expect(result_rows(page)).to_have_count(2)
    await result_rows(page).first.click()
    await expect(drawer(page).get_by_role("region", name="Input")).to_contain_text("How long does a refund take?")
    await expect(drawer(page).get_by_role("region", name="Output")).to_contain_text("Refunds take 14 days.")


async def test_a_rejected_evaluation_leads_to_the_invalid_field(
    page: Page, site: ServerProcess, watch: PageMonitor
) -> None:
    set_id = await create_testset(
        site, "Two texts", [{"problem": "When is my delivery?", "topic": "shop", "expected": "3 days"}]
    )
    await page.goto(f"/evaluations?new=1&testset={set_id}")
    dialog = page.get_by_role("dialog", name="New evaluation")
    await dialog.get_by_role("button", name="Add a workflow").click()
    await dialog.get_by_role("combobox", name="Workflow").select_option("guide")
    await add_evaluator(dialog, "contains")
    await dialog.get_by_role("button", name="Run", exact=True).click()

    messages = dialog.get_by_role("combobox", name="Messages")
    await expect(messages).to_be_focused()
    await expect(messages).to_be_in_viewport(ratio=1)
    await expect(dialog.get_by_role("alert")).to_contain_text("Workflow 'guide' requires messages.")
    await expect(dialog.get_by_role("status")).to_have_text("Fix this field: Column mapping, Messages")
    watch.forgive("422")
    await take_screenshots(page, "evaluations-new-refused")
    await dialog.get_by_role("textbox", name=re.compile(r"^Name\s*optional")).focus()
    await dialog.get_by_role("button", name="Column mapping, Messages").click()
    await expect(messages).to_be_focused()
    await messages.select_option(label="problem (text)")
    await expect(dialog.get_by_role("region", name="Column mapping")).to_contain_text("user message \u2190 problem")
    await dialog.get_by_role("button", name="Run", exact=True).click()
    await expect(page).to_have_url(re.compile("/evaluations/ev_"))
    await wait_for_state(page)


async def test_the_summary_shows_how_many_answers_were_not_scored_and_why(page: Page, site: ServerProcess) -> None:
    rows = [{"country": "Norway"}, {"country": "Ghana"}, {"country": "Atlantis", "expected": "?"}]
    set_id = await create_testset(site, "Gaps", country_rows(rows))
    evaluators = [{"key": "contains"}, {"key": "short"}]
    ev = await run_evaluation(site, name="Gaps", testset={"id": set_id}, variants=ATLAS_VARIANTS, evaluators=evaluators)
    await page.goto(f"/evaluations/{ev}")
    line = page.get_by_role("region", name="Summary").get_by_role("row", name=re.compile("^long"))
    await expect(line.get_by_role("button", name="1 failed call")).to_be_visible()
    contains, broken = line.get_by_role("cell").nth(0), line.get_by_role("cell").nth(1)
    await expect(contains).to_contain_text(
        re.compile("7 scored.*2 not scored.*Most often: the row has no expected answer")
    )
    await expect(broken).to_contain_text(re.compile("7 scored.*2 not scored2 evaluator errors.*KeyError: 'region'"))
    await take_screenshots(page, "evaluation-not-scored")
    await broken.get_by_role("button", name="2 evaluator errors").click()
    await expect(result_rows(page)).to_have_count(2)
    await page.goto("/evaluations")
    await expect(page.get_by_role("row", name=re.compile("Gaps"))).to_contain_text("2 not scored")
    await take_screenshots(page, "evaluations-list-not-scored")


async def test_figures_lead_to_results_and_results_to_their_answers(page: Page, site: ServerProcess) -> None:
    set_id = await create_testset(site, "Regions", country_rows())
    request = {
        "testset": {"id": set_id},
        "variants": ATLAS_VARIANTS,
        "evaluators": [{"key": "contains"}, {"key": "polite"}],
    }
    ev = await run_evaluation(site, name="Two styles", **request)
    await page.goto(f"/evaluations/{ev}")
    figures = page.get_by_role("region", name="Summary")
    await expect(figures.get_by_role("row", name=re.compile("^long"))).to_contain_text("85.7%")
    await expect(figures.get_by_role("row", name=re.compile("^short"))).to_contain_text("57.1%")
    await expect(result_rows(page)).to_have_count(14)
    await figures.get_by_role("combobox", name="Group by").select_option("region")
    await expect(
        page.get_by_role("table", name="contains, by group").get_by_role("row", name=re.compile("^europe"))
    ).to_contain_text("3 rows")
    await take_screenshots(page, "evaluation")
    await figures.get_by_role("combobox", name="Group by").select_option("")

    await figures.get_by_role("row", name=re.compile("^short")).get_by_role("button", name="3 not passed").click()
    await expect(result_rows(page)).to_have_count(3)
    await expect(page).to_have_url(re.compile(r"variant=short&evaluator=contains&passed=no"))
    await page.reload()
    await expect(result_rows(page)).to_have_count(3)
    # From one that did not pass to the next that did not.
    await result_rows(page).first.click()
    await expect(drawer(page).get_by_role("region", name="Expected")).to_contain_text("Lima")
    await page.keyboard.press("ArrowRight")
    await expect(drawer(page).get_by_role("region", name="Expected")).to_contain_text("Santiago")
    await page.keyboard.press("Escape")
    filters = page.get_by_role("group", name="Filters")
    await filters.get_by_role("searchbox", name="Search").fill("Chile")
    await expect(result_rows(page)).to_have_count(1)

    await result_rows(page).first.focus()
    await page.keyboard.press("Enter")
    cell = drawer(page)
    await expect(cell.get_by_role("region", name="Expected")).to_contain_text("Santiago")
    await expect(cell.get_by_role("region", name="Output")).to_contain_text("I do not know.")
    await expect(cell.get_by_role("region", name="Score contains")).to_contain_text("failed")
    await expect(cell.get_by_role("link", name="Trace")).to_have_attribute("href", re.compile("/traces/"))
    await take_screenshots(page, "evaluation-cell")
    await cell.get_by_role("group", name="Variants").get_by_role("button", name="long").click()
    await expect(cell.get_by_role("region", name="Output")).to_contain_text("The capital of Chile is Santiago.")
    await page.keyboard.press("ArrowRight")
    await expect(cell.get_by_role("region", name="Expected")).to_contain_text("Cardiff")
    await expect(cell.get_by_role("button", name="Next row")).to_be_disabled()
    await cell.get_by_role("button", name="Accept answer").click()
    await page.get_by_role("dialog", name="Accept this answer?").get_by_role("button", name="Accept").click()
    await expect(page.get_by_text("Saved as the expected answer in revision 2 of Regions.")).to_be_visible()
    await cell.get_by_role("button", name="Close").click()
    await expect(result_rows(page)).to_have_count(1)
    await expect(result_rows(page).first).to_be_focused()

    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Export").click()
        await page.get_by_role("menuitem", name="Spreadsheet (CSV)").click()
    assert (await saved.value).suggested_filename == f"{ev}.csv"


async def test_a_running_evaluation_is_followed_cancelled_rerun_and_deleted(page: Page, site: ServerProcess) -> None:
    set_id = await create_testset(
        site, "Long", [{"text": f"line {number}", "expected": f"line {number}"} for number in range(60)]
    )
    await page.goto(f"/evaluations?new=1&testset={set_id}")
    dialog = page.get_by_role("dialog", name="New evaluation")
    await dialog.get_by_role("button", name="Add a workflow").click()
    await dialog.get_by_role("combobox", name="Workflow").select_option("sleepy")
    await add_evaluator(dialog, "exact")
    await dialog.get_by_role("button", name="Repeats and limits").click()
    await dialog.get_by_role("spinbutton", name=re.compile("Concurrency")).fill("2")
    await dialog.get_by_role("button", name="Run", exact=True).click()

    progress = page.get_by_role("region", name="Progress")
    await expect(progress).to_contain_text(re.compile(r"\d+ of 60 cells .* per second .* left"))
    await expect(result_rows(page).first).to_be_visible()  # Results come while it runs.
    await take_screenshots(page, "evaluation-running")
    await page.get_by_role("button", name="Cancel").click()
    await wait_for_state(page, "Cancelled")
    await expect(progress).to_have_count(0)
    await page.get_by_role("button", name="Rerun failed").click()
    await expect(progress).to_be_visible()
    await page.get_by_role("button", name="Cancel").click()
    await wait_for_state(page, "Cancelled")
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page).to_have_url(re.compile("/evaluations$"))


async def test_two_variants_are_compared_row_by_row(page: Page, site: ServerProcess) -> None:
    set_id = await create_testset(site, "Compared", country_rows())
    ev = await run_evaluation(
        site,
        name="Styles",
        testset={"id": set_id},
        variants=ATLAS_VARIANTS,
        evaluators=[{"key": "contains"}, {"key": "levenshtein"}],
    )
    await page.goto(f"/evaluations/{ev}")
    await page.get_by_role("button", name="Compare with…").click()
    dialog = page.get_by_role("dialog", name="Compare")
    await expect(dialog.get_by_role("combobox", name="Base")).to_have_value(f"{ev}:long")
    await dialog.get_by_role("button", name="Compare", exact=True).click()

    verdicts = page.get_by_role("region", name="Verdicts")
    await expect(verdicts.get_by_role("button", name=re.compile("contains"))).to_contain_text(
        re.compile(r"Unclear: 85\.7% → 57\.1% \(.28\.6 points, 7 rows\)")
    )
    await expect(verdicts.get_by_role("button", name=re.compile("contains"))).to_contain_text(
        "rows like these would settle it"
    )
    regressions = page.get_by_role("region", name="Regressed")
    await expect(regressions.get_by_role("listitem")).to_have_count(2)
    await expect(regressions.get_by_role("listitem").first.get_by_role("region", name="Base output")).to_contain_text(
        "The capital of Peru is Lima."
    )
    await expect(
        regressions.get_by_role("listitem").first.get_by_role("region", name="Candidate output")
    ).to_contain_text("I do not know.")
    await expect(page.get_by_role("region", name="Fixed")).to_contain_text("No fixes.")
    await take_screenshots(page, "compare")
    await verdicts.get_by_role("button", name=re.compile("levenshtein")).click()
    await expect(page).to_have_url(re.compile("evaluator=levenshtein"))

    picture = page.get_by_role("slider", name=re.compile("Base and candidate scores"))
    await expect(picture.locator("circle")).to_have_count(7)
    await picture.locator("circle").nth(3).hover(force=True)
    await expect(picture).to_contain_text("Peru")
    await picture.locator("circle").nth(3).click(force=True)
    await expect(page).to_have_url(re.compile(rf"/evaluations/{ev}\?cell=cell_7"))
    await expect(drawer(page).get_by_role("region", name="Expected")).to_contain_text("Lima")


async def test_a_thousand_results_scroll_without_long_tasks(page: Page, site: ServerProcess) -> None:
    set_id = await create_testset(
        site, "Many", [{"country": f"Land {number}", "expected": "London"} for number in range(1_000)]
    )
    ev = await run_evaluation(
        site, testset={"id": set_id}, variants=ATLAS_VARIANTS[:1], evaluators=[{"key": "contains"}]
    )
    await page.goto(f"/evaluations/{ev}")
    await expect(result_rows(page).first).to_contain_text("Land 0")
    await page.evaluate(LONG_TASKS)
    await result_rows(page).first.focus()
    for count in (100, 200, 300):
        await page.wait_for_function(LOADED, arg=count)
        await page.keyboard.press("End")
    await expect(result_rows(page).filter(has_text="Land 299")).to_be_visible()
    assert await result_rows(page).count() < 60
    slowest = max(await take_long_tasks(page), default=0)
    record_figure("evaluation results: longest task while scrolling, ms", slowest)
    assert slowest < 400


async def test_a_script_is_shown_turn_by_turn_with_its_checks(page: Page, site: ServerProcess) -> None:
    script = {
        "turns": [
            {"user": "Hello", "expect": {"tools": "none", "text": "help"}},
            {"user": "How long does a refund take?", "expect": {"tools": [{"name": "search_docs"}], "text": "30 days"}},
        ]
    }
    set_id = await create_testset(site, "Scripts", [{"script": script}])
    ev = await run_evaluation(
        site,
        testset={"id": set_id},
        variants=[{"workflow": "guide"}],
        evaluators=[{"key": "turn_expectations"}],
        repeats=2,
    )
    await page.goto(f"/evaluations/{ev}?cell=cell_1")
    cell = drawer(page)
    await expect(cell.get_by_role("region", name="Turn 1")).to_contain_text("all checks passed")
    second = cell.get_by_role("region", name="Turn 2")
    await expect(second).to_contain_text("1 of 2 checks failed")
    await expect(second.get_by_role("region", name="Tool search_docs")).to_be_visible()
    await expect(second.get_by_role("article")).to_have_count(2)
    await expect(cell.get_by_role("group", name="Repeats").get_by_role("button", name="2")).to_have_attribute(
        "aria-pressed", "true"
    )
    await take_screenshots(page, "evaluation-script")


async def test_hostile_text_in_a_case_is_only_displayed(page: Page, site: ServerProcess) -> None:
    long = "x" * 90
    data = [
        {"messages": [{"role": "user", "content": payload}], "expected": payload, PAYLOADS[1]: payload}
        for payload in PAYLOADS
    ]
    set_id = await create_testset(site, PAYLOADS[1], data)
    ev = await run_evaluation(
        site,
        name=PAYLOADS[0] + long,
        testset={"id": set_id},
        variants=[{"name": PAYLOADS[2] + long, "workflow": "eliza"}, {"name": PAYLOADS[9], "column": "expected"}],
        evaluators=[{"key": "exact_match", "name": PAYLOADS[4] + long}, {"key": "levenshtein", "name": PAYLOADS[9]}],
    )
    pages = [
        "/evaluations",
        f"/evaluations?new=1&like={ev}",
        f"/evaluations/{ev}?slice=expected",
        f"/evaluations/{ev}?cell=cell_3",
        "/evaluations/compare?" + urlencode({"base": f"{ev}:{PAYLOADS[9]}", "candidate": f"{ev}:{PAYLOADS[2] + long}"}),
    ]
    for number, index in enumerate(pages):
        await page.goto(index)
        await expect(page.get_by_text(re.compile("window.caught")).first).to_be_visible()
        await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        await page.set_viewport_size({"width": 390, "height": 844})
        assert await overflow(page) <= 0, index
        await take_screenshot(page, f"evaluation-hostile-{number}")
        await page.set_viewport_size({"width": 1280, "height": 800})
    assert await page.evaluate("window.caught") is None
