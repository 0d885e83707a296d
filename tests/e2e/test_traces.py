"""The traces table: search, filters, saved views, live updates, hostile names, and many rows."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import (
    cell,
    overflow,
    record_figure,
    send_message,
    take_screenshot,
    take_screenshots,
    wait_for_answer,
)
from tests.e2e.test_hostile import ALL_PAYLOADS, PAYLOADS
from tests.e2e.test_long import LONG_TASKS, take_long_tasks
from tests.server import traced_server
from tests.server_process import ServerProcess, server_process


@asynccontextmanager
async def span_client(site: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of a program that sends spans."""
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=120) as http:
        yield http


async def send_all_spans(site: ServerProcess, *spans: Span) -> None:
    async with span_client(site) as http:
        for first in range(0, len(spans), 1_000):
            await traced_server.send_spans(http, *spans[first : first + 1_000])


def rows(page: Page, text: str | re.Pattern[str] = "") -> Locator:
    """The table rows with this text, without the header row."""
    return page.get_by_role("grid").locator("[data-place]").filter(has_text=text)


async def search(page: Page, text: str) -> None:
    await page.get_by_role("searchbox", name="Search", exact=True).fill(text)


async def add_filter(page: Page, field: str, comparison: str, value: str) -> None:
    """Add a condition with the filter form; the value is a select or a text field."""
    await page.get_by_role("button", name="Filter", exact=True).click()
    form = page.get_by_role("dialog", name="Filter")
    await form.get_by_label("Field").select_option(label=field)
    await form.get_by_label("Comparison").select_option(label=comparison)
    value_input = form.get_by_label("Value")
    if await value_input.evaluate("(field) => field.tagName") == "SELECT":
        await value_input.select_option(value)
    else:
        await value_input.fill(value)
    await form.get_by_role("button", name="Apply").click()


async def test_a_chat_is_one_row_and_hovering_shows_the_conversation(page: Page) -> None:
    await page.goto("/play?workflow=eliza")
    await send_message(page, "I need a holiday by the sea")
    await wait_for_answer(cell(page, 1), re.compile("holiday", re.IGNORECASE))
    await send_message(page, "My boss hates holidays")
    await wait_for_answer(cell(page, 1), re.compile("boss|holidays", re.IGNORECASE))

    await page.get_by_role("navigation", name="Pages").get_by_role("link", name="Traces").click()
    await search(page, "sea boss")
    row = rows(page)
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("eliza")
    await expect(row).to_contain_text("My boss hates holidays")
    await expect(row).to_contain_text("workflow")

    await row.get_by_role("button", name=re.compile("^Input of row 1")).hover()
    conversation = page.get_by_role("region", name="Full conversation")
    await expect(conversation.get_by_role("article")).to_have_count(4)
    await expect(conversation).to_contain_text("I need a holiday by the sea")
    await take_screenshot(page, "traces-hover")
    await page.mouse.move(2, 2)
    await expect(conversation).to_have_count(0)

    await row.focus()
    await page.keyboard.press("Tab")  # Without a mouse, too.
    await expect(conversation).to_contain_text("My boss hates holidays")


async def test_search_and_filters_are_stored_in_the_url(page: Page, site: ServerProcess) -> None:
    good = [traced_server.chat_span(f"fine{n}", f"apples {n}", "sweet", n, trace=f"fine{n}") for n in range(3)]
    bad = traced_server.chat_span("failed", "apples rotten", "", 5, trace="failed", gen_ai__output__messages="")
    bad.status.code, bad.status.message = 2, "The orchard is closed."  # type: ignore[assignment]
    await send_all_spans(site, *good, bad)

    await page.goto("/traces")
    await search(page, "apples")
    await expect(rows(page)).to_have_count(4)
    await add_filter(page, "Status", "is", "error")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("apples rotten")
    await expect(page).to_have_url(re.compile(r"q=apples&f=status"))

    await page.reload()
    await expect(rows(page)).to_have_count(1)
    chips = page.get_by_role("group", name="Filters")
    await expect(chips.get_by_role("button", name="Status is error", exact=True)).to_be_visible()
    await page.go_back()
    await expect(rows(page)).to_have_count(4)
    await page.go_forward()
    await expect(rows(page)).to_have_count(1)

    # Another condition: all of them have to hold, or any.
    await add_filter(page, "Name", "is", "fine1")
    await expect(page.get_by_role("heading", name="No matching traces")).to_be_visible()
    await page.get_by_role("button", name="Any of").click()
    await expect(rows(page)).to_have_count(2)
    await page.get_by_role("button", name="Remove the filter Status is error").click()
    await expect(rows(page)).to_have_count(1)
    await search(page, "pears")
    await page.get_by_role("button", name="Clear filters").click()
    await expect(page).to_have_url(re.compile(r"/traces$"))
    await expect(rows(page).nth(3)).to_be_visible()  # Rows of other tests are listed too and may be newer.


