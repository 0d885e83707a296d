"""Agenta's SDK, which sends to Agenta's own path."""

import json
from typing import Any

import agenta as ag
import openai
from opentelemetry import trace

ag.init()
client: Any = openai.OpenAI()

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA},
}


@ag.instrument(spankind="TOOL")
def weather(city: str) -> str:
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


@ag.instrument(spankind="CHAT")
def complete(messages: list[Any]) -> dict[str, Any]:
    response = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
    return response.choices[0].message.model_dump(exclude_none=True)


@ag.instrument(spankind="AGENT")
def forecaster(messages: list[Any]) -> list[Any]:
    ag.tracing.store_session("s-1")
    answers: list[Any] = []
    while True:
        message = complete([*messages, *answers])
        answers.append(message)
        for call in message.get("tool_calls") or []:
            result = weather(**json.loads(call["function"]["arguments"]))
            answers.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if not message.get("tool_calls"):
            return answers


history: list[Any] = [{"role": "system", "content": "Be brief."}]
for question in ("What is the weather in Oslo?", "And in Bergen?"):
    history.append({"role": "user", "content": question})
    history += forecaster(history)
trace.get_tracer_provider().force_flush()
