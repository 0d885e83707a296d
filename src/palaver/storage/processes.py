"""Processes at work on one database: each says now and then that it is alive."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from palaver.storage.tables import processes

ProcessKind = Literal["server", "worker"]


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One of them."""

    id: str
    kind: ProcessKind
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime


def register_process(db: Connection, process: Process) -> None:
    """It begins."""
    db.execute(insert(processes), msgspec.structs.asdict(process))


def record_heartbeat(db: Connection, process: Process, at: datetime) -> None:
    """It is alive. One that others took for dead comes back."""
    seen = db.execute(update(processes).where(processes.c.id == process.id).values(seen_at=at))
    if not seen.rowcount:
        register_process(db, msgspec.structs.replace(process, seen_at=at))


def list_processes(db: Connection) -> list[Process]:
    """All of them."""
    return [Process(**found) for found in db.execute(select(processes).order_by(processes.c.id)).mappings()]


def remove_processes(db: Connection, ids: Sequence[str]) -> None:
    """They have ended."""
    db.execute(delete(processes).where(processes.c.id.in_(ids)))
