"""An application of the thread controllers, and its clients. `partial_replies` holds the replies of active runs."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from litestar import Litestar

from palaver.errors import WorkflowNotFound
from palaver.server.api.feedback import FeedbackController
from palaver.server.api.thread_files import ThreadFileController
from palaver.server.api.thread_messages import ThreadMessageController
from palaver.server.api.threads import PartialReply, ThreadController
from palaver.server.settings import Settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import FakeCaller, application, rest_client

partial_replies: dict[str, PartialReply] = {}


async def partial_reply(_project: str, run: str) -> PartialReply | None:
    return partial_replies.get(run)


class KnownWorkflows:
    """A registry of one workflow, `tutor`."""

    def find(self, name: str) -> str:
        if name != "tutor":
            raise WorkflowNotFound(name, known=["tutor"])
        return name


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()
    partial_replies.clear()


@pytest.fixture
def app(database: Database) -> Litestar:
    settings = Settings(max_parts=3)
    return application(
        [ThreadController, ThreadMessageController, ThreadFileController, FeedbackController],
        database=database,
        settings=settings,
        registry=KnownWorkflows(),
        partial_reply=partial_reply,
    )


@pytest.fixture
async def http(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app, FakeCaller(key="ab12cd34")) as client:
        yield client


@pytest.fixture
async def stranger(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app, FakeCaller("team-a")) as client:
        yield client


def problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error.get("path")


def message_item(role: str, text: str, name: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": text}], "id": name}


TALK = [message_item("user", "Why is the sky blue?", "u1"), message_item("assistant", "Because.", "a1")]


async def create_thread(http: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    answer = await http.post("/api/threads", json={"workflow": "tutor", "messages": TALK, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def ids(http: httpx.AsyncClient, thread: str, **query: Any) -> list[str]:
    answer = await http.get(f"/api/threads/{thread}/messages", params=query)
    assert answer.status_code == 200, answer.text
    return [node["id"] for node in answer.json()["data"]]
