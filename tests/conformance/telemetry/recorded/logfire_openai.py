"""Logfire's instrumentation of OpenAI's SDK: span names are templates, and `logfire.msg` is the name to show."""

import json
from typing import Any

import logfire
import openai

logfire.configure(send_to_logfire=False, console=False)  # It reads the variables of OpenTelemetry.
logfire.instrument_openai()
client: Any = openai.OpenAI()

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA},
}

messages: list[Any] = [{"role": "system", "content": "Be brief."}]
for question, answer in (("What is the weather in Oslo?", "4 °C"), ("And in Bergen?", "9 °C")):
    messages.append({"role": "user", "content": question})
    with logfire.span("Answer {question}", question=question, **{"gen_ai.conversation.id": "s-1"}):
        while True:
            response = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
            message = response.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or []:
                assert json.loads(call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
            if not message.tool_calls:
                break
logfire.shutdown()