async def test_an_invalid_filter_shows_one_error(page: Page, watch: PageMonitor) -> None:
    await page.goto("/traces?f=colour~eq~red")
    await expect(page.get_by_role("alert")).to_contain_text("Unknown field 'colour'.")
    await expect(page.get_by_role("alert")).to_have_count(1)
    await page.get_by_role("button", name="Clear filters").click()
    await expect(page.get_by_role("alert")).to_have_count(0)
    watch.forgive("422|400")


async def test_spans_can_be_listed_as_rows_and_open_in_their_trace(page: Page, site: ServerProcess) -> None:
    conversation = traced_server.span("tree", 1, trace="tree", gen_ai__workflow__name="gardener")
    await send_all_spans(
        site, conversation, traced_server.chat_span("leaf", "is it green?", "yes", 2, trace="tree", parent="tree")
    )
    await page.goto("/traces?f=name~in~tree,leaf")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("gardener")

    await page.get_by_role("group", name="Rows").get_by_role("button", name="Spans").click()
    await expect(rows(page)).to_have_count(2)
    await rows(page).first.focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(
        f"{site.url}/traces/{traced_server.trace_id('tree')}?span={traced_server.span_id('leaf')}"
    )
    await page.go_back()
    await rows(page).nth(1).get_by_text("gardener").click()
    await expect(page).to_have_url(re.compile(traced_server.span_id("tree")))


async def test_a_view_is_saved_selected_changed_and_deleted(page: Page, site: ServerProcess) -> None:
    await send_all_spans(site, traced_server.chat_span("v", "views", "yes", trace="views"))
    await page.goto("/traces?q=views&range=24h&f=kind~eq~llm")
    await page.get_by_role("button", name="Views", exact=True).click()
    await page.get_by_role("menuitem", name="Save as new view").click()
    await page.get_by_role("textbox", name="Name").fill("Calls of a day")
    await page.keyboard.press("Enter")
    view_button = page.get_by_role("button", name="View Calls of a day")
    await expect(view_button).to_be_visible()

    await page.goto("/traces")
    await page.get_by_role("button", name="Views", exact=True).click()
    await page.get_by_role("menuitem", name="Calls of a day").click()
    await expect(page).to_have_url(re.compile(r"range=24h&q=views|q=views&range=24h"))
    await expect(rows(page)).to_have_count(1)
    await page.reload()
    await search(page, "nothing like it")
    await expect(page.get_by_role("heading", name="No matching traces")).to_be_visible()
    await expect(view_button).to_contain_text("(changed)")
    await view_button.click()
    await page.get_by_role("menuitem", name="Save changes").click()
    await expect(view_button).not_to_contain_text("(changed)")
    await page.get_by_role("button", name="Undo").click()
    await expect(view_button).to_contain_text("(changed)")
    await view_button.click()
    await page.get_by_role("menuitem", name="Delete").click()
    await expect(view_button).to_have_count(0)
    await page.get_by_role("button", name="Undo").last.click()
    await page.get_by_role("button", name="Views", exact=True).click()
    await expect(page.get_by_role("menuitem", name="Calls of a day")).to_be_visible()


