"""Servers and workers that use the database, with their heartbeats."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from palaver.storage.tables import processes

ProcessKind = Literal["server", "worker"]


class Process(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: ProcessKind
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime


def register_process(db: Connection, process: Process) -> None:
    db.execute(insert(processes), msgspec.structs.asdict(process))


def record_heartbeat(db: Connection, process: Process, at: datetime) -> None:
    """Write a heartbeat. A process that was removed as dead is registered again."""
    seen = db.execute(update(processes).where(processes.c.id == process.id).values(seen_at=at))
    if not seen.rowcount:
        register_process(db, msgspec.structs.replace(process, seen_at=at))


def list_processes(db: Connection) -> list[Process]:
    return [Process(**row) for row in db.execute(select(processes).order_by(processes.c.id)).mappings()]


def remove_processes(db: Connection, ids: Sequence[str]) -> None:
    db.execute(delete(processes).where(processes.c.id.in_(ids)))
