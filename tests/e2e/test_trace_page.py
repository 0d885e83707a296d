"""The page of a trace: tree, timeline, conversation, and continuing it as a thread; and sessions."""

import asyncio
import re
import time
from typing import Any

import httpx
import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e import otlp_spans
from tests.e2e.otlp_spans import chat_attributes, make_span, message, span_id, trace_id
from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import (
    cell,
    messages,
    overflow,
    record_figure,
    send_message,
    take_screenshot,
    take_screenshots,
    wait_for_answer,
)
from tests.e2e.test_hostile import OPEN_ALL, PAYLOADS
from tests.e2e.test_long import LONG_TASKS, take_long_tasks
from tests.server_process import ServerProcess


@pytest.fixture(autouse=True)
def recent_base_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Date the spans just before each test, however long ago this file was imported."""
    monkeypatch.setattr(otlp_spans, "BASE_TIME_NS", time.time_ns() - 120_000_000_000)


MAX_TASK_MS = 1_500
"""A task that is longer freezes the page, even on a busy machine."""


def tree(page: Page) -> Locator:
    return page.get_by_role("tree", name="Spans of the trace")


def row(page: Page, name: str | re.Pattern[str]) -> Locator:
    return tree(page).get_by_role("treeitem").filter(has_text=name)


async def run_chat(site: ServerProcess, model: str, text: str) -> str:
    """Run a workflow over Chat Completions and return the id of its trace once it is stored."""
    return await run_workflow(
        site, "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": text}]}
    )


async def run_workflow(site: ServerProcess, path: str, body: dict[str, Any]) -> str:
    """Send a request and return the id of its run's trace once it is stored."""
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as http:
        trace = (await http.post(path, json=body)).headers["x-palaver-trace-id"]
        for _ in range(200):
            if (await http.get(f"/api/traces/{trace}")).status_code == 200:
                return trace
            await asyncio.sleep(0.05)
    raise AssertionError("the trace never came")


async def test_a_run_with_tools_is_shown_as_tree_timeline_and_conversation(page: Page, site: ServerProcess) -> None:
    trace = await run_chat(site, "calculator", "(2 + 3) * 4")
    await page.goto(f"/traces/{trace}")

    await expect(page.get_by_role("heading", name="invoke_workflow calculator")).to_be_visible()
    await expect(tree(page).get_by_role("treeitem")).to_have_count(3)
    await expect(row(page, "execute_tool add")).to_have_attribute("aria-level", "2")
    await expect(page.get_by_role("group", name="Timeline")).to_be_visible()
    await expect(page.get_by_role("article", name="You")).to_contain_text("(2 + 3) * 4")
    await expect(page.get_by_role("article", name="Assistant")).to_contain_text("The answer is 20.")
    await expect(page.get_by_role("region", name="Tool multiply")).to_be_visible()
    await take_screenshots(page, "trace")

    await tree(page).focus()  # The usual keys of a tree; all views share one selection, which is in the URL.
    await page.keyboard.press("End")
    await expect(row(page, "execute_tool multiply")).to_have_attribute("aria-selected", "true")
    await expect(page.get_by_role("article", name="Span")).to_contain_text("execute_tool multiply")
    await expect(page).to_have_url(re.compile(r"\?span=[0-9a-f]{16}$"))
    await page.keyboard.press("ArrowLeft")
    await expect(row(page, "invoke_workflow")).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("ArrowLeft")
    await expect(tree(page).get_by_role("treeitem")).to_have_count(1)
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowDown")
    await expect(row(page, "execute_tool add")).to_have_attribute("aria-selected", "true")
    await take_screenshots(page, "trace-span")

    await page.reload()
    await expect(row(page, "execute_tool add")).to_have_attribute("aria-selected", "true")
    await expect(page.get_by_role("article", name="Span").get_by_role("region", name="Inputs")).to_contain_text("a: 2")