async def test_live_rows_are_added_without_moving_a_scrolled_list(page: Page, site: ServerProcess) -> None:
    old = [traced_server.chat_span(f"o{n}", f"tide {n}", "in", -n, trace=f"o{n}") for n in range(60)]
    await send_all_spans(site, *old)
    await page.goto("/traces?q=tide")
    await expect(rows(page).first).to_contain_text("tide 0")
    await page.get_by_role("button", name="Live", exact=True).click()

    await send_all_spans(site, traced_server.chat_span("n1", "tide turns", "out", 10, trace="n1"))
    await expect(rows(page).first).to_contain_text("tide turns")

    box = page.get_by_role("grid").locator("xpath=..")
    await box.evaluate("(box) => box.scrollTo(0, 1200)")
    visible_row = rows(page, "tide 20")
    before = await visible_row.bounding_box()
    await send_all_spans(
        site, *(traced_server.chat_span(f"m{n}", f"tide more {n}", "out", 20 + n, trace=f"m{n}") for n in range(12))
    )
    pill = page.get_by_role("button", name="12 new")
    await expect(pill).to_be_visible()
    assert await visible_row.bounding_box() == before
    await take_screenshot(page, "traces-live")
    await pill.click()
    await expect(rows(page).first).to_contain_text("tide more 11")
    await expect(pill).to_have_count(0)


async def test_returning_from_a_trace_restores_the_scroll_position(page: Page, site: ServerProcess) -> None:
    await send_all_spans(
        site, *(traced_server.chat_span(f"r{n}", f"road {n}", "on", -n, trace=f"r{n}") for n in range(120))
    )
    await page.goto("/traces?q=road")
    box = page.get_by_role("grid").locator("xpath=..")
    await expect(rows(page).first).to_be_visible()
    await box.evaluate("(box) => box.scrollTo(0, 2400)")
    await rows(page, "road 45").click()
    await expect(page).to_have_url(f"{site.url}/traces/{traced_server.trace_id('r45')}")
    await send_all_spans(site, traced_server.chat_span("r-new", "road ahead", "on", 1, trace="r-new"))

    await page.go_back()
    await expect(rows(page, "road 45")).to_be_in_viewport()
    await page.get_by_role("button", name="1 new").click()  # New rows are counted although live mode is off.
    await expect(rows(page).first).to_contain_text("road ahead")


async def test_live_rows_are_added_without_a_socket(page: Page, watch: PageMonitor, site: ServerProcess) -> None:
    await page.route_web_socket(re.compile("/api/socket"), lambda socket: socket.close())
    await send_all_spans(site, traced_server.chat_span("q1", "quiet one", "yes", trace="q1"))
    await page.goto("/traces?q=quiet")
    await page.get_by_role("button", name="Live", exact=True).click()
    await send_all_spans(site, traced_server.chat_span("q2", "quiet two", "yes", 1, trace="q2"))
    await expect(rows(page)).to_have_count(2)
    watch.faults.clear()  # The browser's console messages about the socket.


async def test_selecting_a_bar_narrows_the_time_range(page: Page, site: ServerProcess) -> None:
    await send_all_spans(
        site, *(traced_server.chat_span(f"b{n}", f"bars {n}", "yes", n, trace=f"b{n}") for n in range(5))
    )
    await page.goto("/traces?q=bars")
    plot = page.get_by_role("slider", name="Traces over time")
    await expect(plot).to_have_attribute("aria-valuetext", "5")
    await plot.focus()
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("from=.*&to="))
    await expect(rows(page).first).to_be_visible()
    await page.get_by_role("button", name="Hide charts").click()
    await expect(plot).to_have_count(0)


