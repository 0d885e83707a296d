"""Stored files are passed as bytes to frameworks and remote services, which cannot resolve Palaver's file ids."""

from typing import Any

import msgspec
import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda

from palaver.core.messages import File, Message
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.errors import NotFound
from palaver.workflows.decorators import chat
from palaver.workflows.workflow import Workflow
from tests.engine.run_factory import call
from tests.frameworks.fake_servers import fake_server, full_response
from tests.frameworks.test_remote_dialects import COMPLETION, RESPONSE

IMAGE_QUESTION = Message.user("What is it?", File("image/png", file_id="file_1", filename="sky.png", detail="low"))
IMAGE_BASE64 = "c2t5"
MISSING_FILE_MESSAGE = Message.user(File("image/png", file_id="file_2", filename="old.png"))
PROVIDER_FILE_MESSAGE = Message.assistant("See:", File("application/pdf", file_id="file-abc"))
seen: list[Any] = []


async def fetch(project: str, part: File) -> bytes:
    if (project, part.file_id) != ("default", "file_1"):
        raise NotFound("There is none.")
    return b"sky"


async def run_workflow(workflow: Workflow, *messages: Message) -> Run:
    seen.clear()
    run = Engine(fetch=fetch).start(workflow, call(*messages))
    await run.wait_ended()
    return run


def record_messages(messages: Any) -> str:
    seen.extend(messages)
    return "Seen."


async def langchain_chat(messages: list[BaseMessage]) -> str:
    return record_messages(messages)


@pytest.mark.parametrize(
    "workflow",
    [chat(RunnableLambda(record_messages, name="shout")), chat(langchain_chat)],
    ids=["adopted", "annotated"],
)
async def test_langchain_gets_the_bytes_of_a_stored_file(workflow: Workflow) -> None:
    run = await run_workflow(workflow, IMAGE_QUESTION)

    assert IMAGE_BASE64 in str(seen[0].content)
    assert "file_1" not in str(seen[0])
    assert run.call.messages == (IMAGE_QUESTION,)  # What is stored with the run.


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        ("responses", RESPONSE),
        ("chat-completions", COMPLETION),
        ("invoke", {"data": {"outputs": {"role": "assistant", "content": "Hello"}}}),
    ],
    ids=["responses", "completions", "invoke"],
)
async def test_a_remote_service_gets_the_bytes_of_a_stored_file(dialect: str, answer: Any) -> None:
    with fake_server(full_response(answer)) as server:
        await run_workflow(server.workflow(dialect=dialect, streams=False), IMAGE_QUESTION)

    sent = msgspec.json.encode(server.requests[-1].body).decode()
    assert f"data:image/png;base64,{IMAGE_BASE64}" in sent
    assert "file_1" not in sent


async def test_a_missing_file_becomes_a_note_and_file_ids_of_a_provider_are_passed_on() -> None:
    async def answers(messages: list[dict[str, Any]]) -> str:
        return record_messages(messages)

    await run_workflow(chat(answers), PROVIDER_FILE_MESSAGE, MISSING_FILE_MESSAGE, IMAGE_QUESTION)

    assert [message["content"] for message in seen] == [
        [{"type": "text", "text": "See:"}, {"type": "file", "file": {"file_id": "file-abc"}}],
        "[A file was attached here ('old.png', image/png), but it is no longer available.]",
        [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE_BASE64}", "detail": "low"}},
        ],
    ]