async def test_a_trace_can_be_continued_in_the_playground_with_its_workflow(page: Page, site: ServerProcess) -> None:
    trace = await run_chat(site, "calculator", "(2 + 3) * 4")
    await page.goto(f"/traces/{trace}")
    await page.get_by_role("button", name="Open in playground").click()
    await expect(page).to_have_url(re.compile(r"/play/conv_"))
    await expect(messages(cell(page, 1)).last).to_contain_text("The answer is 20.")

    await send_message(page, "6 * 7")
    await wait_for_answer(cell(page, 1), "The answer is 42.")

    # From any turn: the question is answered again by the workflow.
    await page.goto(f"/traces/{trace}")
    user_messages = page.get_by_role("article", name="You")
    await user_messages.hover()
    await user_messages.get_by_role("button", name="Continue from here").click()
    await expect(page).to_have_url(re.compile(r"/play/conv_"))
    await expect(messages(cell(page, 1))).to_have_count(1)
    await messages(cell(page, 1)).first.hover()
    await messages(cell(page, 1)).first.get_by_role("button", name="Send again").click()
    await wait_for_answer(cell(page, 1), "The answer is 20.")


async def test_a_single_turn_trace_can_be_rerun_with_its_inputs(page: Page, site: ServerProcess) -> None:
    trace = await run_workflow(site, "/services/shout", {"text": "so what"})
    await page.goto(f"/traces/{trace}")
    await expect(page.locator("main")).to_contain_text("SO WHAT")
    await take_screenshot(page, "trace-single-turn")
    await page.get_by_role("button", name="Open in playground").click()

    await expect(page).to_have_url(re.compile(r"/play/(?!conv_)\w+"))
    await page.get_by_role("button", name="Run row 1", exact=True).click()
    await expect(page.get_by_role("table", name="Rows and answers")).to_contain_text("SO WHAT")


async def test_continuing_a_trace_of_an_unknown_workflow_asks_for_one(page: Page, site: ServerProcess) -> None:
    attributes = chat_attributes([message("user", "Who are you?")], [message("assistant", "A shop.")])
    otlp_spans.send_spans(site.url, make_span(1, 1, "chat gpt-4o", attributes=attributes))
    await page.goto(f"/traces/{trace_id(1)}")
    await page.get_by_role("button", name="Open in playground").click()
    question = page.get_by_role("dialog", name="Continue with which workflow?")
    await take_screenshot(page, "trace-which-workflow")
    await question.get_by_role("button", name="tutor").click()

    await expect(page).to_have_url(re.compile(r"/play/conv_"))
    await expect(messages(cell(page, 1)).last).to_contain_text("A shop.")
    await expect(page.get_by_text("Left out values that tutor does not accept: temperature")).to_be_visible()
    await send_message(page, "And now?")
    await wait_for_answer(cell(page, 1), "On maths, you said 'And now?'")


