"""Calls of workflows, from the body of a request to the end of its response, in every protocol."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import NamedTuple, cast

from msgspec.structs import replace
from sqlalchemy import Connection

from palaver.core.messages import file_ids, has_files
from palaver.core.runs import Origin
from palaver.discovery.registry import Registry
from palaver.engine.background_runs import RunQueue
from palaver.engine.engine import Engine, utc_now
from palaver.engine.run_reader import RunReader
from palaver.errors import ConflictingFields, Overloaded, PalaverError
from palaver.protocols.base import Adapter, BackgroundAdapter, HttpRequest, HttpResponse
from palaver.protocols.ui_stream.request import UIRequest
from palaver.server import conversation_history, file_references, idempotency, security
from palaver.server.auth import Authenticator, Caller
from palaver.server.conversation_history import HistoryResolver, ResolvedCall
from palaver.server.error_responses import error_status, with_error_headers
from palaver.server.idempotency import IdempotentCalls
from palaver.server.obfuscation import padded_adapters
from palaver.server.rate_limit import RateLimits
from palaver.server.replay import replay_events
from palaver.server.request import NO_HEADERS, Exchange, RequestHeaders
from palaver.server.routing import Endpoint, RouteMatch
from palaver.server.settings import Settings
from palaver.server.streaming import RunStream, StreamMonitor
from palaver.storage import runs
from palaver.storage.database import Database
from palaver.storage.runs import RunRow
from palaver.storage.threads import repository as threads

_THREAD, _ANSWER, _VARIANT = "x-palaver-thread", "x-palaver-answer", "x-palaver-variant"
_CALL_HEADERS = (_THREAD, _ANSWER, _VARIANT, idempotency.HEADER)
_ENCODED_CALL_HEADERS = frozenset(name.encode() for name in _CALL_HEADERS)


class CallHeaders(NamedTuple):
    """The headers of a call that belong to no protocol."""

    thread: str | None = None
    answer: str | None = None
    variant: str | None = None
    key: str | None = None

    def encode_content(self) -> Sequence[bytes]:
        """Encode the headers that change what the call does; empty if there are none."""
        headers = (self.thread, self.answer, self.variant)
        return [(value or "").encode() for value in headers] if any(headers) else ()


NO_CALL_HEADERS = CallHeaders()


def read_call_headers(headers: RequestHeaders) -> CallHeaders:
    if headers.raw.keys().isdisjoint(_ENCODED_CALL_HEADERS):
        return NO_CALL_HEADERS  # The common case, without decoding.
    call_headers = CallHeaders(*(headers.get(name) for name in _CALL_HEADERS))
    if (call_headers.thread is None) != (call_headers.answer is None):
        raise ConflictingFields(f"The headers {_THREAD} and {_ANSWER} must be sent together.")
    if call_headers.key is not None:
        idempotency.validate_key(call_headers.key)
    return call_headers


_CallContext = AbstractAsyncContextManager[ResolvedCall]
"""Resolves a call, and holds the conversation that it continues."""


class CallHandler:
    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        engine: Engine,
        run_reader: RunReader,
        resolver: HistoryResolver,
        database: Database,
        rate_limits: RateLimits,
        authenticator: Authenticator,
        queue: RunQueue,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._engine = engine
        self._run_reader = run_reader
        self._resolver = resolver
        self._database = database
        self._rate_limits = rate_limits
        self._queue = queue
        self._stores_runs = settings.record == "full"
        self._json_limits = settings.json_limits
        self._padded_adapters = padded_adapters() if settings.obfuscate else {}
        self._idempotency = IdempotentCalls(settings, database, run_reader, rate_limits)
        self._on_detached = run_reader.unread_runs.add
        self.stream_monitor = StreamMonitor(stall=settings.stream_stall, authenticator=authenticator)

    async def handle(self, exchange: Exchange, route: RouteMatch) -> None:
        endpoint, stream, unresolved = route.endpoint, None, None
        adapter = self._padded_adapters.get(endpoint.protocol, endpoint.adapter)
        assert adapter is not None
        try:
            name = route.workflow
            if (name is None and not endpoint.workflow_in_body) or (name is not None and name not in self._registry):
                self._registry.find(name)  # Raises before the body is read.
            if self._engine.active_count >= self._settings.max_streams_total:
                raise Overloaded("The server is at its limit of concurrent calls. Try again shortly.")
            request = await self.read_request(exchange, route)
            call, protocol_request = adapter.decode(request, self._registry.find)
            stream = RunStream(
                exchange,
                adapter,
                protocol_request,
                column=endpoint.status_column,
                cancels_on_disconnect=endpoint.cancels_on_disconnect,
                on_detached=self._on_detached,
            )
            caller, call_headers = exchange.caller, read_call_headers(exchange.headers)
            origin = Origin(
                project=caller.project,
                key=caller.key,
                protocol=endpoint.protocol,
                reading=protocol_request if endpoint.stores_request else None,
                stored=call.stored and self._stores_runs,
                background=call.background,
            )
            unresolved = ResolvedCall(call, protocol_request, origin)
            if call_headers.key is not None:
                content = (request.body, *call_headers.encode_content())
                unresolved = await self._idempotency.claim(exchange, call_headers.key, content, unresolved)
                if unresolved.earlier_run is not None:
                    await self._idempotency.replay(exchange, adapter, endpoint.status_column, unresolved)
                    return
            if endpoint.interrupts_session and call_headers.thread is None:
                if call.session is not None and call.session.startswith(conversation_history.THREAD_ID_PREFIX):
                    call_headers = call_headers._replace(thread=call.session)
                else:
                    await self.interrupt_session(caller.project, call.workflow, call.session)
            if has_files(call.messages):
                unresolved = await self._resolve_files(
                    exchange, request, unresolved, is_in_thread=call_headers.thread is not None
                )
            context = self._call_context(caller, route, unresolved, call_headers)
            if call.background:
                await self._answer_in_background(exchange, adapter, context or nullcontext(unresolved))
                return
            with self._rate_limits.streams.slot(caller):
                self._open(stream, unresolved) if context is None else await self._open_in_context(stream, context)
                # Thousands of streams may be open for hours: free unneeded memory.
                exchange.headers = NO_HEADERS
                unresolved = None
                del call, protocol_request, origin, request, context
                await stream.serve(self.stream_monitor)
        except PalaverError as error:
            if unresolved is not None and unresolved.earlier_run is None:
                await self._idempotency.release(unresolved)
            await exchange.respond(_encode_error(adapter, error, stream, endpoint))

    def _open(self, stream: RunStream, unresolved: ResolvedCall) -> None:
        stream.open(self._engine, self._registry.workflow(unresolved.call.workflow), unresolved)

    async def _open_in_context(self, stream: RunStream, context: _CallContext) -> None:
        async with context as resolved:
            stream.protocol_request = resolved.protocol_request
            self._open(stream, resolved)
            if resolved.origin.thread is not None:
                stream.cancels_on_disconnect = False  # The thread keeps the answer even if this client disconnects.
            if resolved.origin.thread is not None or resolved.claim is not None:
                await self._run_reader.flush()  # A request that finds it locked must find the run that holds it.

    async def _answer_in_background(self, exchange: Exchange, adapter: Adapter, context: _CallContext) -> None:
        """Queue the run and respond with its status; if a stream was requested, with its events as they come."""
        background, caller = cast("BackgroundAdapter", adapter), exchange.caller
        async with context as resolved:
            protocol_request = background.with_queued_at(resolved.protocol_request, utc_now())
            origin = replace(resolved.origin, reading=protocol_request)
            workflow = self._registry.workflow(resolved.call.workflow)
            self._queue.start()  # Servers without lifespan events don't start it.
            started = await self._queue.enqueue(workflow, resolved.call, origin, resolved.run_id)
        exchange.run_id = started.run_id
        head = adapter.response_head(started, protocol_request)
        if head is None:
            await exchange.respond(background.encode_queued(started, protocol_request))
            return
        opening, encode = background.queued_stream(started, protocol_request)
        batches = self._run_reader.follow(caller.project, started.run_id)
        with self._rate_limits.streams.slot(caller):
            stall = self._settings.stream_stall
            await replay_events(exchange, head, encode, batches, stall=stall, opening=opening, started=started)

    # Files and conversations

    async def _resolve_files(
        self, exchange: Exchange, request: HttpRequest, unresolved: ResolvedCall, *, is_in_thread: bool
    ) -> ResolvedCall:
        """Look up the files of a call. Raises NotFound; in a thread, only files of new messages are required."""
        host, root_path = exchange.headers["host"], self._settings.root_path
        messages = file_references.resolve_file_urls(unresolved.call.messages, host=host, root_path=root_path)
        if not is_in_thread and file_ids(messages):
            messages = await self._database.read(
                file_references.require_files, unresolved.origin.project, messages, request.body
            )
        return unresolved._replace(call=replace(unresolved.call, messages=messages))

    def _call_context(
        self, caller: Caller, route: RouteMatch, unresolved: ResolvedCall, call_headers: CallHeaders
    ) -> _CallContext | None:
        """Return the context that resolves a call; None for a call that continues nothing, as most do."""
        return (
            self._responses_context(caller, route, unresolved)
            if call_headers is NO_CALL_HEADERS
            else self._claimed_context(caller, route, unresolved, call_headers)
        )

    def _responses_context(self, caller: Caller, route: RouteMatch, unresolved: ResolvedCall) -> _CallContext | None:
        call = unresolved.call
        if call.previous is None and call.conversation is None and not call.refers:
            return None
        return self._resolver.responses(caller, self._registry.workflow(call.workflow), route.workflow, unresolved)

    @asynccontextmanager
    async def _claimed_context(
        self, caller: Caller, route: RouteMatch, unresolved: ResolvedCall, call_headers: CallHeaders
    ) -> AsyncGenerator[ResolvedCall]:
        try:
            async with await self._thread_context(caller, route, unresolved, call_headers) as resolved:
                yield resolved
        except BaseException:
            await asyncio.shield(self._idempotency.release(unresolved))
            raise

    async def _thread_context(
        self, caller: Caller, route: RouteMatch, unresolved: ResolvedCall, call_headers: CallHeaders
    ) -> _CallContext:
        call, project = unresolved.call, caller.project
        workflow = self._registry.workflow(call.workflow)
        if call_headers.thread is None:
            if call_headers.variant is not None:
                unresolved = await self._resolver.apply_variant(project, workflow, unresolved, call_headers.variant)
            return self._responses_context(caller, route, unresolved) or nullcontext(unresolved)
        if call.previous is not None or call.conversation is not None:
            raise ConflictingFields(f"{_THREAD} can't be combined with 'previous_response_id' or 'conversation'.")
        thread = await self._resolver.get_thread(project, call_headers.thread, workflow)
        unresolved = await self._resolver.apply_variant(project, workflow, unresolved, call_headers.variant, thread)
        if call_headers.answer is not None:
            plan = conversation_history.plan_answer(call_headers.answer, call.messages[call.preface :])
        else:
            plan = conversation_history.plan_ui_chat(call.messages, cast("UIRequest", unresolved.protocol_request))
        policy = "interrupt" if route.endpoint.interrupts_session else workflow.options.turns
        return self._resolver.in_thread(thread, workflow, policy, unresolved, plan)

    # Sessions

    async def interrupt_session(self, project: str, workflow: str, session: str | None) -> None:
        """Cancel the runs of a session, in any process, and wait until their end is recorded."""
        if not session:
            return
        if session.startswith(conversation_history.THREAD_ID_PREFIX):
            if (run := await self.find_active_run(project, workflow, session)) is not None:
                await self._run_reader.cancel(project, run)
            return
        active = [run for run in self._engine.list_session_runs(workflow, session) if run.origin.project == project]
        for run in active:
            run.cancel()
        for run in active:
            await run.wait_recorded()
        if self._database.kind == "postgresql":
            for row in await self._database.read(runs.list_active_in_session, project, workflow, session):
                await self._run_reader.cancel(project, row.id)

    async def find_active_run(self, project: str, workflow: str, session: str) -> str | None:
        """Return the newest active run of a session, in any process."""
        if session.startswith(conversation_history.THREAD_ID_PREFIX):
            row = await self._database.read(_active_run, project, session)
            return row.id if row is not None and row.workflow == workflow else None
        active = [run for run in self._engine.list_session_runs(workflow, session) if run.origin.project == project]
        if active:
            return max(run.id for run in active)
        rows = await self._database.read(runs.list_active_in_session, project, workflow, session)
        return rows[-1].id if rows else None

    async def read_request(self, exchange: Exchange, route: RouteMatch) -> HttpRequest:
        """Read a JSON request. Raises for another media type, or a body over the limits."""
        security.check_json(exchange)
        return HttpRequest(
            method=exchange.method,
            route=route.name,
            workflow=route.workflow,
            parameters=route.parameters,
            query=exchange.query if exchange.scope["query_string"] else {},
            headers=exchange.headers,
            body=await exchange.body(self._settings),
            json_limits=self._json_limits,
            server_tools=self._settings.responses_server_tools,
            new_id=exchange.id if route.endpoint.kind == "service" else "",
        )


def _active_run(db: Connection, project: str, thread: str) -> RunRow | None:
    """Return the active run that holds the lock of a thread, in any protocol."""
    thread_row = threads.get_thread(db, project, thread)
    row = runs.get_run(db, project, thread_row.run) if thread_row is not None and thread_row.run is not None else None
    return row if row is not None and row.is_alive else None


def _encode_error(adapter: Adapter, error: PalaverError, stream: RunStream | None, endpoint: Endpoint) -> HttpResponse:
    protocol_request = stream.protocol_request if stream is not None else None
    return with_error_headers(
        adapter.encode_error(error, protocol_request, status=error_status(error, endpoint.status_column)), error
    )
