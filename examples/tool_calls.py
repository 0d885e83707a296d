"""Tools without a framework: the loop in which a model asks for calls, reads their results, and answers.

palaver serve examples/tool_calls.py
"""

import json
from collections.abc import AsyncIterator

from palaver import Message, ToolCall, ToolResult, chat

SHELF = {"pen": (1.2, 40), "book": (9.5, 3)}


def price(item: str) -> float:
    return SHELF[item][0]


def stock(item: str) -> int:
    return SHELF[item][1]


TOOLS = {tool.__name__: tool for tool in (price, stock)}


@chat
async def shop(messages: list[Message]) -> AsyncIterator[Message]:
    """Knows what a thing costs, and how many there are."""
    history = list(messages)
    while True:
        answer = await model(history)
        yield answer
        if not answer.tool_calls:
            return
        history.append(answer)
        for call in answer.tool_calls:
            result = Message(role="tool", parts=(called(call),))
            yield result
            history.append(result)


def called(call: ToolCall) -> ToolResult:
    """What the tool gives; what goes wrong is told to the model, which may know what to do."""
    try:
        return ToolResult(call_id=call.call_id, output=TOOLS[call.name](**call.parsed))
    except (LookupError, TypeError) as error:
        return ToolResult(call_id=call.call_id, output=f"{type(error).__name__}: {error}", is_error=True)


async def model(history: list[Message]) -> Message:
    """Stands for a real model: it asks both tools about what the user named, and says what they told."""
    if history[-1].role != "tool":
        asked = json.dumps({"item": history[-1].text.strip(" ?").lower()})
        calls = [ToolCall(call_id=f"{name}_{len(history)}", name=name, arguments=asked) for name in TOOLS]
        return Message.assistant("Let me look.", *calls)
    cost, left = (result for message in history[-2:] for result in message.tool_results)
    if cost.is_error:
        return Message.assistant("We do not have that.")
    return Message.assistant(f"It costs {cost.output:.2f}, and there are {left.output}.")
