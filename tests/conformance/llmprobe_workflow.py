"""A workflow for llmprobe that honours a model's options: length, tools, JSON, effort.

Its tokens are words, and it repeats the last message, or the name given before. Palaver only passes the options on as
`ctx.options`: what llmprobe calls an engine is Palaver together with such a workflow.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from palaver import Context, Message, Reasoning, ToolCall, Usage, chat


@chat
def probed(messages: list[Message], ctx: Context) -> Iterator[object]:
    """Repeats the last message, or answers as the caller's options require."""
    max_tokens = ctx.options.get("max_output_tokens") or 1_000_000
    thoughts = words("Let me see. " * 20)[:max_tokens] if _is_reasoning(ctx.options) else []
    yield from (Reasoning(text=thought) for thought in thoughts)
    calls = _tool_calls(messages, ctx.options)
    yield from calls
    output_words = [] if calls else words(_answer_text(messages, ctx.options))
    yield from output_words[: max_tokens - len(thoughts)]
    if len(output_words) + len(thoughts) > max_tokens:
        ctx.finish("length")
    yield Usage(
        input_tokens=sum(len(words(_full_text(message))) for message in messages),
        output_tokens=min(len(output_words) + len(thoughts) + len(calls), max_tokens),
        reasoning_tokens=len(thoughts),
    )


def words(text: str) -> list[str]:
    """The tokens of a text: each word with the space around it."""
    return re.findall(r"\s*\S+\s*", text)


def example(schema: Mapping[str, Any]) -> Any:
    """A value that a JSON schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: example(inner) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return [example(schema.get("items", {}))]
        case "integer" | "number":
            return 4
        case "boolean":
            return True
        case _:
            return "Paris"


def _is_reasoning(options: Mapping[str, Any]) -> bool:
    effort = (options.get("reasoning") or {}).get("effort")
    return effort not in (None, "none")


def _tool_calls(messages: Sequence[Message], options: Mapping[str, Any]) -> list[ToolCall]:
    """Return one call of each tool if `tool_choice` is "required", or of the tool that it names.

    Only the first if parallel calls are off.
    """
    tools = [tool.get("function", tool) for tool in options.get("tools") or []]
    match options.get("tool_choice"):
        case "required":
            called_tools = tools
        case {"function": {"name": name}} | {"name": name}:
            called_tools = [tool for tool in tools if tool["name"] == name]
        case _:
            called_tools = []
    if options.get("parallel_tool_calls") is False:
        called_tools = called_tools[:1]
    return [
        ToolCall(call_id=f"call_{number}", name=tool["name"], arguments=json.dumps(example(tool["parameters"])))
        for number, tool in enumerate(called_tools, len(messages))
    ]


def _answer_text(messages: Sequence[Message], options: Mapping[str, Any]) -> str:
    text_format = (options.get("text") or {}).get("format") or {}
    match text_format.get("type"):
        case "json_object":
            return json.dumps({"name": "Ada", "age": 36})
        case "json_schema":
            return json.dumps(example(text_format["schema"]))
        case _:
            text = next((message.text for message in reversed(messages) if message.text), "Nothing was said.")
            return (_name(messages) or text) if "my name?" in text else text


def _name(messages: Sequence[Message]) -> str | None:
    """The name in "My name is …"."""
    match = re.search(r"My name is (\w+)", " ".join(message.text for message in messages))
    return match and match[1]


def _full_text(message: Message) -> str:
    return " ".join([message.text, *(part.text for part in message.parts if isinstance(part, Reasoning))])
