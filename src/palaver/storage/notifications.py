"""Change notifications, within this process and between processes."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, get_args

from sqlalchemy import Connection, func, select

NotificationKind = Literal["grew", "followed", "cancel", "waiting", "key", "connection", "changed", "missed"]
"""Runs grew or ended; runs are followed elsewhere; runs are to be cancelled; workflows whose runs wait; keys changed;
connections were added, removed or asked again; what pages look at changed; and, told to nobody but its own listeners by
a listener that was away: anything may have happened."""

ChangeKind = Literal[
    "thread", "run", "board", "workflow", "variant", "testset", "evaluation", "review", "rule", "spans"
]
"""What pages look at."""

ALL_PROJECTS = "*"
"""The project of what all projects share."""
ALL_REFS = "*"
"""The ref of a notice that is about all things of its kind: spans are too many to be told of one by one."""

CHANNEL = "palaver"
_MAX_PAYLOAD_BYTES = 7_900
"""PostgreSQL takes less than 8,000 in one."""
_KINDS = frozenset(get_args(NotificationKind))


class Notification(NamedTuple):
    """What happened, and to whom."""

    kind: NotificationKind
    names: Collection[str]


class Change(NamedTuple):
    """Something that pages look at is not as it was. What it is now, they ask for themselves."""

    project: str
    kind: ChangeKind
    ref: str
    """Its id, or its name."""
    run: str | None = None
    """The run that it has to do with."""


NotificationHandler = Callable[[Notification], None]
ChangeHandler = Callable[[Sequence[Change]], None]

_CHANGES_KEY = "palaver.touched"


# Within one process


def mark_changed(db: Connection, *changes: Change) -> None:
    """This transaction changes that: pages are told once it is durable, if there are any."""
    mark_all_changed(db, changes)


def mark_all_changed(db: Connection, changes: Iterable[Change]) -> None:
    """The same of many."""
    collected: list[Change] | None = db.info.get(_CHANGES_KEY)
    if collected is not None:
        collected.extend(changes)


def collect_changes(db: Connection) -> list[Change]:
    """Where this transaction will say what it changes."""
    collected: list[Change] = []
    db.info[_CHANGES_KEY] = collected
    return collected


# Between processes


def notify(db: Connection, kind: NotificationKind, names: Collection[str]) -> None:
    """Tell every process, once this transaction is durable."""
    if names and db.dialect.name == "postgresql":
        for payload in encode_notifications(kind, names):
            db.execute(select(func.pg_notify(CHANNEL, payload)))


def encode_notifications(kind: NotificationKind, names: Collection[str]) -> Iterator[str]:
    """As few texts as hold all the names; names have no spaces."""
    waiting, size = [kind.encode()], len(kind)
    for name in map(str.encode, names):
        if size + len(name) + 1 > _MAX_PAYLOAD_BYTES and len(waiting) > 1:
            yield b" ".join(waiting).decode()
            waiting, size = [kind.encode()], len(kind)
        waiting.append(name)
        size += len(name) + 1
    yield b" ".join(waiting).decode()


def parse_notification(payload: str) -> Notification | None:
    """A notice; None for what is none of ours, or a newer version's."""
    kind, *names = payload.split(" ")
    return Notification(kind, names) if kind in _KINDS else None  # type: ignore[arg-type]


class ChangeWatchers:
    """They are told in their own loops, by whichever thread has written."""

    def __init__(self) -> None:
        self._all: list[tuple[asyncio.AbstractEventLoop, ChangeHandler]] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, touched: ChangeHandler) -> None:
        """Tell this one from now on, in the loop that runs here."""
        self._all.append((asyncio.get_running_loop(), touched))

    def notify(self, changes: Sequence[Change]) -> None:
        """Tell all of them."""
        for loop, touched in self._all:
            with suppress(RuntimeError):  # That loop is closed.
                loop.call_soon_threadsafe(touched, changes)
