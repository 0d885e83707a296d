"""An agent under MLflow's tracing, which exports over OTLP: two turns, each a trace.

MLflow's own instrumentation of OpenAI's SDK needs the whole of MLflow; the spans here have the same attributes.
"""

import json
from typing import Any

import mlflow
import openai

client = openai.OpenAI()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA},
}


@mlflow.trace(span_type="TOOL")
def weather(city: str) -> str:
    return {"Oslo": "4 °C", "Bergen": "9 °C"}[city]


def complete_chat(**arguments: Any) -> Any:
    """One call of the model, as MLflow's autologging records it."""
    with mlflow.start_span("Completions", span_type="CHAT_MODEL") as span:
        span.set_inputs(arguments)
        completion = client.chat.completions.create(**arguments)
        span.set_outputs(completion.model_dump(mode="json", exclude_none=True))
        span.set_attribute("mlflow.llm.model", completion.model)
        span.set_attribute("mlflow.llm.provider", "openai")
        span.set_attribute("mlflow.chat.tools", arguments["tools"])
        usage = completion.usage
        counts = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
        span.set_attribute("mlflow.chat.tokenUsage", {**counts, "total_tokens": usage.total_tokens})
        return completion.choices[0].message


@mlflow.trace(span_type="AGENT")
def answer(messages: list[Any]) -> str:
    span: Any = mlflow.get_current_active_span()
    span.set_attributes(
        {"mlflow.trace.session": "s-1", "mlflow.trace.user": "u-1"}
    )  # OTLP has no attributes of a trace.
    history[:] = messages
    while True:
        message = complete_chat(model="gpt-4o-mini", messages=[*history], tools=[TOOL], temperature=0)
        history.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            result = weather(**json.loads(call.function.arguments))
            history.append({"role": "tool", "tool_call_id": call.id, "content": result})


history: list[Any] = [{"role": "system", "content": "Be brief."}]
for question in ("What is the weather in Oslo?", "And in Bergen?"):
    answer([*history, {"role": "user", "content": question}])
mlflow.flush_trace_async_logging()
