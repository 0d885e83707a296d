"""A prompt in Anthropic's shapes, as OpenAI's Chat Completions take it. Cache marks have no counterpart there."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from palaver_jobchat.prompt import Prompt

_BETWEEN = "\n\n"


def messages(prompt: Prompt) -> list[dict[str, Any]]:
    """The conversation, our own words first."""
    system = _text(prompt.system)
    opening = [{"role": "system", "content": system}] if system else []
    return [*opening, *(message for turn in prompt.messages for message in _turn(turn))]


def tools(prompt: Prompt) -> list[dict[str, Any]]:
    """The tools. Not strict: there that word would make every field a required one."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool["input_schema"],
            },
        }
        for tool in prompt.tools
    ]


def _turn(turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = turn["content"]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = _text(blocks)
    if turn["role"] == "assistant":
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        yield {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        return
    for block in blocks:
        if block["type"] == "tool_result":
            result = block.get("content", "")
            said = result if isinstance(result, str) else _text(result)
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": said}
    if text:
        yield {"role": "user", "content": text}


def _text(blocks: Sequence[dict[str, Any]]) -> str:
    return _BETWEEN.join(block["text"] for block in blocks if block["type"] == "text")


def _call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = msgspec.json.encode(block["input"]).decode()
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}
