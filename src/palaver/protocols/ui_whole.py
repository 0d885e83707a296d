"""The UI message that a client has built when the stream ends: what is answered where nothing is streamed."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from palaver.core.events import Event
from palaver.protocols.ui_client import Client
from palaver.protocols.ui_parts import Part, Writer


def message(events: Sequence[Event], client: Client) -> Part:
    """The UI message of a run: all of it, and nothing of a message that was there before."""
    writer = Writer(msgspec.structs.replace(client, message=None, shown={}))
    return built(part for event in events for part in writer.parts(event))


def built(parts: Iterable[Part]) -> Part:
    """The message that the parts of one stream amount to."""
    whole: Part = {"id": "", "role": "assistant", "metadata": {}, "parts": []}
    said: list[Part] = whole["parts"]
    open_texts: dict[str, Part] = {}
    tools: dict[str, Part] = {}
    for part in parts:
        match part["type"]:
            case "start":
                whole["id"] = part["messageId"]
                whole["metadata"] |= part["messageMetadata"]
            case "finish":
                whole["metadata"] |= part.get("messageMetadata", {})
            case "start-step":
                said.append({"type": "step-start"})
            case "text-start" | "reasoning-start" as kind:
                text = {"type": kind.removesuffix("-start"), "text": "", "state": "streaming", **_notes(part)}
                open_texts[part["id"]] = text
                said.append(text)
            case "text-delta" | "reasoning-delta":
                open_texts[part["id"]]["text"] += part["delta"]
            case "text-end" | "reasoning-end":
                open_texts.pop(part["id"]).update({"state": "done"}, **_notes(part))
            case "source-url" | "source-document" | "file":
                said.append(part)
            case "tool-input-start" | "tool-input-available" | "tool-input-error":
                if part["toolCallId"] not in tools:
                    tools[part["toolCallId"]] = tool = {"type": "dynamic-tool"}
                    said.append(tool)
                tools[part["toolCallId"]] |= _tool(part)
            case "tool-output-available" | "tool-output-error" | "tool-approval-request":
                tools[part["toolCallId"]].pop("errorText", None)  # Of arguments that were no JSON.
                tools[part["toolCallId"]] |= _tool(part)
            case str(kind) if kind.startswith("data-") and not part.get("transient"):
                said.append(part)
            case _:
                pass  # Ends of steps, of the stream, and what is shown and not kept.
    return whole


_STATES = {
    "tool-input-start": "input-streaming",
    "tool-input-available": "input-available",
    "tool-input-error": "output-error",
    "tool-approval-request": "approval-requested",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
}


def _tool(part: Part) -> Part:
    """What one part says of a call."""
    names = ("toolName", "toolCallId", "input", "output", "errorText", "providerExecuted")
    told: Part = {"state": _STATES[part["type"]]} | {name: part[name] for name in names if name in part}
    if "approvalId" in part:
        told["approval"] = {"id": part["approvalId"]}
    return told


def _notes(part: Part) -> dict[str, Any]:
    return {"providerMetadata": part["providerMetadata"]} if "providerMetadata" in part else {}
