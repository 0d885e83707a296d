"""The model of these tests: a workflow that the server offers to OpenAI clients.

Asked for the weather, it calls the offered tool and then repeats the tool's result. Without tools it always gives the
same answer. Frameworks may send the result as text, and may want the answer as a call of the tool `final_answer`. It
records no trace, so that all traces come from emitters.
"""

import json
import re
from collections.abc import Iterator

from palaver import Context, Message, ToolCall, Usage, chat


@chat(name="gpt-4o-mini", record="off")
def model(messages: list[Message], ctx: Context) -> Iterator[object]:
    """Tells the weather, with the help of a tool."""
    question = " ".join(message.text for message in messages if message.role == "user")
    city = (re.findall("Oslo|Bergen", question) or [""])[-1]
    last = messages[-1]
    observed = re.findall(r"\d °C", re.split("Oslo|Bergen", last.text)[-1])
    result = last.tool_results[-1].output if last.tool_results else observed[-1] if observed else None
    tools = [tool.get("function", tool)["name"] for tool in ctx.options.get("tools") or []]
    if result is None and not tools:
        yield "Tomorrow."
        return
    if result is None:
        yield ToolCall(call_id=f"call_{city.lower()}", name=tools[0], arguments=json.dumps({"city": city}))
        yield Usage(input_tokens=20, output_tokens=7)
        return
    if "final_answer" in tools:
        answer = json.dumps({"answer": f"It is {result} in {city}."}, ensure_ascii=False)
        yield ToolCall(call_id=f"answer_{city.lower()}", name="final_answer", arguments=answer)
    else:
        yield f"It is {result} "
        yield f"in {city}."
    yield Usage(input_tokens=30, output_tokens=9, cached_input_tokens=4)
