"""A call, from its bytes to the end of its answer: decoded, joined to what it goes on from, run and told."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, cast

from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core.files import file_ids, has_files
from palaver.core.origins import Origin
from palaver.discovery.registry import Registry
from palaver.engine.engine import Engine, utc_now
from palaver.engine.ids import new_run_id
from palaver.engine.queue import RunQueue
from palaver.engine.run_reader import RunReader
from palaver.errors import ConflictingFields, Overloaded, PalaverError, RunNotFound
from palaver.protocols.base import Adapter, Answer, Later, Request
from palaver.protocols.ui_client import Client
from palaver.server import filing, guards, marks, padding, thread_turns
from palaver.server.callers import Caller, Callers
from palaver.server.exchange import Exchange
from palaver.server.heads import NO_HEAD
from palaver.server.joining import Joined, Joining
from palaver.server.marks import Marks
from palaver.server.pulse import Pulse
from palaver.server.rates import Rates
from palaver.server.replay import replay
from palaver.server.routes import Endpoint, Match
from palaver.server.settings import Settings
from palaver.server.status import and_headers, status_of, status_of_end, with_retry
from palaver.server.stream import Stream
from palaver.storage import idempotency, runs
from palaver.storage.database import Database
from palaver.storage.runs import RunRow
from palaver.storage.threads import repository as threads

REPLAYED = ("idempotency-replayed", "true")
"""Says that an answer was given before."""
_WhileJoined = AbstractAsyncContextManager[Joined]
"""A call, for as long as it is joined to what it goes on from."""
_LOOK = 0.05
_APPEAR_SECONDS = 10.0


class Calling:
    """Answers calls in every protocol."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        engine: Engine,
        records: RunReader,
        joining: Joining,
        database: Database,
        rates: Rates,
        callers: Callers,
        backlog: RunQueue,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._engine = engine
        self._records = records
        self._joining = joining
        self._database = database
        self._rates = rates
        self._backlog = backlog
        self._stores = settings.record == "full"
        self._bounds = settings.json_bounds
        self._padded = padding.adapters() if settings.obfuscate else {}
        self._leave = records.orphans.left
        self.pulse = Pulse(stall=settings.stream_stall, callers=callers)

    async def answer(self, exchange: Exchange, found: Match) -> None:
        """Answer a call."""
        endpoint, stream, asked = found.endpoint, None, None
        adapter = self._padded.get(endpoint.protocol, endpoint.adapter)
        assert adapter is not None
        try:
            named = found.workflow
            if (named is None and not endpoint.picks) or (named is not None and named not in self._registry):
                self._registry.find(named)  # Said before the body is read.
            if self._engine.alive >= self._settings.max_streams_total:
                raise Overloaded("This server answers as many calls as it can: try again in a moment.")
            request = await self.read(exchange, found)
            call, reading = adapter.decode(request, self._registry.find)
            stream = Stream(
                exchange,
                adapter,
                reading,
                column=endpoint.column,
                cancels=endpoint.cancels,
                leave=self._leave,
            )
            caller, said = exchange.caller, marks.read(exchange.headers)
            origin = Origin(
                project=caller.project,
                key=caller.key,
                protocol=endpoint.protocol,
                reading=reading if endpoint.keeps else None,
                stored=call.stored and self._stores,
                background=call.background,
            )
            asked = Joined(call, reading, origin)
            if said.key is not None:
                asked = await self._claimed(exchange, said, request, asked)
                if asked.said_before is not None:
                    await self._tell_again(exchange, endpoint, reading, asked.said_before)
                    return
            if endpoint.interrupts and said.thread is None:
                if call.session is not None and call.session.startswith(thread_turns.THREAD):
                    said = said._replace(thread=call.session)
                else:
                    await self.interrupt(caller.project, call.workflow, call.session)
            if has_files(call.messages):
                asked = await self._with_files(exchange, request, asked, is_copy=said.thread is not None)
            joining = self._joined(caller, found, asked, said)
            if call.background:
                await self._answer_later(exchange, adapter, joining or nullcontext(asked))
                return
            with self._rates.streams.held(caller):
                self._open(stream, asked) if joining is None else await self._open_joined(stream, joining)
                # A stream may be open for hours and there may be thousands: let go of what nobody needs any more.
                exchange.headers = NO_HEAD
                asked = None
                del call, reading, origin, request, joining
                await stream.tell(self.pulse)
        except PalaverError as error:
            if asked is not None and asked.said_before is None:
                await self._release(asked)
            await exchange.answer(_failure(adapter, error, stream, endpoint))

    def _open(self, stream: Stream, asked: Joined) -> None:
        stream.open(self._engine, self._registry.workflow(asked.call.workflow), asked)

    async def _open_joined(self, stream: Stream, joining: _WhileJoined) -> None:
        async with joining as joined:
            stream.reading = joined.reading
            self._open(stream, joined)
            if joined.origin.thread is not None:
                stream.cancels = False  # What joins a thread is not only for whoever asked.
            if joined.origin.thread is not None or joined.once is not None:
                await self._records.written()  # Whoever finds it taken must find the run that took it.

    async def _answer_later(self, exchange: Exchange, adapter: Adapter, joining: _WhileJoined) -> None:
        """Keep the run for the background and say so; or tell what it says, when it does."""
        later, caller = cast("Later", adapter), exchange.caller
        async with joining as joined:
            reading = later.waiting(joined.reading, utc_now())
            origin = replace(joined.origin, reading=reading)
            workflow = self._registry.workflow(joined.call.workflow)
            self._backlog.begin()  # Where nobody told us that we start.
            first = await self._backlog.put(workflow, joined.call, origin, joined.run_id)
        exchange.run_id = first.run_id
        head = adapter.head(first, reading)
        if head is None:
            await exchange.answer(later.queued(first, reading))
            return
        opening, frames = later.queued_frames(first, reading)
        following = self._records.follow(caller.project, first.run_id)
        with self._rates.streams.held(caller):
            stall = self._settings.stream_stall
            await replay(exchange, head, frames, following, stall=stall, opening=opening)

    # What a call goes on from

    async def _with_files(self, exchange: Exchange, request: Request, asked: Joined, *, is_copy: bool) -> Joined:
        """The call with the files that it names, which must be there; in a thread only what is new in it counts."""
        host, root_path = exchange.headers["host"], self._settings.root_path
        messages = filing.by_id(asked.call.messages, host=host, root_path=root_path)
        if not is_copy and file_ids(messages):
            messages = await self._database.read(filing.known, asked.origin.project, messages, request.body)
        return asked._replace(call=replace(asked.call, messages=messages))

    def _joined(self, caller: Caller, found: Match, asked: Joined, said: Marks) -> _WhileJoined | None:
        """The call with what it goes on from, while it is joined to it; None where that is nothing, as of most."""
        return self._referring(caller, found, asked) if said is marks.NONE else self._marked(caller, found, asked, said)

    def _referring(self, caller: Caller, found: Match, asked: Joined) -> _WhileJoined | None:
        call = asked.call
        if call.previous is None and call.conversation is None and not call.refers:
            return None
        return self._joining.responses(caller, self._registry.workflow(call.workflow), found.workflow, asked)

    @asynccontextmanager
    async def _marked(self, caller: Caller, found: Match, asked: Joined, said: Marks) -> AsyncGenerator[Joined]:
        try:
            async with await self._placed(caller, found, asked, said) as joined:
                yield joined
        except BaseException:
            await asyncio.shield(self._release(asked))
            raise

    async def _placed(self, caller: Caller, found: Match, asked: Joined, said: Marks) -> _WhileJoined:
        call, project = asked.call, caller.project
        workflow = self._registry.workflow(call.workflow)
        if said.thread is None:
            if said.variant is not None:
                asked = await self._joining.with_variant(project, workflow, asked, said.variant)
            return self._referring(caller, found, asked) or nullcontext(asked)
        if call.previous is not None or call.conversation is not None:
            raise ConflictingFields("A call that answers in a thread goes on from nothing else.")
        thread = await self._joining.thread(project, said.thread, workflow)
        asked = await self._joining.with_variant(project, workflow, asked, said.variant, thread)
        if said.answer is not None:
            look = thread_turns.answering(said.answer, call.messages[call.preface :])
        else:
            look = thread_turns.chatting(call.messages, cast("Client", asked.reading))
        policy = "interrupt" if found.endpoint.interrupts else workflow.options.turns
        return self._joining.in_thread(thread, workflow, policy, asked, look)

    # What is done once

    async def _claimed(self, exchange: Exchange, said: Marks, request: Request, asked: Joined) -> Joined:
        """The call under a run's name; or, if it was made before, under that one's."""
        place = f"{exchange.method} {exchange.path}"
        query: bytes = exchange.scope["query_string"]
        once = marks.once(said, exchange.caller, place, (query, request.body), utc_now())
        assert once is not None
        run = new_run_id()
        before = await self._database.write(idempotency.claim_for_run, once, run)
        return asked._replace(run_id=run, once=once, said_before=None if before is None else before.run)

    async def _release(self, asked: Joined) -> None:
        """Let another do what was not done."""
        if asked.once is not None and asked.run_id is not None:
            await self._database.write(idempotency.release_claim, asked.once, asked.run_id)

    async def _tell_again(self, exchange: Exchange, endpoint: Endpoint, reading: Any, run: str) -> None:
        """The answer of a run that was begun before: as it was, as far as it has come."""
        adapter, caller = self._padded.get(endpoint.protocol, endpoint.adapter), exchange.caller
        assert adapter is not None
        row = await self.appeared(caller.project, run)
        exchange.run_id = run
        with self._rates.streams.held(caller):
            head = adapter.head(await self._records.first(row), reading)
            if head is not None:
                following = self._records.follow(caller.project, run)
                stall = self._settings.stream_stall
                await replay(exchange, and_headers(head, REPLAYED), adapter.frames(reading), following, stall=stall)
                return
            async for _ in self._records.follow(caller.project, run):
                pass
        log = await self._records.log(caller.project, run)
        if not log:
            raise RunNotFound(f"What the run {run!r} said was not kept.")
        status = status_of_end(log[-1], endpoint.column)
        await exchange.answer(and_headers(adapter.whole(log, reading, status=status), REPLAYED))

    async def appeared(self, project: str, run: str) -> RunRow:
        """A run that somebody is about to begin, once it is there."""
        try:
            async with asyncio.timeout(_APPEAR_SECONDS):
                while True:
                    try:
                        return await self._records.row(project, run)
                    except RunNotFound:
                        await asyncio.sleep(_LOOK)
        except TimeoutError:
            raise Overloaded("The same was asked a moment ago, and has not begun: try again.") from None

    # Sessions

    async def interrupt(self, project: str, workflow: str, session: str | None) -> None:
        """End what is still going of a session, in any process, and wait until that is recorded."""
        if not session:
            return
        if session.startswith(thread_turns.THREAD):
            if (run := await self.going(project, workflow, session)) is not None:
                await self._records.cancel(project, run)
            return
        going = [run for run in self._engine.of_session(workflow, session) if run.origin.project == project]
        for run in going:
            run.cancel()
        for run in going:
            await run.recorded()
        if self._database.kind == "postgresql":
            for row in await self._database.read(runs.list_active_in_session, project, workflow, session):
                await self._records.cancel(project, row.id)

    async def going(self, project: str, workflow: str, session: str) -> str | None:
        """The run of a session that has not ended, in any process: the newest."""
        if session.startswith(thread_turns.THREAD):
            row = await self._database.read(_answering, project, session)
            return row.id if row is not None and row.workflow == workflow else None
        here = [run for run in self._engine.of_session(workflow, session) if run.origin.project == project]
        if here:
            return max(run.id for run in here)
        rows = await self._database.read(runs.list_active_in_session, project, workflow, session)
        return rows[-1].id if rows else None

    async def read(self, exchange: Exchange, found: Match) -> Request:
        """The request, its body within the limits."""
        guards.check_json(exchange)
        return Request(
            method=exchange.method,
            route=found.name,
            workflow=found.workflow,
            parameters=found.parameters,
            query=exchange.query if exchange.scope["query_string"] else {},
            headers=exchange.headers,
            body=await exchange.body(self._settings),
            bounds=self._bounds,
            fresh=exchange.id if found.endpoint.kind == "service" else "",
        )


def _answering(db: Connection, project: str, thread: str) -> RunRow | None:
    """The run that is answering in a thread, whatever protocol it began in."""
    found = threads.get_thread(db, project, thread)
    row = runs.get_run(db, project, found.run) if found is not None and found.run is not None else None
    return row if row is not None and row.is_alive else None


def _failure(adapter: Adapter, error: PalaverError, stream: Stream | None, endpoint: Endpoint) -> Answer:
    reading = stream.reading if stream is not None else None
    return with_retry(adapter.failure(error, reading, status=status_of(error, endpoint.column)), error)
