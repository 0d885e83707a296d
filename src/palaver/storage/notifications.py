"""Change notifications, within this process and between processes.

Tables hold the truth; a notification only says that something is worth reading. PostgreSQL delivers notifications when
the transaction that sent them commits. SQLite has no such mechanism, so readers poll there; they also poll on
PostgreSQL, less often, since notifications may be lost.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, get_args

from sqlalchemy import Connection, func, select

NotificationKind = Literal["grew", "followed", "cancel", "waiting", "key", "connection", "changed", "missed"]
"""`grew`: runs grew or ended; `followed`: runs are followed by another process; `cancel`: runs to cancel; `waiting`:
workflows with queued work; `key`: API keys changed; `connection`: connections changed; `changed`: something that pages
show changed; `missed`: sent to local handlers after a lost connection, anything may have changed."""

ChangeKind = Literal[
    "thread", "run", "board", "workflow", "variant", "testset", "evaluation", "review", "rule", "spans"
]
"""What pages show."""

ALL_PROJECTS = "*"
"""The project of changes that concern all projects."""
ALL_REFS = "*"
"""The ref of a change to any number of objects: spans are too many to be listed."""

CHANNEL = "palaver"
_MAX_PAYLOAD_BYTES = 7_900
"""PostgreSQL limits a payload to less than 8,000 bytes."""
_KINDS = frozenset(get_args(NotificationKind))


class Notification(NamedTuple):
    kind: NotificationKind
    names: Collection[str]


class Change(NamedTuple):
    """Something that pages show has changed."""

    project: str
    kind: ChangeKind
    ref: str
    """An id or a name."""
    run: str | None = None
    """The run that caused it."""


NotificationHandler = Callable[[Notification], None]
ChangeHandler = Callable[[Sequence[Change]], None]

_CHANGES_KEY = "palaver.touched"


# Within this process


def mark_changed(db: Connection, *changes: Change) -> None:
    """Report changes of this transaction to watchers once it is durable."""
    collected: list[Change] | None = db.info.get(_CHANGES_KEY)
    if collected is not None:
        collected.extend(changes)


def collect_changes(db: Connection) -> list[Change]:
    """Collect the changes of this transaction; returns the list that they are added to."""
    collected: list[Change] = []
    db.info[_CHANGES_KEY] = collected
    return collected


# Between processes


def notify(db: Connection, kind: NotificationKind, names: Collection[str]) -> None:
    """Notify all processes once this transaction is durable (PostgreSQL only)."""
    if names and db.dialect.name == "postgresql":
        for payload in encode_notifications(kind, names):
            db.execute(select(func.pg_notify(CHANNEL, payload)))


def encode_notifications(kind: NotificationKind, names: Collection[str]) -> Iterator[str]:
    """Pack names, which contain no spaces, into as few payloads as possible."""
    parts, size = [kind.encode()], len(kind)
    for name in map(str.encode, names):
        if size + len(name) + 1 > _MAX_PAYLOAD_BYTES and len(parts) > 1:
            yield b" ".join(parts).decode()
            parts, size = [kind.encode()], len(kind)
        parts.append(name)
        size += len(name) + 1
    yield b" ".join(parts).decode()


def parse_notification(payload: str) -> Notification | None:
    """Parse a payload; None for an unknown kind, for example of a newer version."""
    kind, *names = payload.split(" ")
    return Notification(kind, names) if kind in _KINDS else None  # type: ignore[arg-type]


class ChangeWatchers:
    """Handlers of this process's changes, called on their own event loops from any thread."""

    def __init__(self) -> None:
        self._handlers: list[tuple[asyncio.AbstractEventLoop, ChangeHandler]] = []

    def __bool__(self) -> bool:
        return bool(self._handlers)

    def add(self, handler: ChangeHandler) -> None:
        """Call the handler from now on, on the running event loop."""
        self._handlers.append((asyncio.get_running_loop(), handler))

    def notify(self, changes: Sequence[Change]) -> None:
        for loop, handler in self._handlers:
            with suppress(RuntimeError):  # The event loop is closed.
                loop.call_soon_threadsafe(handler, changes)
