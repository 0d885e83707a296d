"""The page in a browser: its size, its first paint and the documentation's, and the longest tasks of its main thread.

The server is `palaver serve` with the workflows of tests/e2e, and the page is driven as there. For comparison, a bare
page of the same server puts the same text into as many elements.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from playwright.async_api import Browser, Error, Page, expect

from benchmarks import browser, servers
from benchmarks.browser import LongestTask
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_most, half_range
from benchmarks.servers import Server
from tests.e2e import flows
from tests.e2e.page_load import LONG_THREAD, first_paint, first_view_sizes, scroll_up, wait_for_text
from tests.e2e.playground import cell, messages, open_six_cells

_BUILD_DIR = Path(__file__).parents[2] / "src" / "palaver" / "web"
_BARE_PATH = "/health"
_LAST_MESSAGE = len(LONG_THREAD["messages"]) - 1
_TIMEOUT_MS = 60_000

PageAction = Callable[[Page], Awaitable[LongestTask]]
"""Does something on a page and returns the longest task meanwhile."""


class _Workload(NamedTuple):
    name: str
    ours: PageAction
    bare: PageAction
    how: str


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    if not (_BUILD_DIR / "index.html").exists():
        raise MeasurementError("the web interface is not built: make src/palaver/web/index.html")
    yield weight_figure(first_view_sizes(_BUILD_DIR))
    # On all cores, like the browser, as on a user's machine.
    with servers.run_palaver(context, record="full", file=flows.__file__, core=None) as server:
        yield from asyncio.run(_measure_page(context, server))


def weight_figure(sizes: dict[str, int]) -> Figure:
    """The size of a first visit, from the bytes of each file."""
    largest = max(sizes, key=lambda name: sizes[name])
    return Figure(
        name="size of the first view, gzipped",
        value=sum(sizes.values()) / 1000,
        unit="KB",
        goal=at_most(350),
        how=f"the document and the {len(sizes) - 1} files that it links to; the largest ({Path(largest).suffix}) is "
        f"{sizes[largest] / 1000:.0f} KB",
    )


async def _measure_page(context: BenchmarkContext, server: Server) -> list[Figure]:
    expect.set_options(timeout=_TIMEOUT_MS)
    try:
        async with browser.launch_browser() as chromium:
            return [figure async for figure in _figures(context, chromium, server)]
    except (Error, AssertionError) as error:  # Their messages have many lines.
        raise MeasurementError(
            f"the web interface did not behave as expected: {str(error).strip().splitlines()[0]}"
        ) from None


async def _figures(context: BenchmarkContext, chromium: Browser, server: Server) -> AsyncIterator[Figure]:
    times = context.choose(full=9, quick=2)
    yield await _paint_figure(chromium, server, times, "first contentful paint", "/")
    yield await _paint_figure(chromium, server, times, "first contentful paint of the documentation", "/docs/")
    thread: str = servers.request_json(server, "POST", "/api/threads", LONG_THREAD)["id"]
    for workload in _workloads(thread, up_to=context.choose(full=1701, quick=1901)):
        ours: list[LongestTask] = []
        bare: list[LongestTask] = []
        for _ in range(context.choose(full=5, quick=1)):
            for action, results in ((workload.bare, bare), (workload.ours, ours)):
                async with browser.open_page(chromium, server.port) as page:
                    results.append(await action(page))
        yield _task_figure(workload, ours, bare)


def _task_figure(workload: _Workload, ours: Sequence[LongestTask], bare: Sequence[LongestTask]) -> Figure:
    results = [task.task for task in ours]
    return Figure(
        name=f"longest task: {workload.name}",
        value=median(results),
        spread=half_range(results),
        unit="ms",
        goal=at_most(50),
        how=f"on the main thread of the web interface, {workload.how}; maximum CPU time of a task "
        f"{_processor_text(ours)}; on a bare "
        f"page that shows the same text {median(task.task for task in bare):.0f} ms and {_processor_text(bare)}; "
        f"medians of {len(ours)} runs",
    )


def _processor_text(tasks: Sequence[LongestTask]) -> str:
    return f"{median(task.processor for task in tasks):.1f} ms"


# The first visit


async def _paint_figure(chromium: Browser, server: Server, times: int, name: str, path: str) -> Figure:
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(times + 1):
        for visited, results in ((_BARE_PATH, bare), (path, ours)):
            async with browser.open_page(chromium, server.port) as page:
                await page.goto(visited)
                if visited == "/":
                    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
                results.append(await first_paint(page))
    paints = ours[1:]  # Without the warm-up of the browser.
    return Figure(
        name=name,
        value=median(paints),
        spread=half_range(paints),
        unit="ms",
        goal=at_most(1_000),
        how=f"empty browser cache, Chromium {chromium.version.partition('.')[0]} on the same machine; "
        f"median of {times}; {median(bare[1:]):.0f} ms for {_BARE_PATH}, one line of text from the same server",
    )


# Work for the main thread


def _workloads(thread: str, up_to: int) -> Sequence[_Workload]:
    return [
        _Workload(
            "six cells at 50 tokens/s each",
            _send_to_six_cells,
            lambda page: _stream_bare_page(page, "tutor", 6),
            "from sending to six cells to the end of their answers (200 words each, 20 ms apart)",
        ),
        _Workload(
            "an answer of 10,000 deltas",
            _send_to_hasty,
            lambda page: _stream_bare_page(page, "hasty", 1),
            "from sending to the end of the answer, which is Markdown at full speed",
        ),
        _Workload(
            f"scrolling {len(LONG_THREAD['messages']):,} messages",
            lambda page: _scroll_thread(page, thread, up_to),
            lambda page: _scroll_bare_page(page, up_to),
            f"while scrolling through the last {_LAST_MESSAGE - up_to + 1} messages, with code and lists, "
            "loaded on demand",
        ),
    ]


async def _send_to_six_cells(page: Page) -> LongestTask:
    await open_six_cells(page)
    return await _send_and_wait(page, "done.", times=6)


async def _send_to_hasty(page: Page) -> LongestTask:
    await page.goto("/play?workflow=hasty")
    return await _send_and_wait(page, "The end.", times=1)


async def _send_and_wait(page: Page, end: str, *, times: int) -> LongestTask:
    """Send a message and wait until that many answers have ended."""
    await page.get_by_role("textbox", name="Message", exact=True).fill("Go")
    async with browser.record_tasks(page) as recording:
        await page.keyboard.press("Enter")
        await wait_for_text(page, end, times=times)
    return recording.longest


async def _scroll_thread(page: Page, thread: str, up_to: int) -> LongestTask:
    await page.goto(f"/play/{thread}")
    await expect(messages(cell(page, 1)).last).to_contain_text(f"Message {_LAST_MESSAGE}")
    async with browser.record_tasks(page) as recording:
        await scroll_up(page, to=up_to)
    return recording.longest


# The same on a bare page

_STREAM_SCRIPT = """
([path, count]) => Promise.all(Array.from({length: count}, async () => {
  const place = document.body.appendChild(document.createElement('pre'));
  const answer = await fetch(path, {
    method: 'POST',
    headers: {'content-type': 'application/json', accept: 'text/event-stream'},
    body: JSON.stringify({messages: [{role: 'user', content: 'Go'}]}),
    signal: AbortSignal.timeout(60_000),
  });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) place.append(read.value);
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`);
}))
"""
_THREAD_SCRIPT = """
(texts) => {
  for (const text of texts) document.body.appendChild(document.createElement('pre')).append(text);
  window.scrollTo(0, document.body.scrollHeight);
}
"""
_SCROLL_SCRIPT = "new Promise((done) => { window.scrollBy(0, -1500); setTimeout(done, 100); })"


async def _stream_bare_page(page: Page, workflow: str, count: int) -> LongestTask:
    await page.goto(_BARE_PATH)
    async with browser.record_tasks(page) as recording:
        await page.evaluate(_STREAM_SCRIPT, [f"/{workflow}/invoke", count])
    return recording.longest


async def _scroll_bare_page(page: Page, up_to: int) -> LongestTask:
    await page.goto(_BARE_PATH)
    await page.evaluate(_THREAD_SCRIPT, [message["content"] for message in LONG_THREAD["messages"]])
    async with browser.record_tasks(page) as recording:
        for _ in range((_LAST_MESSAGE - up_to) // 10):
            await page.evaluate(_SCROLL_SCRIPT)
    return recording.longest
