"""The history that a client sends in its second turn contains the first turn."""

import json
from collections.abc import Callable

import pytest

from tests.conformance import python_clients
from tests.conformance.node_drivers import Driver
from tests.server_process import ServerProcess

ALL = [
    ["user", "What time is it?"],
    ["assistant", "Let me check."],
    ["assistant", "c1: get_time({'tz': 'UTC'})"],
    ["tool", "c1: 12:00"],
    ["assistant", "It is noon."],
    ["user", "Thank you."],
]
# Chat Completions does not show a workflow's own tools.
MERGED = [
    ["user", "What time is it?"],
    ["assistant", "Let me check.\n\nIt is noon."],
    ["user", "Thank you."],
]
# A client that drops the result sends a call without a result, which Palaver drops.
WITHOUT_TOOL = [
    ["user", "What time is it?"],
    ["assistant", "Let me check."],
    ["assistant", "It is noon."],
    ["user", "Thank you."],
]
# A client that expected to run the tool itself reports it as unavailable.
UNAVAILABLE = ["tool", "c1: Model tried to call unavailable tool 'get_time'. No tools are available."]

CLIENTS = {
    "openai for Python": ("python", "twice", ALL),
    "openai for Node": ("openai", "twice", ALL),
    "openai for Node, chat": ("openai", "chatTwice", MERGED),
    "LangChain, Responses": ("python", "langchain_responses_twice", WITHOUT_TOOL),
    "LangChain, chat": ("python", "langchain_chat_twice", MERGED),
    "AI SDK databricks": ("ai_sdk", "databricksTwice", ALL),
    "AI SDK openai, Responses": ("ai_sdk", "openaiResponsesTwice", [*ALL[:3], ALL[4], UNAVAILABLE, ALL[5]]),
    "AI SDK openai, chat": ("ai_sdk", "openaiChatTwice", MERGED),
    "AI SDK open-responses": ("ai_sdk", "openResponsesTwice", [*ALL[:2], ALL[4], ALL[2], UNAVAILABLE, ALL[5]]),
    "useChat 5": ("use_chat", "ai5", ALL),
    "useChat 6": ("use_chat", "ai6", ALL),
    "useChat 7": ("use_chat", "ai7", ALL),
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
