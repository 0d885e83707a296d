"""OpenAI's SDK, instrumented by OpenLLMetry: both of its APIs, whole and streamed, two turns each, and each a trace."""

import contextlib
import json
from typing import Any

import openai
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
OpenAIInstrumentor().instrument()
tracer = trace.get_tracer("shop")
client: Any = openai.OpenAI()

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
CHAT_TOOLS: Any = [{"type": "function", "function": FUNCTION}]
TOOLS: Any = [{"type": "function", "strict": False, **FUNCTION}]


def weather(city: str) -> str:
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


def chat(messages: list[Any]) -> None:
    """One turn by Chat Completions; the messages grow."""
    while True:
        response = client.chat.completions.create(
            model="gpt-4o-mini", messages=messages, tools=CHAT_TOOLS, temperature=0
        )
        message = response.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or []:
            answer = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
        if not message.tool_calls:
            return


def chat_streamed(messages: list[Any]) -> None:
    """The same, as a stream."""
    while True:
        stream = client.chat.completions.create(
            model="gpt-4o-mini",
            messages=messages,
            tools=CHAT_TOOLS,
            stream=True,
            stream_options={"include_usage": True},
        )
        text, calls = "", []
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for delta in choice.delta.tool_calls or []:
                    if delta.index == len(calls):
                        calls.append({"id": delta.id, "name": delta.function.name, "arguments": ""})
                    calls[delta.index]["arguments"] += delta.function.arguments or ""
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": {key: call[key] for key in ("name", "arguments")}}
                for call in calls
            ]
        messages.append(message)
        for call in calls:
            answer = weather(**json.loads(call["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
        if not calls:
            return


def responses(items: list[Any]) -> None:
    """One turn by the Responses API; the items grow."""
    while True:
        response = client.responses.create(model="gpt-4o-mini", input=items, tools=TOOLS, store=False)
        if not _add_tool_results(response.output, items):
            return


def responses_streamed(items: list[Any]) -> None:
    """The same, as a stream."""
    while True:
        stream = client.responses.create(
            model="gpt-4o-mini",
            input=items,
            tools=TOOLS,
            store=False,
            stream=True,
        )
        output = []
        for event in stream:
            if event.type == "response.completed":
                output = event.response.output
        if not _add_tool_results(output, items):
            return


def _add_tool_results(output: list[Any], items: list[Any]) -> bool:
    """Append the output and the results of its calls; return whether there were calls."""
    items += [item.model_dump(exclude_none=True) for item in output]
    calls = [item for item in output if item.type == "function_call"]
    for call in calls:
        answer = weather(**json.loads(call.arguments))
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": answer})
    return bool(calls)


for session, turn in (
    ("chat", chat),
    ("chat-streamed", chat_streamed),
    ("responses", responses),
    ("responses-streamed", responses_streamed),
):
    history: list[Any] = [{"role": "system", "content": "Be brief."}]
    for question in ("What is the weather in Oslo?", "And in Bergen?"):
        with tracer.start_as_current_span("answer", attributes={"session.id": session, "user.id": "u-1"}):
            history.append({"role": "user", "content": question})
            turn(history)
with contextlib.suppress(openai.NotFoundError), tracer.start_as_current_span("answer") as span:
    span.set_attribute("session.id", "failed")
    messages: Any = [{"role": "user", "content": "Hello?"}]
    client.chat.completions.create(model="gpt-of-nobody", messages=messages)
provider.shutdown()
