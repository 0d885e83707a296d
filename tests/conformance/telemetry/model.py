"""The model of these tests: a workflow that the server offers to OpenAI clients.

Asked for the weather, it calls the offered tool and then repeats the tool's result. Without tools it always gives the
same answer. It records no trace, so that all traces come from emitters.
"""

import json
from collections.abc import Iterator

from palaver import Context, Message, ToolCall, Usage, chat


@chat(name="gpt-4o-mini", record="off")
def model(messages: list[Message], ctx: Context) -> Iterator[object]:
    """Tells the weather, with the help of a tool."""
    city = [message.text for message in messages if message.role == "user"][-1].rstrip("?").split()[-1]
    results = messages[-1].tool_results
    if not results:
        tools = [tool.get("function", tool)["name"] for tool in ctx.options.get("tools") or []]
        if not tools:
            yield "Tomorrow."
            return
        yield ToolCall(call_id=f"call_{city.lower()}", name=tools[0], arguments=json.dumps({"city": city}))
        yield Usage(input_tokens=20, output_tokens=7)
        return
    yield f"It is {results[-1].output} "
    yield f"in {city}."
    yield Usage(input_tokens=30, output_tokens=9, cached_input_tokens=4)
