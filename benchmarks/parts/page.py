"""The page in a browser: what it weighs, how soon it is drawn, and for how long its main thread is not free.

The server is `palaver serve` with the workflows of tests/e2e; what is done to the page is what is done there. Beside it
stands a bare page of the same server, which puts the same text into as many elements and does nothing else.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from playwright.async_api import Browser, Error, Page, expect

from benchmarks import browser, servers
from benchmarks.browser import Longest
from benchmarks.figures import Figure, at_most, half_range
from benchmarks.servers import Server
from benchmarks.stand import CannotMeasure, Stand
from tests.e2e import flows
from tests.e2e.measuring import LONG_THREAD, first_paint, first_view, said, scroll_up
from tests.e2e.playing import cell, messages, six

_BUILT = Path(__file__).parents[2] / "src" / "palaver" / "web"
_BARE = "/health"
_LAST = len(LONG_THREAD["messages"]) - 1
_PATIENCE = 60_000

Deed = Callable[[Page], Awaitable[Longest]]
"""Something that is done to a page, and what kept its main thread longest meanwhile."""


class _Work(NamedTuple):
    name: str
    ours: Deed
    bare: Deed
    how: str


def measure(stand: Stand) -> Iterator[Figure]:
    if not (_BUILT / "index.html").exists():
        raise CannotMeasure("the page is not built: make src/palaver/web/index.html")
    yield weight(first_view(_BUILT))
    # On all cores, as is the browser: a person's machine does not keep them apart.
    with servers.palaver(stand, record="full", file=flows.__file__, core=None) as server:
        yield from asyncio.run(_seen(stand, server))


def weight(sizes: dict[str, int]) -> Figure:
    """What a first visit loads, from the bytes of each file."""
    largest = max(sizes, key=lambda name: sizes[name])
    return Figure(
        name="first view, gzip'd",
        value=sum(sizes.values()) / 1000,
        unit="KB",
        goal=at_most(350),
        how=f"the document and the {len(sizes) - 1} files that it names; the largest, a {Path(largest).suffix}, has "
        f"{sizes[largest] / 1000:.0f} KB",
    )


async def _seen(stand: Stand, server: Server) -> list[Figure]:
    expect.set_options(timeout=_PATIENCE)
    try:
        async with browser.started() as chromium:
            return [figure async for figure in _figures(stand, chromium, server)]
    except (Error, AssertionError) as error:  # They go on for many lines.
        raise CannotMeasure(f"the page did not do as expected: {str(error).strip().splitlines()[0]}") from None


async def _figures(stand: Stand, chromium: Browser, server: Server) -> AsyncIterator[Figure]:
    yield await _paint(chromium, server, stand.choose(full=9, quick=2))
    thread: str = servers.ask(server, "POST", "/api/threads", LONG_THREAD)["id"]
    for work in _works(thread, up_to=stand.choose(full=1701, quick=1901)):
        ours: list[Longest] = []
        bare: list[Longest] = []
        for _ in range(stand.choose(full=5, quick=1)):
            for deed, taken in ((work.bare, bare), (work.ours, ours)):
                async with browser.visiting(chromium, server.port) as page:
                    taken.append(await deed(page))
        yield _longest(work, ours, bare)


def _longest(work: _Work, ours: Sequence[Longest], bare: Sequence[Longest]) -> Figure:
    taken = [one.task for one in ours]
    return Figure(
        name=f"longest task, {work.name}",
        value=median(taken),
        spread=half_range(taken),
        unit="ms",
        goal=at_most(50),
        how=f"of the page's main thread {work.how}; most processor time of one {_processor(ours)}; a bare page that "
        f"shows the same text {median(one.task for one in bare):.0f} ms, {_processor(bare)}; medians of {len(ours)}",
    )


def _processor(found: Sequence[Longest]) -> str:
    return f"{median(one.processor for one in found):.1f} ms"


# The first visit


async def _paint(chromium: Browser, server: Server, times: int) -> Figure:
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(times + 1):
        for path, taken in ((_BARE, bare), ("/", ours)):
            async with browser.visiting(chromium, server.port) as page:
                await page.goto(path)
                if taken is ours:
                    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
                taken.append(await first_paint(page))
    drawn = ours[1:]  # The browser's own first visit to anything is not the page's.
    return Figure(
        name="first contentful paint",
        value=median(drawn),
        spread=half_range(drawn),
        unit="ms",
        goal=at_most(1_000),
        how=f"a new visitor with nothing kept, Chromium {chromium.version.partition('.')[0]} on the same machine; "
        f"median of {times}; {_BARE}, one line of text from the same server: {median(bare[1:]):.0f} ms",
    )


# Work for the main thread


def _works(thread: str, up_to: int) -> Sequence[_Work]:
    return [
        _Work(
            "six cells of 50 tokens/s",
            _six,
            lambda page: _bare_streams(page, "tutor", 6),
            "from sending to six of them to the end of their answers, 200 words each, 20 ms apart",
        ),
        _Work(
            "an answer of 10,000 deltas",
            _hasty,
            lambda page: _bare_streams(page, "hasty", 1),
            "from sending to its end, Markdown, as fast as the server can",
        ),
        _Work(
            f"scrolling {len(LONG_THREAD['messages']):,} messages",
            lambda page: _scrolled(page, thread, up_to),
            lambda page: _bare_scrolled(page, up_to),
            f"while its last {_LAST - up_to + 1} go by, code and lists, fetched on the way",
        ),
    ]


async def _six(page: Page) -> Longest:
    await six(page)
    return await _talk(page, "done.", times=6)


async def _hasty(page: Page) -> Longest:
    await page.goto("/play?workflow=hasty")
    return await _talk(page, "The end.", times=1)


async def _talk(page: Page, end: str, *, times: int) -> Longest:
    """Send something, and wait until that many answers have come to their end."""
    await page.get_by_role("textbox", name="Message", exact=True).fill("Go")
    async with browser.watching(page) as watched:
        await page.keyboard.press("Enter")
        await said(page, end, times=times)
    return watched.longest


async def _scrolled(page: Page, thread: str, up_to: int) -> Longest:
    await page.goto(f"/play/{thread}")
    await expect(messages(cell(page, 1)).last).to_contain_text(f"Message {_LAST}")
    async with browser.watching(page) as watched:
        await scroll_up(page, to=up_to)
    return watched.longest


# The same by a bare page

_STREAMS = """
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
_THREAD = """
(texts) => {
  for (const text of texts) document.body.appendChild(document.createElement('pre')).append(text);
  window.scrollTo(0, document.body.scrollHeight);
}
"""
_STEP = "new Promise((done) => { window.scrollBy(0, -1500); setTimeout(done, 100); })"


async def _bare_streams(page: Page, workflow: str, count: int) -> Longest:
    await page.goto(_BARE)
    async with browser.watching(page) as watched:
        await page.evaluate(_STREAMS, [f"/{workflow}/invoke", count])
    return watched.longest


async def _bare_scrolled(page: Page, up_to: int) -> Longest:
    await page.goto(_BARE)
    await page.evaluate(_THREAD, [one["content"] for one in LONG_THREAD["messages"]])
    async with browser.watching(page) as watched:
        for _ in range((_LAST - up_to) // 10):
            await page.evaluate(_STEP)
    return watched.longest
