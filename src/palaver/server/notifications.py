"""Notifications from other processes, and change notices to open pages and other processes.

A notice only says that something changed: the page then queries it. Notices may be lost, and repeated changes are
throttled, but the last one is always sent.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Generator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never, cast, get_args

from palaver.engine.background_runs import RunQueue
from palaver.engine.engine import Engine
from palaver.engine.heartbeat import Heartbeat
from palaver.engine.run_reader import RunReader
from palaver.errors import PalaverError
from palaver.evaluation.runner.worker import EvaluationWorker
from palaver.server.auth import Authenticator
from palaver.server.connection_sync import ConnectionSync
from palaver.storage import notifications
from palaver.storage.database import Database
from palaver.storage.notifications import ALL_PROJECTS, Change, ChangeKind, Notification

log = logging.getLogger("palaver.server")

REPEAT_INTERVAL_S = 0.25
"""Minimum time between two notices of the same object."""
SLOW_REPEAT_INTERVAL_S = 1.0
"""The same for kinds that change all the time."""
_SLOW_KINDS = frozenset[ChangeKind]({"spans", "rule"})
_BATCH_INTERVAL_S = 0.1
"""Notices to other processes are sent together: each is a transaction."""
_MAX_RUNS_PER_PROJECT = 32
"""Maximum number of runs of a project with notices in one interval; pages also get notices of their threads."""
_KINDS = frozenset(get_args(ChangeKind))

ChangeListener = Callable[[Change], None]
_Key = tuple[str, ChangeKind, str]


class ChangeFeed:
    """Sends change notices to the pages that are open here and to other processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._process_tag = secrets.token_hex(4)
        self._is_watching = False
        self._tabs: dict[str, set[ChangeListener]] = {}
        self._recent: dict[_Key, Change | None] = {}
        """Objects of recent notices, each with the notice to send after the interval."""
        self._recent_run_counts: dict[str, int] = {}
        self._outgoing: dict[_Key, Change] = {}
        self._recently_sent: dict[_Key, Change | None] = {}
        """The same for notices of slow kinds to other processes."""
        self._send_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watch the writes of this process. Called for the first page; if there are other processes, at the start."""
        if not self._is_watching:
            self._is_watching = True
            try:
                await self._database.watch(self.publish)
            except BaseException:
                self._is_watching = False
                raise

    @property
    def notifies_others(self) -> bool:
        """Whether other processes receive our notices."""
        return self._database.kind == "postgresql"

    @contextmanager
    def subscribe(self, project: str, listener: ChangeListener) -> Generator[None]:
        """Send the changes of a project to a page, within the block."""
        self._tabs.setdefault(project, set()).add(listener)
        try:
            yield
        finally:
            self._tabs[project].discard(listener)
            if not self._tabs[project]:
                del self._tabs[project]

    def on_notification(self, names: Collection[str]) -> None:
        """Handle notices of other processes. Our own come back, and are ignored."""
        for name in names:
            sender, *fields = name.split("/")
            if sender != self._process_tag and len(fields) == 4 and fields[1] in _KINDS:
                project, kind, ref, run = fields
                self._notify_tabs(Change(project, cast("ChangeKind", kind), ref, run or None))

    async def stop(self) -> None:
        """Send pending notices to other processes."""
        pending, self._recently_sent = self._recently_sent, {}
        for change in pending.values():
            if change is not None:
                self._notify_processes(change)
        if self._send_task is not None:
            await asyncio.wait([self._send_task])

    # Notices to pages

    def publish(self, changes: Sequence[Change]) -> None:
        """Report changes; called with those that this process writes."""
        merged: dict[_Key, Change] = {}
        for change in changes:
            _merge(merged, change)
        for change in merged.values():
            if self._tabs:
                self._notify_tabs(change)
            if self.notifies_others:
                self._notify_processes(change)

    def _notify_tabs(self, change: Change) -> None:
        """Send a notice at once, or when the interval since the last one of the same object has passed."""
        if change.project != ALL_PROJECTS and change.project not in self._tabs:
            return
        key = _change_key(change)
        if key in self._recent:
            _merge(self._recent, change)
            return
        if change.kind == "run":
            count = self._recent_run_counts.get(change.project, 0)
            if count >= _MAX_RUNS_PER_PROJECT:
                return
            self._recent_run_counts[change.project] = count + 1
        self._deliver(key, change)

    def _deliver(self, key: _Key, change: Change) -> None:
        self._recent[key] = None
        interval = SLOW_REPEAT_INTERVAL_S if change.kind in _SLOW_KINDS else REPEAT_INTERVAL_S
        asyncio.get_running_loop().call_later(interval, self._on_interval_end, key)
        projects = list(self._tabs) if change.project == ALL_PROJECTS else [change.project]
        for project in projects:
            for listener in list(self._tabs.get(project, ())):
                listener(change)

    def _on_interval_end(self, key: _Key) -> None:
        change = self._recent.pop(key)
        if change is not None:
            self._deliver(key, change)
        elif key[1] == "run":
            self._recent_run_counts[key[0]] -= 1
            if not self._recent_run_counts[key[0]]:
                del self._recent_run_counts[key[0]]

    # Notices to other processes

    def _notify_processes(self, change: Change) -> None:
        key = _change_key(change)
        if key in self._recently_sent:
            self._recently_sent[key] = change
            return
        if change.kind in _SLOW_KINDS:
            self._recently_sent[key] = None
            asyncio.get_running_loop().call_later(SLOW_REPEAT_INTERVAL_S, self._on_slow_interval_end, key)
        _merge(self._outgoing, change)
        if self._send_task is None:
            self._send_task = asyncio.get_running_loop().create_task(self._send_batches())

    def _on_slow_interval_end(self, key: _Key) -> None:
        change = self._recently_sent.pop(key, None)
        if change is not None:
            self._notify_processes(change)

    async def _send_batches(self) -> None:
        while self._outgoing:
            await asyncio.sleep(_BATCH_INTERVAL_S)
            names = ["/".join((self._process_tag, *change[:3], change.run or "")) for change in self._outgoing.values()]
            self._outgoing = {}
            try:
                await self._database.write(notifications.notify, "changed", names)
            except PalaverError as error:
                log.debug("Failed to notify other processes of changes: %s", error.message)
        self._send_task = None


def _change_key(change: Change) -> _Key:
    return change.project, change.kind, change.ref


def _merge(pending: MutableMapping[_Key, Change] | MutableMapping[_Key, Change | None], change: Change) -> None:
    """Replace the pending change of an object; keep its run if the new one has none."""
    previous = pending.get(_change_key(change))
    if previous is not None and change.run is None:
        change = change._replace(run=previous.run)
    pending[_change_key(change)] = change


@dataclass(frozen=True, eq=False, repr=False)
class NotificationRouter:
    """Passes notifications of other processes to the parts that they concern."""

    engine: Engine
    run_reader: RunReader
    heartbeat: Heartbeat
    run_queue: RunQueue
    authenticator: Authenticator
    connection_sync: ConnectionSync
    change_feed: ChangeFeed
    evaluation_worker: EvaluationWorker
    _reply_tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]], init=False)

    def dispatch(self, notice: Notification) -> None:
        match notice.kind:
            case "grew":
                self.run_reader.waiters.wake(notice.names)
            case "followed":
                self._reply_to_follower(notice)
            case "cancel":
                self._reply_to_follower(notice)  # The process that cancels it waits for its end.
                self.evaluation_worker.check_stopped()
            case "waiting":
                self.run_queue.wake()
                self.evaluation_worker.wake()
            case "key":
                self.authenticator.invalidate(*notice.names)
            case "connection":
                self.connection_sync.wake()
            case "changed":
                self.change_feed.on_notification(notice.names)
            case "missed":
                self.run_reader.waiters.wake_all()
                self.heartbeat.wake()
                self.run_queue.wake()
                self.evaluation_worker.wake()
                self.authenticator.invalidate_all()
                self.connection_sync.wake()
            case _:
                assert_never(notice.kind)

    async def stop(self) -> None:
        """Wait for pending replies."""
        await asyncio.gather(*self._reply_tasks)

    def _reply_to_follower(self, notice: Notification) -> None:
        if any(self.engine.find(name) is not None for name in notice.names):
            task = asyncio.get_running_loop().create_task(self._reply(notice))
            self._reply_tasks.add(task)
            task.add_done_callback(self._reply_tasks.discard)
            if notice.kind == "cancel":
                self.heartbeat.wake()

    async def _reply(self, notice: Notification) -> None:
        try:
            await self.run_reader.announce_growth(notice.names)
        except PalaverError as error:
            log.debug("Failed to notify processes that follow a run: %s", error.message)
