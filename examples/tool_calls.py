"""Tools without a framework: a loop in which the model requests calls, reads the results and answers.

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
    """Looks up prices and stock."""
    history = list(messages)
    while True:
        answer = await model(history)
        yield answer
        if not answer.tool_calls:
            return
        history.append(answer)
        for call in answer.tool_calls:
            result = Message(role="tool", parts=(call_tool(call),))
            yield result
            history.append(result)


def call_tool(call: ToolCall) -> ToolResult:
    """Call the tool. An error is returned to the model, which may recover."""
    try:
        return ToolResult(call_id=call.call_id, output=TOOLS[call.name](**call.parsed))
    except (LookupError, TypeError) as error:
        return ToolResult(call_id=call.call_id, output=f"{type(error).__name__}: {error}", is_error=True)


async def model(history: list[Message]) -> Message:
    """A stand-in for a real model: it calls both tools with the user's text and reports their results."""
    if history[-1].role != "tool":
        arguments = json.dumps({"item": history[-1].text.strip(" ?").lower()})
        calls = [ToolCall(call_id=f"{name}_{len(history)}", name=name, arguments=arguments) for name in TOOLS]
        return Message.assistant("Let me look.", *calls)
    cost, in_stock = (result for message in history[-2:] for result in message.tool_results)
    if cost.is_error:
        return Message.assistant("We don't have that.")
    return Message.assistant(f"It costs {cost.output:.2f}, and we have {in_stock.output} in stock.")
