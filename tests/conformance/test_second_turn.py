"""The history that a client sends in its second turn contains the first turn."""

import json
from collections.abc import Callable

import pytest

from tests.conformance import python_clients
from tests.conformance.node_drivers import Driver
from tests.server_process import ServerProcess

FULL_HISTORY = [
    ["user", "What time is it?"],
    ["assistant", "Let me check."],
    ["assistant", "c1: get_time({'tz': 'UTC'})"],
    ["tool", "c1: 12:00"],
    ["assistant", "It is noon."],
    ["user", "Thank you."],
]
# Chat Completions does not show a workflow's own tools.
MERGED_HISTORY = [
    ["user", "What time is it?"],
    ["assistant", "Let me check.\n\nIt is noon."],
    ["user", "Thank you."],
]
# Some clients drop the calls that the server made.
HISTORY_WITHOUT_TOOL = [
    ["user", "What time is it?"],
    ["assistant", "Let me check."],
    ["assistant", "It is noon."],
    ["user", "Thank you."],
]
CLIENTS = {
    "openai for Python": ("python", "twice", FULL_HISTORY),
    "openai for Node": ("openai", "twice", FULL_HISTORY),
    "openai for Node, chat": ("openai", "chatTwice", MERGED_HISTORY),
    "LangChain, Responses": ("python", "langchain_responses_twice", FULL_HISTORY),
    "LangChain, chat": ("python", "langchain_chat_twice", MERGED_HISTORY),
    "AI SDK databricks": ("ai_sdk", "databricksTwice", FULL_HISTORY),
    "AI SDK openai, Responses": ("ai_sdk", "openaiResponsesTwice", HISTORY_WITHOUT_TOOL),
    "AI SDK openai, Responses, by reference": ("ai_sdk", "openaiResponsesReferences", FULL_HISTORY),
    "AI SDK openai, chat": ("ai_sdk", "openaiChatTwice", MERGED_HISTORY),
    "AI SDK open-responses": ("ai_sdk", "openResponsesTwice", HISTORY_WITHOUT_TOOL),
    "useChat 5": ("use_chat", "ai5", FULL_HISTORY),
    "useChat 6": ("use_chat", "ai6", FULL_HISTORY),
    "useChat 7": ("use_chat", "ai7", FULL_HISTORY),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_second_turn_receives_the_messages_of_the_first(
    client: str, server: ServerProcess, drivers: Callable[[str], Driver]
) -> None:
    kind, way, expected = CLIENTS[client]
    request = {"url": server.url, "workflow": "recalling", "prompt": "What time is it?", "then": "Thank you."}

    if kind == "python":
        record = python_clients.empty_record()
        getattr(python_clients, way)(record, **request)
    else:
        record = drivers(kind).ask(way=way, **request)

    assert record["error"] is None
    assert json.loads("".join(record["text"])) == expected
