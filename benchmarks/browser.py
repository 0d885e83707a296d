"""A browser under measurement: Debian's chromium as Playwright drives it, and the tasks of a page's main thread."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from benchmarks.context import MeasurementError
from tests import chromium

_LAPTOP: ViewportSize = {"width": 1280, "height": 800}
_TIMEOUT_MS = 60_000  # Milliseconds that anything may take.
_TRACE_CATEGORY = "disabled-by-default-devtools.timeline"
"""What the browser's own tools record of a thread; it costs a task about a microsecond."""


class LongestTask(msgspec.Struct, frozen=True):
    """What a thread did at most in one go, in milliseconds: meanwhile nobody's key is heard."""

    task: float = 0
    processor: float = 0
    """The most for which one of its tasks had a processor: what is more than that is the machine's."""


class TaskRecording:
    """A page's main thread; what it did is known in the end."""

    longest = LongestTask()


@asynccontextmanager
async def launch_browser() -> AsyncIterator[Browser]:
    """The browser, with a new profile that goes with it, which finds no other machine than this one."""
    try:
        program = chromium.program()
    except chromium.Unavailable as error:
        raise MeasurementError(str(error)) from None
    async with async_playwright() as playwright:
        options = [*chromium.OPTIONS, *chromium.LOOPBACK_ONLY]
        browser = await playwright.chromium.launch(executable_path=program, args=options)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_page(browser: Browser, port: int) -> AsyncIterator[Page]:
    """A visitor who has never been there: nothing is kept from one to the next."""
    context = await browser.new_context(base_url=f"http://127.0.0.1:{port}", viewport=_LAPTOP, locale="en-GB")
    context.set_default_timeout(_TIMEOUT_MS)
    try:
        yield await context.new_page()
    finally:
        await context.close()


@asynccontextmanager
async def record_tasks(page: Page) -> AsyncIterator[TaskRecording]:
    """What its main thread does inside."""
    watched = TaskRecording()
    browser = page.context.browser
    assert browser is not None
    await browser.start_tracing(page=page, categories=[_TRACE_CATEGORY])
    yield watched
    watched.longest = find_longest_task(await browser.stop_tracing())


class _Event(msgspec.Struct):
    pid: int
    tid: int
    name: str
    dur: int = 0
    tdur: int = 0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Trace(msgspec.Struct, rename={"events": "traceEvents"}):
    events: list[_Event]


def find_longest_task(trace: bytes) -> LongestTask:
    """Of the main threads of pages, as the browser recorded them."""
    events = msgspec.json.decode(trace, type=_Trace).events
    main = {(one.pid, one.tid) for one in events if one.name == "thread_name" and b"CrRendererMain" in bytes(one.args)}
    tasks = [one for one in events if one.name == "RunTask" and (one.pid, one.tid) in main]
    if not tasks:
        raise MeasurementError("the browser did not tell what its page did")
    # The browser looks at the thread's clock now and then only: at times a task is told to have used more than it took.
    processor = max(min(one.dur, one.tdur) for one in tasks)
    return LongestTask(max(one.dur for one in tasks) / 1000, processor / 1000)
