"""GET /status: does the house work, and what do its workflows say of themselves (contract: job-chat, 1.1)?

Each workflow may declare a function for it, `@chat(health=…)`. It is the author's: so it gets a moment and no more, one
at a time, off the loop where it is sync, and what it said is told for a while without asking it again.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, select

from palaver.core import jsons, secrets
from palaver.discovery.registry import Registry
from palaver.errors import PalaverError
from palaver.outbound import printable
from palaver.protocols.base import Answer
from palaver.storage.database import Database
from palaver.workflows.callables import called
from palaver.workflows.threads import Threads
from palaver.workflows.workflow import Workflow

WORKING, NOT_WORKING = "working", "not working"
SECONDS = 2.0
"""How long an answer is waited for; one that comes later is told the next time."""
KEPT_SECONDS = 5.0
"""How long an answer is told again."""
_AT_ONCE = 8
_LONGEST = 80
_MOST = 20
"""Of what one function says: characters of a word, and how many things it may speak of."""

log = logging.getLogger("palaver.server")
Words = Mapping[str, str]


class _Said(NamedTuple):
    words: Words
    at: float


class Health:
    """Asks after everything that is served."""

    def __init__(self, registry: Registry, database: Database, *, version: str) -> None:
        self._registry = registry
        self._database = database
        self._version = version
        self._threads = Threads(_AT_ONCE)
        self._asking: dict[str, asyncio.Task[Words]] = {}
        self._said: dict[str, _Said] = {}

    async def document(self) -> dict[str, str]:
        """What works and what does not."""
        served = sorted(self._registry, key=lambda workflow: workflow.description.name)
        told = await asyncio.gather(self._of_database(), *map(self._of, served))
        document: dict[str, str] = {}
        for words in told:  # The house's own words come first, and nobody speaks for it.
            document = {**words, **document}
        return {**document, "version": self._version}

    async def answer(self) -> Answer:
        """The same, as an answer."""
        body = jsons.encode(await self.document())
        headers = (("content-type", "application/json"), ("x-api-version", self._version))
        return Answer(status=200, headers=(*headers, ("cache-control", "no-store")), body=body)

    async def _of_database(self) -> Words:
        try:
            async with asyncio.timeout(SECONDS):
                await self._database.read(_looked)
        except (PalaverError, TimeoutError):
            return {"database": NOT_WORKING}
        return {"database": WORKING}

    async def _of(self, workflow: Workflow) -> Words:
        name, check = workflow.description.name, workflow.options.health
        if check is None:
            return {}
        said = self._said.get(name)
        if said is not None and time.monotonic() - said.at < KEPT_SECONDS:
            return said.words
        asking = self._asking.get(name)
        if asking is None:  # Else somebody asks already: whoever hangs is not asked twice.
            asking = self._asking[name] = asyncio.create_task(self._asked(name, check))
        await asyncio.wait([asking], timeout=SECONDS)
        return asking.result() if asking.done() else {name: NOT_WORKING}

    async def _asked(self, name: str, check: Callable[[], Any]) -> Words:
        try:
            given = await self._given(check)
            words = _words(name, given)
        except Exception as error:  # The author's code may raise anything, and says by it that something is wrong.
            what = printable(secrets.masked(f"{type(error).__name__}: {error}"))
            log.warning("The health of %s could not be told: %s", name, what)
            words = {name: NOT_WORKING}
        self._said[name] = _Said(words, time.monotonic())
        del self._asking[name]
        return words

    async def _given(self, check: Callable[[], Any]) -> object:
        given: object
        if inspect.iscoroutinefunction(called(check)):
            return await check()
        given = await self._in_thread(check)
        return await cast("Any", given) if inspect.isawaitable(given) else given

    async def _in_thread(self, check: Callable[[], Any]) -> object:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[object] = loop.create_future()

        def settle(error: BaseException | None, given: object) -> None:
            if answered.done():
                return
            if error is not None:
                answered.set_exception(error)
            else:
                answered.set_result(given)

        def work() -> None:
            try:
                told = partial(settle, None, check())
            except BaseException as error:  # sys.exit is no answer, either.
                told = partial(settle, RuntimeError(type(error).__name__), None)
            loop.call_soon_threadsafe(told)

        await self._threads.start(work)
        return await answered


def _words(name: str, given: object) -> Words:
    """What a function said: that it works or not, a word for it, or such a thing of several."""
    if isinstance(given, Mapping):
        several = list(cast("Mapping[object, object]", given).items())[:_MOST]
        return {printable(str(thing), _LONGEST): _word(value) for thing, value in several}
    return {name: _word(given)}


def _word(value: object) -> str:
    match value:
        case True | None:
            return WORKING
        case str() if value.strip():
            return printable(value, _LONGEST)
        case _:
            return NOT_WORKING


def _looked(db: Connection) -> None:
    db.execute(select(1))
