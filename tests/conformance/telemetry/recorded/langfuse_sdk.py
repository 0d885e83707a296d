"""Langfuse's SDK with its OpenAI integration and its decorator, which send to Langfuse's own path with Basic auth."""

import json
from typing import Any

from langfuse import get_client, observe, propagate_attributes
from langfuse.openai import OpenAI

client: Any = OpenAI()

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA},
}


@observe(as_type="tool")
def weather(city: str) -> str:
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


@observe(name="forecaster", as_type="agent")
def answer(question: str) -> str:
    messages.append({"role": "user", "content": question})
    while True:
        response = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL], temperature=0)
        message = response.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or []:
            result = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if not message.tool_calls:
            return message.content


messages: list[Any] = [{"role": "system", "content": "Be brief."}]
for question in ("What is the weather in Oslo?", "And in Bergen?"):
    with propagate_attributes(session_id="s-1", user_id="u-1"):
        answer(question)
get_client().shutdown()
