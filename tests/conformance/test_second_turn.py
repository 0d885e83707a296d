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
# A client that drops the result sends a call without a result, which Palaver drops.
HISTORY_WITHOUT_TOOL = [
    ["user", "What time is it?"],
    ["assistant", "Let me check."],
    ["assistant", "It is noon."],
    ["user", "Thank you."],
]
# A client that expected to run the tool itself reports it as unavailable.
UNAVAILABLE_TOOL = ["tool", "c1: Model tried to call unavailable tool 'get_time'. No tools are available."]

CLIENTS = {
    "openai for Python": ("python", "twice", FULL_HISTORY),
    "openai for Node": ("openai", "twice", FULL_HISTORY),
    "openai for Node, chat": ("openai", "chatTwice", MERGED_HISTORY),
    "LangChain, Responses": ("python", "langchain_responses_twice", HISTORY_WITHOUT_TOOL),
    "LangChain, chat": ("python", "langchain_chat_twice", MERGED_HISTORY),
    "AI SDK databricks": ("ai_sdk", "databricksTwice", FULL_HISTORY),
    "AI SDK openai, Responses": (
        "ai_sdk",
        "openaiResponsesTwice",
        [*FULL_HISTORY[:3], FULL_HISTORY[4], UNAVAILABLE_TOOL, FULL_HISTORY[5]],
    ),
    "AI SDK openai, chat": ("ai_sdk", "openaiChatTwice", MERGED_HISTORY),
    "AI SDK open-responses": (
        "ai_sdk",
        "openResponsesTwice",
        [*FULL_HISTORY[:2], FULL_HISTORY[4], FULL_HISTORY[2], UNAVAILABLE_TOOL, FULL_HISTORY[5]],
    ),
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
