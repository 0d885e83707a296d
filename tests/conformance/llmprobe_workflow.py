"""A workflow that honours what a caller may ask of a model: length, stop words, tools, JSON, effort. For llmprobe.

Its tokens are words, and it says the last words that it heard, or the name that it was told before. The platform hands
such wishes over as `ctx.options` and claims no more than that: what llmprobe calls an engine is Palaver and a workflow
like this one together.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from palaver import Context, Failure, Message, Reasoning, ToolCall, Usage, chat


@chat
def probed(messages: list[Message], ctx: Context) -> Iterator[object]:
    """Says the last words again, or what the caller's options want."""
    if ctx.options.get("logprobs"):
        raise Failure("unsupported_value", "This workflow has no probabilities to tell.", status=400)
    room = ctx.options.get("max_output_tokens") or 1_000_000
    thoughts = words("Let me see. " * 20)[:room] if _thinks(ctx.options) else []
    yield from (Reasoning(text=thought) for thought in thoughts)
    calls = _calls(messages, ctx.options)
    yield from calls
    said = [] if calls else words(_text(messages, ctx.options))
    yield from said[: room - len(thoughts)]
    if len(said) + len(thoughts) > room:
        ctx.finish("length")
    yield Usage(
        input_tokens=sum(len(words(_everything(message))) for message in messages),
        output_tokens=min(len(said) + len(thoughts) + len(calls), room),
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


def _thinks(options: Mapping[str, Any]) -> bool:
    effort = (options.get("reasoning") or {}).get("effort")
    return effort not in (None, "none")


def _calls(messages: Sequence[Message], options: Mapping[str, Any]) -> list[ToolCall]:
    """One call of each tool where a call is required, or of the named one; the first alone if not in parallel."""
    tools = [tool.get("function", tool) for tool in options.get("tools") or []]
    match options.get("tool_choice"):
        case "required":
            wanted = tools
        case {"function": {"name": name}} | {"name": name}:
            wanted = [tool for tool in tools if tool["name"] == name]
        case _:
            wanted = []
    if options.get("parallel_tool_calls") is False:
        wanted = wanted[:1]
    return [
        ToolCall(call_id=f"call_{number}", name=tool["name"], arguments=json.dumps(example(tool["parameters"])))
        for number, tool in enumerate(wanted, len(messages))
    ]


def _text(messages: Sequence[Message], options: Mapping[str, Any]) -> str:
    wanted = (options.get("text") or {}).get("format") or {}
    match wanted.get("type"):
        case "json_object":
            return json.dumps({"name": "Ada", "age": 36})
        case "json_schema":
            return json.dumps(example(wanted["schema"]))
        case _:
            said = next((message.text for message in reversed(messages) if message.text), "Nothing was said.")
            said = (_name(messages) or said) if "my name?" in said else said
            return _until(said, options.get("stop"))


def _name(messages: Sequence[Message]) -> str | None:
    """What somebody said to be called."""
    found = re.search(r"My name is (\w+)", " ".join(message.text for message in messages))
    return found and found[1]


def _until(text: str, stop: str | Sequence[str] | None) -> str:
    """The text up to the first of the stop words."""
    stops = [stop] if isinstance(stop, str) else stop or []
    return text[: min((text.index(word) for word in stops if word in text), default=len(text))]


def _everything(message: Message) -> str:
    return " ".join([message.text, *(part.text for part in message.parts if isinstance(part, Reasoning))])