async def test_hostile_names_are_displayed_as_text(page: Page, watch: PageMonitor, site: ServerProcess) -> None:
    spans = [
        Span(
            trace_id=bytes.fromhex(traced_server.trace_id(f"x{n}")),
            span_id=bytes.fromhex(traced_server.span_id(f"x{n}")),
            name=payload,
            start_time_unix_nano=traced_server.NOW + n,
            end_time_unix_nano=traced_server.NOW + n + 1,
            attributes=traced_server.pairs(
                {
                    "gen_ai.workflow.name": payload,
                    "gen_ai.request.model": payload,
                    "session.id": payload,
                    "user.id": payload,
                    "gen_ai.input.messages": json.dumps(
                        [{"role": "user", "parts": [{"type": "text", "content": ALL_PAYLOADS + " hostile"}]}]
                    ),
                    "gen_ai.output.messages": payload,
                    "__proto__": payload,
                }
            ),
        )
        for n, payload in enumerate(PAYLOADS)
    ]
    await send_all_spans(site, *spans)
    async with span_client(site) as http:
        (
            await http.post("/api/views", json={"name": PAYLOADS[1], "page": "traces", "body": {"search": PAYLOADS[0]}})
        ).raise_for_status()
    for kind in ("traces", "spans"):
        await page.goto(f"/traces?q=hostile&rows={kind}")
        await expect(rows(page)).to_have_count(len(PAYLOADS))
        await rows(page).nth(3).get_by_role("button").first.hover()
        await expect(page.get_by_role("region", name="Full conversation")).to_contain_text("window.caught")
        await take_screenshot(page, f"traces-hostile-{kind}")
    await page.get_by_role("button", name="Views", exact=True).click()
    await page.get_by_role("menuitem").first.click()
    await page.goto(f"/traces?q=hostile&f=@__proto__~exists&f={'name~ne~' + PAYLOADS[1]}")
    await expect(rows(page).first).to_be_visible()

    assert await page.evaluate("window.caught") is None
    assert watch.foreign == []
    links = await page.evaluate("[...document.querySelectorAll('a')].map((a) => a.protocol)")
    assert set(links) <= {"http:"}


async def test_twenty_thousand_spans_can_be_scrolled(page: Page, site: ServerProcess) -> None:
    spans = [
        traced_server.chat_span(f"{n:05}", f"flood {n}", "and so on", -n / 100, trace=f"z{n:05}") for n in range(20_000)
    ]
    await send_all_spans(site, *spans)
    await page.goto("/traces?rows=spans&range=24h&f=name~starts_with~0&f=name~starts_with~1&any=1")
    await expect(rows(page).first).to_contain_text("flood 0")
    await page.evaluate(LONG_TASKS)
    box = page.get_by_role("grid").locator("xpath=..")
    for _ in range(60):
        await box.evaluate("(box) => box.scrollBy(0, 4000)")
        await asyncio.sleep(0.1)
    tasks = await take_long_tasks(page)
    record_figure("long tasks while scrolling 20,000 spans, ms", max(tasks, default=0))
    assert max(tasks, default=0) < 5_000  # A generous limit; the recorded figure is what matters.
    indexes = await page.locator("[data-place]").evaluate_all("(rows) => rows.map((row) => Number(row.dataset.place))")
    assert max(indexes) > 1_000
    assert len(indexes) < 100


async def test_long_names_fit_on_every_screen_size(page: Page, site: ServerProcess) -> None:
    long = "w" * 300
    wide = traced_server.chat_span("wide", long, long, 30, trace="wide", session__id=long, gen_ai__workflow__name=long)
    wide.name = long
    await send_all_spans(site, wide)
    await page.goto(f"/traces?f=name~eq~{long}")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text(long[:200])  # A row shows the beginning.
    await take_screenshots(page, "traces")
    await page.set_viewport_size({"width": 390, "height": 844})
    await rows(page).first.click()
    await expect(page).to_have_url(re.compile(traced_server.trace_id("wide")))
    await expect(page.get_by_role("main")).to_contain_text(long[:200])
    assert await overflow(page) <= 0


async def test_the_empty_page_explains_how_to_send_traces(browser: Browser, built: Path, tmp_path: Path) -> None:
    with server_process(tmp_path, db=str(tmp_path / "palaver.db")) as server:
        context = await browser.new_context(base_url=server.url, reduced_motion="reduce", locale="en-GB")
        page = await context.new_page()
        await page.goto("/traces")
        await expect(page.get_by_role("heading", name="No traces yet")).to_be_visible()
        await expect(page.locator("pre")).to_contain_text(f"OTEL_EXPORTER_OTLP_ENDPOINT={server.url}")
        await take_screenshot(page, "traces-none")
        await send_all_spans(
            server, traced_server.chat_span("first", "hello", "hello", trace="first")
        )  # And it is there at once.
        await expect(rows(page)).to_have_count(1)
        await context.close()
