"""Notices: one process wakes others that wait. Tables carry the truth; a notice only says that it is worth a look.

PostgreSQL hands them on when the transaction that told them is durable. A file of SQLite's has nothing of the kind, so
nobody is told and everybody looks now and then; that, less often, they also do here, for notices may be lost.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple, get_args

from sqlalchemy import Connection, func, select

Kind = Literal["grew", "followed", "cancel", "waiting", "key", "missed"]
"""Runs grew or ended; runs are followed elsewhere; runs are to be cancelled; workflows whose runs wait; keys changed;
and, told to nobody but its own listeners by a listener that was away: anything may have happened."""

CHANNEL = "palaver"
_MOST_BYTES = 7_900
"""PostgreSQL takes less than 8,000 in one."""
_KINDS = frozenset(get_args(Kind))


class Notice(NamedTuple):
    """What happened, and to whom."""

    kind: Kind
    names: Collection[str]


Heard = Callable[[Notice], None]


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
