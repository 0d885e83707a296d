"""Threads and runs for storage tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Boolean, Integer, String

from palaver.core.messages import Message
from palaver.storage.database import Database
from palaver.storage.schema import UtcTimestamp
from palaver.storage.tables import runs as runs_table
from palaver.storage.threads import repository as threads
from palaver.storage.threads.repository import NewThread, Thread

NOW = datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=UTC)
SECOND = timedelta(seconds=1)
P = "default"


def user(text: str, id: str | None = None) -> Message:
    return msgspec.structs.replace(Message.user(text), id=id)


def assistant(text: str, id: str | None = None) -> Message:
    return msgspec.structs.replace(Message.assistant(text), id=id)


def new_thread(id: str = "conv_1", at: datetime = NOW, **more: Any) -> NewThread:
    return NewThread(id=id, at=at, **more)


def run_row(id: str, thread: str | None, **more: Any) -> dict[str, Any]:
    """Return the columns of a finished run; unset ones are blank."""
    blank: dict[Any, Any] = {Boolean: False, Integer: 0, String: "", UtcTimestamp: NOW}
    row: dict[str, Any] = {
        column.name: None if column.nullable else blank[type(column.type)] for column in runs_table.columns
    }
    return row | {"project": P, "id": id, "workflow": "tutor", "status": "finished", "thread": thread} | more


async def create_conversation(database: Database, *texts: str, thread: str = "conv_1") -> Thread:
    """Create a thread with alternating messages of the user (u1, u2, …) and the assistant (a1, a2, …)."""
    messages = [
        (user if index % 2 == 0 else assistant)(text, f"{'ua'[index % 2]}{index // 2 + 1}")
        for index, text in enumerate(texts)
    ]
    return await database.write(threads.create_thread, P, new_thread(thread), messages)


async def branch_ids(database: Database, at: str | None = "head", thread: str = "conv_1") -> list[str]:
    return [node.id for node in await database.read(threads.get_branch, P, thread, at)]


async def post_messages(database: Database, parent: str | None, *messages: Message, **more: Any) -> list[str]:
    origin = more.pop("origin", "client")
    at = more.pop("at", NOW + SECOND)
    nodes = await database.write(threads.append_messages, P, "conv_1", parent, messages, origin=origin, at=at, **more)
    return [node.id for node in nodes]