async def test_an_agent_trace_shows_errors_orphans_and_span_details(page: Page, site: ServerProcess) -> None:
    definitions = [{"type": "function", "name": "weather", "parameters": {"type": "object"}}]
    raised = {
        "exception.type": "TimeoutError",
        "exception.message": "No answer within 5 s",
        "exception.stacktrace": "…",
    }
    event = {
        "name": "exception",
        "timeUnixNano": str(otlp_spans.BASE_TIME_NS),
        "attributes": otlp_spans.key_values(raised),
    }
    call = chat_attributes(
        [message("user", "Weather in Oslo?")], [message("assistant", "Sunny.")], gen_ai__tool__definitions=definitions
    )
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "guide", "session.id": "oslo"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}
    attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "Oslo weather"}
    otlp_spans.send_spans(
        site.url,
        make_span(2, 1, "invoke_agent guide", ms=2_400, attributes=agent),
        make_span(2, 2, "search the archive", parent=1, at=40, ms=310, attributes=attributes),
        make_span(2, 3, "chat gpt-4o", parent=1, at=380, ms=900, attributes=call),
        make_span(2, 4, "weather", parent=1, at=1_300, ms=700, failed="No answer", events=[event], attributes=tool),
        make_span(2, 5, "GET /forecast", parent=4, at=1_350, ms=600, attributes={"http.route": "/forecast"}),
        make_span(2, 6, "lost one", parent=99, at=1_400, ms=10),
    )
    await page.goto(f"/traces/{trace_id(2)}")

    await expect(row(page, "lost one")).to_contain_text("orphan")
    await expect(page.get_by_role("article", name="Assistant")).to_contain_text("Sunny.")
    await expect(page.get_by_role("link", name="oslo")).to_be_visible()
    await take_screenshots(page, "trace-agent")
    await page.set_viewport_size({"width": 390, "height": 844})
    for view in ("Timeline", "Tree"):  # On a phone they are tabs; a row leads to its span.
        await page.get_by_role("group", name="View").get_by_role("button", name=view).click()
        await expect(row(page, "GET /forecast")).to_be_visible()
        assert await overflow(page) <= 0
        await take_screenshot(page, f"trace-{view.lower()}-phone")
    await row(page, "GET /forecast").click()
    await expect(page.get_by_role("article", name="Span")).to_contain_text("GET /forecast")
    await page.set_viewport_size({"width": 1280, "height": 800})
    await page.get_by_role("button", name="Next error").click()
    await expect(row(page, "weather")).to_have_attribute("aria-selected", "true")
    detail = page.get_by_role("article", name="Span")
    await expect(detail.get_by_role("alert")).to_contain_text("No answer within 5 s")
    await detail.get_by_role("button", name="Events").click()
    await expect(detail.get_by_role("row", name="exception.type")).to_contain_text("TimeoutError")
    await take_screenshots(page, "trace-failed-span")

    await page.get_by_role("searchbox", name="Find spans").fill("sunny")  # In texts that only the server has.
    await expect(page.get_by_text("1 found")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(row(page, "chat gpt-4o")).to_have_attribute("aria-selected", "true")
    await detail.get_by_role("button", name="Parameters").click()
    await expect(detail.get_by_role("region", name="Parameters")).to_contain_text("temperature: 0.2")
    await expect(detail.get_by_role("region", name="Details")).to_contain_text("31 in, 9 out")

    await page.get_by_role("button", name="Zoom in").click()
    await expect(page.get_by_role("button", name="Zoom to whole trace")).to_be_enabled()
    for kind in ("Spans", "OTLP", "Web page"):
        await page.get_by_role("button", name="Export").click()
        async with page.expect_download() as saved:
            await page.get_by_role("menuitem", name=kind).click()
        assert "invoke_agent guide" in (await (await saved.value).path()).read_text("utf-8")


async def test_thirty_thousand_spans_do_not_freeze_the_page(page: Page, site: ServerProcess) -> None:
    spans = [make_span(3, 0, "crawl", ms=30_000, attributes={"gen_ai.operation.name": "invoke_agent"})]
    for number in range(1, 30_000):
        parent = 0 if number % 100 == 1 else number - (number - 1) % 100
        kind = {"gen_ai.operation.name": ("chat", "execute_tool", "retrieval")[number % 3]}
        failed = "broken" if number == 25_050 else None
        spans.append(
            make_span(3, number, f"step {number}", parent=parent, at=number, ms=5, failed=failed, attributes=kind)
        )
    await asyncio.to_thread(otlp_spans.send_spans, site.url, *spans)
    await page.add_init_script(LONG_TASKS)
    await page.goto(f"/traces/{trace_id(3)}")
    await expect(page.get_by_text("30,000 spans", exact=True)).to_be_visible()
    await expect(row(page, "crawl")).to_be_visible()
    await expect(page.get_by_text("Loading spans")).to_have_count(0)

    await page.get_by_role("button", name="Expand all").click()
    await tree(page).focus()
    await page.keyboard.press("End")
    await expect(row(page, "step 29999")).to_have_attribute("aria-selected", "true")
    for _ in range(20):
        await tree(page).evaluate("(box) => box.scrollBy(0, -20000)")
        await page.evaluate("new Promise((done) => requestAnimationFrame(done))")
    await page.get_by_role("button", name="Next error").click()
    await expect(row(page, "step 25050")).to_have_attribute("aria-selected", "true")
    await page.get_by_role("button", name="Collapse all").click()
    await page.get_by_role("button", name="Zoom in").click()
    assert await tree(page).get_by_role("treeitem").count() < 100  # Only visible rows are rendered.
    await take_screenshot(page, "trace-of-30000-spans")

    tasks = await take_long_tasks(page)
    record_figure("long tasks with a trace of 30,000 spans, ms", max(tasks, default=0))
    assert max(tasks, default=0) < MAX_TASK_MS


async def test_a_message_of_four_megabytes_does_not_freeze_the_page(page: Page, site: ServerProcess) -> None:
    parts = [f"part {number} " + "word " * 180_000 for number in range(5)]  # A single text is cut at a mebibyte.
    attributes = chat_attributes(
        [message("user", *parts)], [message("assistant", "That is a lot, said the **last** word.")]
    )
    otlp_spans.send_spans(site.url, make_span(4, 1, "chat gpt-4o", attributes=attributes))
    await page.add_init_script(LONG_TASKS)
    await page.goto(f"/traces/{trace_id(4)}")

    user_messages = page.get_by_role("article", name="You")
    await expect(user_messages).to_contain_text("part 4")
    await expect(page.get_by_text(re.compile(r"4\.\d MB not shown"))).to_be_visible()
    await page.get_by_role("button", name="Show all").click()
    await expect(user_messages.get_by_role("button", name=re.compile("Show more"))).to_have_count(5)
    await user_messages.get_by_role("button", name=re.compile("Show more")).first.click()
    await expect(user_messages.get_by_role("button", name="Show more (680 KB)")).to_be_visible()
    await take_screenshot(page, "trace-of-4-mb")

    await tree(page).get_by_role("treeitem").first.click()
    span_view = page.get_by_role("article", name="Span")
    await expect(span_view).to_contain_text("truncated (")
    await span_view.get_by_role("button", name="Show all").first.click()
    await expect(span_view.get_by_role("button", name=re.compile("Show more"))).to_have_count(5)
    await span_view.get_by_role("button", name="Attributes").click()
    await expect(span_view.get_by_role("region", name="Attributes")).to_contain_text("gen_ai.request.model")

    tasks = await take_long_tasks(page)
    record_figure("long tasks with a message of 4 MB, ms", max(tasks, default=0))
    assert max(tasks, default=0) < MAX_TASK_MS


async def test_three_traces_of_a_session_are_one_thread_with_a_tab_for_a_branch(
    page: Page, site: ServerProcess
) -> None:
    name = "müller/42 %2F?"
    first = [message("user", "Hi"), message("assistant", "Hello, Ms Müller.")]
    second = [message("user", "My order?"), message("assistant", "It is on its way.")]
    other = [message("user", "A refund, please."), message("assistant", "Of course.")]
    turns = [(first[:1], first[1:]), ([*first, second[0]], second[1:]), ([*first, other[0]], other[1:])]
    for index, (question, answer) in enumerate(turns):
        attributes = chat_attributes(question, answer, session__id=name)
        otlp_spans.send_spans(
            site.url, make_span(10 + index, 1, "chat gpt-4o", at=index * 1_000, attributes=attributes)
        )
    await page.goto("/sessions")
    session_links = page.get_by_role("list", name="Sessions").get_by_role("link").filter(has_text=name)
    await expect(session_links).to_contain_text("3 traces")
    await expect(session_links).to_contain_text("Hi")
    await expect(session_links).to_contain_text("Of course.")
    await take_screenshots(page, "sessions")
    await page.get_by_role("searchbox", name="Find a session").fill("nobody's")
    await expect(page.get_by_text("No matching sessions")).to_be_visible()
    await page.get_by_role("searchbox", name="Find a session").fill("müller/42 %")
    await session_links.click()

    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    articles = page.get_by_role("article")
    await expect(articles).to_have_text([re.compile(text) for text in ("Hi", "Hello", "A refund", "Of course")])
    await page.get_by_role("tab", name="First").click()
    await expect(articles).to_have_text([re.compile(text) for text in ("Hi", "Hello", "My order", "on its way")])
    await page.get_by_role("tab", name="Branch 1").click()
    await take_screenshots(page, "session")
    await page.reload()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()

    await page.get_by_role("button", name="Open in playground").click()
    await page.get_by_role("dialog").get_by_role("button", name="tutor").click()
    await expect(page).to_have_url(re.compile(r"/play/conv_"))
    await expect(messages(cell(page, 1))).to_have_count(4)
    await page.go_back()
    await page.get_by_role("link", name=re.compile(r"^Trace 0{8}")).last.click()
    await expect(page.get_by_role("heading", name="chat gpt-4o").first).to_be_visible()


async def test_more_sessions_are_loaded_while_scrolling(page: Page, site: ServerProcess) -> None:
    for number in range(130):
        attributes = chat_attributes(
            [message("user", f"Question {number}")], [message("assistant", "Yes.")], session__id=f"many-{number}"
        )
        otlp_spans.send_spans(site.url, make_span(1_000 + number, 1, "chat gpt-4o", at=number, attributes=attributes))
    await page.goto("/sessions")
    await page.get_by_role("searchbox", name="Find a session").fill("many-")
    sessions = page.get_by_role("list", name="Sessions")
    rows = sessions.get_by_role("listitem")
    await expect(rows.first).to_contain_text("many-129")
    first = rows.filter(has_text="Question 0")
    for _ in range(100):
        if await first.count():
            break
        await sessions.evaluate("(list) => list.closest('.overflow-y-auto').scrollBy(0, 2000)")
        await asyncio.sleep(0.1)

    await expect(first).to_contain_text("many-0")
    assert await rows.count() < 60  # Rows outside the view are not rendered.


async def test_hostile_span_content_is_displayed_as_text(page: Page, watch: PageMonitor, site: ServerProcess) -> None:
    everything = "\n\n".join(PAYLOADS)
    names = ["__proto__", "constructor", "__proto__.polluted", "toString", "a..b", "\u202eevil", *PAYLOADS]
    attributes = chat_attributes(
        [message("user", everything)],
        [message("assistant", everything)],
        session__id=PAYLOADS[0],
        user__id=PAYLOADS[1],
    )
    attributes |= dict.fromkeys(names, everything)
    attributes |= {"gen_ai.request.model": PAYLOADS[1], "nested": [{"__proto__": {"polluted": 1}, "x": PAYLOADS[0]}]}
    event = {
        "name": PAYLOADS[1],
        "timeUnixNano": str(otlp_spans.BASE_TIME_NS),
        "attributes": otlp_spans.key_values({"__proto__": PAYLOADS[0]}),
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": PAYLOADS[1], "input.value": everything}
    otlp_spans.send_spans(
        site.url,
        make_span(5, 1, PAYLOADS[1], failed=everything, events=[event], attributes=attributes),
        make_span(5, 2, PAYLOADS[9], parent=1, attributes=tool),
        make_span(5, 3, "javascript:window.caught=1", parent=2, attributes={"url.full": "javascript:window.caught=1"}),
        service=PAYLOADS[0],
    )

    for path in (
        f"/traces/{trace_id(5)}",
        f"/traces/{trace_id(5)}?span={span_id(1)}",
        f"/traces/{trace_id(5)}?span={span_id(2)}",
    ):
        await page.goto(path)
        await expect(row(page, "onerror")).to_be_visible()
        await page.locator("main").evaluate(OPEN_ALL)
    await page.goto(f"/traces/{trace_id(5)}?span={span_id(1)}")
    attributes_region = page.get_by_role("region", name="Attributes", exact=True)
    await attributes_region.get_by_role("button", name="Attributes").click()
    for name in ("__proto__", "constructor", "toString"):
        await expect(attributes_region.get_by_role("rowheader", name=name, exact=True)).to_be_visible()
    await take_screenshot(page, "trace-hostile")
    await page.goto("/sessions")
    await page.get_by_role("searchbox", name="Find a session").fill("window.caught")
    await page.get_by_role("list", name="Sessions").get_by_role("link").filter(has_text="window.caught").first.click()
    await expect(page.get_by_role("article", name="You")).to_be_visible()

    assert await page.evaluate("window.caught") is None
    assert await page.evaluate("({}).polluted") is None
    assert watch.foreign == []
    links = await page.evaluate("[...document.querySelectorAll('a')].map((a) => a.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}
    assert await overflow(page) <= 0


async def test_an_unknown_trace_is_reported_and_shown_once_it_arrives(
    page: Page, watch: PageMonitor, site: ServerProcess
) -> None:
    await page.goto(f"/traces/{trace_id(7)}")
    await expect(page.get_by_role("heading", name="Trace not found")).to_be_visible()
    await take_screenshot(page, "trace-missing")

    # The inner span ends first, then the outer one: the page shows both without a reload.
    otlp_spans.send_spans(site.url, make_span(7, 2, "inner step", parent=1, at=119_000))
    await expect(row(page, "inner step")).to_be_visible()
    await expect(page.get_by_text("Still running")).to_be_visible()
    otlp_spans.send_spans(site.url, make_span(7, 1, "outer", at=118_000, ms=2_000))
    await expect(row(page, "outer")).to_be_visible()
    await expect(page.get_by_text("Still running")).to_have_count(0)
    watch.forgive("404")
