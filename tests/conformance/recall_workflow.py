"""A workflow that calls a tool in its first turn, and in its second lists the messages it received."""

import json
from collections.abc import Iterator

from palaver import Message, Text, ToolCall, ToolResult, chat


@chat
def recalling(messages: list[Message]) -> Iterator[object]:
    """Calls a tool for the time; in later turns, returns the parts of all messages as JSON."""
    if any(message.role == "assistant" for message in messages):
        yield json.dumps([[message.role, describe_part(part)] for message in messages for part in message.parts])
        return
    yield "Let me check."
    yield ToolCall(call_id="c1", name="get_time", arguments='{"tz":"UTC"}')
    yield ToolResult(call_id="c1", output="12:00")
    yield "It is noon."


def describe_part(part: object) -> str:
    match part:
        case Text(text=text):
            return text
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return f"{call_id}: {name}({json.loads(arguments)})"
        case ToolResult(call_id=call_id, output=output):
            return f"{call_id}: {output}"
        case _:
            return type(part).__name__
