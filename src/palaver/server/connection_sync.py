"""Services that were connected over HTTP: stored in the database, and served by every process on it.

They are server-wide, not per project (docs/decisions/0019). A process starts with the stored description of each, and
refreshes it in the background.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from palaver.core.descriptions import check_workflow_name
from palaver.core.runs import DEFAULT_PROJECT
from palaver.discovery.connections import ConnectionConfig, remote_workflow
from palaver.discovery.registry import Registry
from palaver.engine.poller import log_errors, wait_for_event
from palaver.errors import DeclarationError
from palaver.frameworks.remote import CLIENTS, RemoteService, RemoteWorkflow
from palaver.server.settings import Settings
from palaver.storage import connections
from palaver.storage.connections import ConnectionVersion, StoredConnection
from palaver.storage.database import Database

log = logging.getLogger("palaver.server")
_T = TypeVar("_T")

POLL_INTERVAL_S, SLOW_POLL_INTERVAL_S = 2.0, 30.0
"""Seconds between reads of the table; longer where notifications arrive."""
_MAX_CONCURRENT_REFRESHES = 8


class SyncedConnection(msgspec.Struct, frozen=True):
    """A connection in this process."""

    version: ConnectionVersion
    workflow: RemoteWorkflow | None = None
    problem: str | None = None
    """Why it is not served."""


@dataclass(eq=False, repr=False)
class ConnectionSync:
    """Keeps the registry in sync with the table of connections."""

    registry: Registry
    database: Database
    settings: Settings
    _: KW_ONLY
    is_only_process: bool  # No other process changes the table.
    now: Callable[[], datetime]
    _synced: dict[str, SyncedConnection] = field(default_factory=dict[str, SyncedConnection], init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Changes are served before the table is read again."""
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]], init=False)

    async def start(self, *, serves_stored: bool) -> None:
        """Serve stored connections (if `serves_stored`), and refresh descriptions not yet requested by this process."""
        loop = asyncio.get_running_loop()
        if serves_stored:
            await self.sync()
            if not self.is_only_process:
                self._tasks.append(loop.create_task(self._sync_loop()))
        stale = [flow for flow in self.registry if isinstance(flow, RemoteWorkflow) and self._needs_refresh(flow)]
        if stale:
            self._tasks.append(loop.create_task(self._refresh_all(stale)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def wake(self) -> None:
        """Called when another process changed the table."""
        self._wakeup.set()

    def connection_config(self, url: str, options: connections.ConnectionOptions) -> ConnectionConfig:
        """Build the definition of a connection made over HTTP; requests to it are guarded against SSRF."""
        from palaver.outbound.ssrf import GuardedTransport, UrlPolicy  # Late: few servers have connections.

        policy = UrlPolicy(allow_private=self.settings.allow_private_urls)
        return ConnectionConfig(
            url=url,
            is_chat=options.is_chat,
            dialect=cast("Any", options.dialect),  # An unknown one raises when called.
            model=options.model,
            timeout=options.timeout_seconds,
            transport=lambda: GuardedTransport(policy),
        )

    async def apply_change(self, change: Callable[[], Awaitable[_T]]) -> _T:
        """Run `change`, which changes the table, and serve the result."""
        async with self._lock:
            result = await change()
            await self._sync()
            return result

    async def sync(self) -> None:
        """Read the table and serve changed connections."""
        async with self._lock:
            await self._sync()

    def list_synced(self) -> list[SyncedConnection]:
        """Return all connections of this process, sorted by name."""
        return [self._synced[name] for name in sorted(self._synced)]

    async def refresh(self, workflow: RemoteWorkflow) -> None:
        """Ask a service for its description again, and store it."""
        previous_check = workflow.checked_at
        await workflow.refresh()
        if workflow.checked_at != previous_check:
            await self._store_description(workflow)

    # The table

    async def _sync(self) -> None:
        versions = await self.database.read(connections.list_connection_versions, DEFAULT_PROJECT)
        if versions == [synced.version for synced in self.list_synced()]:
            return
        rows = await self.database.read(connections.list_connections, DEFAULT_PROJECT)
        for name in self._synced.keys() - {row.name for row in rows}:
            self._drop(name)
        for row in rows:
            current = self._synced.get(row.name)
            if current is not None and current.version.created_at != row.created_at:
                self._drop(row.name)  # It was removed and added again.
                current = None
            self._synced[row.name] = self._add(row) if current is None else self._update(current, row)

    def _add(self, row: StoredConnection) -> SyncedConnection:
        try:
            check_workflow_name(row.name)
        except DeclarationError as error:  # The name became reserved since.
            return self._reject(row, error.message)
        if row.name in self.registry:
            problem = "A workflow with this name is declared in code or settings. Use another name for the connection."
            return self._reject(row, problem)
        workflow = remote_workflow(self.connection_config(row.url, row.options), row.name, _stored_service(row))
        workflow.checked_at = row.checked_at
        self.registry.put(workflow)
        return SyncedConnection(row.version, workflow)

    def _update(self, current: SyncedConnection, row: StoredConnection) -> SyncedConnection:
        workflow, service, checked_at = current.workflow, _stored_service(row), row.checked_at
        is_new = checked_at != current.version.checked_at
        if workflow is not None and service is not None and checked_at is not None and is_new:
            workflow.set_service(service, checked_at)
        return SyncedConnection(row.version, workflow, current.problem)

    def _reject(self, row: StoredConnection, problem: str) -> SyncedConnection:
        log.warning("Connection %s is not served: %s", row.name, problem)
        return SyncedConnection(row.version, None, problem)

    def _drop(self, name: str) -> None:
        if self._synced.pop(name).workflow is not None:
            self.registry.remove(name)

    async def _store_description(self, workflow: RemoteWorkflow) -> None:
        synced, service = self._synced.get(workflow.description.name), workflow.service
        if synced is None or synced.workflow is not workflow or service is None or not workflow.reachable:
            return
        checked_at = workflow.checked_at or self.now()
        write = self.database.write
        await self.apply_change(
            lambda: write(connections.update_evidence, DEFAULT_PROJECT, synced.version, service, at=checked_at)
        )

    # Background refresh

    def _needs_refresh(self, workflow: RemoteWorkflow) -> bool:
        return workflow.description.name in self._synced or workflow.checked_at is None

    async def _refresh_all(self, workflows: list[RemoteWorkflow]) -> None:
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT_REFRESHES)

        async def refresh(workflow: RemoteWorkflow) -> None:
            with _log_errors():
                previous_service = msgspec.json.encode(workflow.service)
                async with semaphore:
                    await workflow.refresh()
                # Every process asks; the first to see a change stores it.
                if msgspec.json.encode(workflow.service) != previous_service:
                    await self._store_description(workflow)

        await asyncio.gather(*map(refresh, workflows))

    async def _sync_loop(self) -> None:
        while True:
            interval_s = SLOW_POLL_INTERVAL_S if self.database.receives_notifications else POLL_INTERVAL_S
            await wait_for_event(self._wakeup, interval_s)
            self._wakeup.clear()
            with _log_errors():
                await self.sync()


def _log_errors() -> AbstractContextManager[None]:
    return log_errors(log, "Cannot update connections", "Failed to update connections")


def _stored_service(row: StoredConnection) -> RemoteService | None:
    """Decode the stored description; None if it cannot be decoded, so that it is requested again."""
    try:
        service = msgspec.convert(row.evidence, RemoteService)
    except msgspec.ValidationError:
        return None
    return service if service.dialect in CLIENTS else None
