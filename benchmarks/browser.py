"""A browser to measure: Debian's Chromium, driven by Playwright, and the tasks of a page's main thread."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from benchmarks.context import MeasurementError
from tests import chromium

_LAPTOP: ViewportSize = {"width": 1280, "height": 800}
_TIMEOUT_MS = 60_000
_TRACE_CATEGORY = "disabled-by-default-devtools.timeline"
"""The DevTools category that contains tasks. Recording takes about a microsecond per task."""


class LongestTask(msgspec.Struct, frozen=True):
    """The longest task of a thread, in milliseconds. The page handles no input during a task."""

    task: float = 0
    processor: float = 0
    """The longest processor time of a task; the rest of its duration was spent waiting for a core."""


class TaskRecording:
    """A recording of a page's main thread; `longest` is set when it ends."""

    longest = LongestTask()


@asynccontextmanager
async def launch_browser() -> AsyncIterator[Browser]:
    """Launch the browser with a temporary profile and access to loopback only."""
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
    """Open a page in a new context, without cache or storage."""
    context = await browser.new_context(base_url=f"http://127.0.0.1:{port}", viewport=_LAPTOP, locale="en-GB")
    context.set_default_timeout(_TIMEOUT_MS)
    try:
        yield await context.new_page()
    finally:
        await context.close()


@asynccontextmanager
async def record_tasks(page: Page) -> AsyncIterator[TaskRecording]:
    """Record the tasks of the page's main thread inside the block."""
    recording = TaskRecording()
    browser = page.context.browser
    assert browser is not None
    await browser.start_tracing(page=page, categories=[_TRACE_CATEGORY])
    yield recording
    recording.longest = find_longest_task(await browser.stop_tracing())


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
    """Return the longest task of the pages' main threads in a recorded trace."""
    events = msgspec.json.decode(trace, type=_Trace).events
    main_threads = {
        (event.pid, event.tid)
        for event in events
        if event.name == "thread_name" and b"CrRendererMain" in bytes(event.args)
    }
    tasks = [event for event in events if event.name == "RunTask" and (event.pid, event.tid) in main_threads]
    if not tasks:
        raise MeasurementError("the browser recorded no tasks of the main thread")
    # The browser samples the thread's clock: sometimes a task's processor time exceeds its duration.
    processor = max(min(event.dur, event.tdur) for event in tasks)
    return LongestTask(max(event.dur for event in tasks) / 1000, processor / 1000)
