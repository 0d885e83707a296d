"""Notices: one process wakes others that wait. Tables carry the truth; a notice only says that it is worth a look.

PostgreSQL hands them on when the transaction that told them is durable. A file of SQLite's has nothing of the kind, so
nobody is told and everybody looks now and then; that, less often, they also do here, for notices may be lost.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from sqlalchemy import Connection, func, select

Kind = Literal["grew", "followed", "cancel", "waiting", "key", "connection", "changed", "missed"]
"""Runs grew or ended; runs are followed elsewhere; runs are to be cancelled; workflows whose runs wait; keys changed;
connections were added, removed or asked again; what pages look at changed; and, told to nobody but its own listeners by
a listener that was away: anything may have happened."""

Changing = Literal["thread", "run", "board", "workflow", "variant", "testset", "evaluation", "review", "rule", "spans"]
"""What pages look at."""

EVERYWHERE = "*"
"""The project of what all projects share."""
ALL = "*"
"""The ref of a notice that is about all things of its kind: spans are too many to be told of one by one."""

CHANNEL = "palaver"
_MOST_BYTES = 7_900
"""PostgreSQL takes less than 8,000 in one."""
_KINDS = frozenset(get_args(Kind))


class Notice(NamedTuple):
    """What happened, and to whom."""

    kind: Kind
    names: Collection[str]


class Change(NamedTuple):
    """Something that pages look at is not as it was. What it is now, they ask for themselves."""

    project: str
    kind: Changing
    ref: str
    """Its id, or its name."""
    run: str | None = None
    """The run that it has to do with."""


Heard = Callable[[Notice], None]
Touched = Callable[[Sequence[Change]], None]

_TOUCHED = "palaver.touched"


# Within one process


def touch(db: Connection, *changes: Change) -> None:
    """This transaction changes that: pages are told once it is durable, if there are any."""
    touch_all(db, changes)


def touch_all(db: Connection, changes: Iterable[Change]) -> None:
    """The same of many."""
    collected: list[Change] | None = db.info.get(_TOUCHED)
    if collected is not None:
        collected.extend(changes)


def collect(db: Connection) -> list[Change]:
    """Where this transaction will say what it changes."""
    collected: list[Change] = []
    db.info[_TOUCHED] = collected
    return collected


# Between processes


def tell(db: Connection, kind: Kind, names: Collection[str]) -> None:
    """Tell every process, once this transaction is durable."""
    if names and db.dialect.name == "postgresql":
        for payload in payloads(kind, names):
            db.execute(select(func.pg_notify(CHANNEL, payload)))


def payloads(kind: Kind, names: Collection[str]) -> Iterator[str]:
    """As few texts as hold all the names; names have no spaces."""
    waiting, size = [kind.encode()], len(kind)
    for name in map(str.encode, names):
        if size + len(name) + 1 > _MOST_BYTES and len(waiting) > 1:
            yield b" ".join(waiting).decode()
            waiting, size = [kind.encode()], len(kind)
        waiting.append(name)
        size += len(name) + 1
    yield b" ".join(waiting).decode()


def read(payload: str) -> Notice | None:
    """A notice; None for what is none of ours, or a newer version's."""
    kind, *names = payload.split(" ")
    return Notice(kind, names) if kind in _KINDS else None  # type: ignore[arg-type]
