"""The AI SDK's own names, `ai.*`, up to version 6. Later versions send gen_ai's and at most `ai.settings.context.*`."""

import re
from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.dialects.ui_message import read_file
from palaver.core.json import argument_text, as_list, dict_or_empty, is_list, is_object, is_text, optional_str
from palaver.core.messages import Data, Message, Part, Reasoning, Text, ToolCall
from palaver.traces.conventions.attributes import (
    AttributeReader,
    Attributes,
    SpanFields,
    parse_container,
    parse_json,
    parse_tools,
)
from palaver.traces.conventions.messages import UNREADABLE, parse_messages
from palaver.traces.conventions.vocabulary import ai_sdk_kind, parse_finish
from palaver.traces.model import ConventionName, RawSpan

NAME: ConventionName = "ai-sdk"
ROOTS: frozenset[str] = frozenset(("ai",))

_SETTINGS, _CONTEXT, _METADATA = "ai.settings.", "ai.settings.context.", "ai.telemetry.metadata."
_USAGE, _TOOL = "ai.usage.", "ai.toolCall."
_INPUT_TOKENS = tuple(_USAGE + name for name in ("inputTokens", "promptTokens", "tokens"))
_RENAMED = {"max_output_tokens": "max_tokens", "stop_sequences": "stop"}
_AGGREGATE_OPERATIONS = ("ai.embed", "ai.embedMany")
"""Their counts are sums of the calls below them, which are embeddings too, and must not be counted twice."""
_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")


def read_fields(raw: RawSpan) -> SpanFields:
    attributes = raw.attributes
    reader = AttributeReader(attributes)
    prompt, is_aggregate = reader.json("ai.prompt"), attributes.get("ai.operationId") in _AGGREGATE_OPERATIONS
    kind = ai_sdk_kind(attributes.get("ai.operationId"))
    return SpanFields(
        kind=kind,
        messages_in=parse_messages(attributes.get("ai.prompt.messages"), "input") or _prompt_messages(prompt),
        messages_out=_response_messages(reader),
        inputs=_inputs(reader, prompt),
        outputs=reader.json(_TOOL + "result", "ai.response.object", "ai.result.object"),
        parameters=_parameters(attributes),
        tools=parse_tools(attributes.get("ai.prompt.tools")),
        tool=reader.tool(_TOOL + "name", _TOOL + "id"),
        input_tokens=UNSET if is_aggregate else reader.count(*_INPUT_TOKENS),
        output_tokens=reader.count(_USAGE + "outputTokens", _USAGE + "completionTokens"),
        cached_input_tokens=reader.count(_USAGE + "cachedInputTokens", _USAGE + "inputTokenDetails.cacheReadTokens"),
        cache_creation_input_tokens=reader.count(_USAGE + "inputTokenDetails.cacheWriteTokens"),
        reasoning_tokens=reader.count(_USAGE + "reasoningTokens", _USAGE + "outputTokenDetails.reasoningTokens"),
        model=reader.label("ai.response.model", "ai.model.id"),
        provider=_provider(reader),
        finish=parse_finish(reader.value("ai.response.finishReason", "ai.finishReason")),
        session=reader.label(_METADATA + "sessionId", _CONTEXT + "sessionId"),
        user=reader.label(_METADATA + "userId", _CONTEXT + "userId"),
        # Version 7 calls it the agent's name.
        workflow=reader.label("ai.telemetry.functionId") if kind == "agent" else UNSET,
        notes=tuple(reader.notes),
    )


def _prompt_messages(prompt: Any) -> tuple[Message, ...]:
    """Read `{system?, prompt?, messages?}`, of which the last two may be text or messages."""
    if not is_object(prompt):
        return ()
    messages = prompt.get("messages")
    elements = [_as_message(item, "system") for item in as_list(prompt.get("system")) if item != ""]
    elements += [_as_message(item, "user") for item in as_list(prompt.get("prompt") if messages is None else messages)]
    return parse_messages(elements, "input")


def _as_message(value: Any, role: str) -> Any:
    return {"role": role, "content": value} if is_text(value) else value


def _response_messages(reader: AttributeReader) -> tuple[Message, ...]:
    """Build one message from its parts, which have an attribute each. Empty text is left out."""
    parts: list[Part] = []
    for name, part in (("reasoning", Reasoning), ("text", Text)):
        value = _response_value(reader, name)
        if value is not None:
            parts.append(part(value) if isinstance(value, str) else Data(UNREADABLE, value))
    parts += [
        read_file(dict_or_empty(item)) or Data(UNREADABLE, item)
        for item in as_list(parse_container(_response_value(reader, "files")))
    ]
    parts += [
        _parse_call(item) or Data(UNREADABLE, item)
        for item in as_list(parse_container(_response_value(reader, "toolCalls")))
    ]
    return (Message("assistant", tuple(parts)),) if parts else ()


def _response_value(reader: AttributeReader, name: str) -> Any:
    value = reader.value(f"ai.response.{name}", f"ai.result.{name}")
    return None if value is UNSET or value == "" else value


def _parse_call(value: Any) -> ToolCall | None:
    call = dict_or_empty(value)
    name = optional_str(call.get("toolName"))
    if name is None:
        return None
    return ToolCall(
        optional_str(call.get("toolCallId")) or "", name, argument_text(call.get("input", call.get("args")))
    )


def _inputs(reader: AttributeReader, prompt: Any) -> Any:
    inputs = reader.json(_TOOL + "args")
    inputs = prompt if inputs is UNSET else inputs
    inputs = reader.json("ai.value") if inputs is UNSET else inputs
    if inputs is not UNSET:
        return inputs
    values = parse_container(reader.value("ai.values"))
    return [parse_json(value) for value in values] if is_list(values) else values


def _parameters(attributes: Attributes) -> dict[str, Any]:
    """Return the settings under their common names."""
    parameters: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(_SETTINGS) and value is not None and not name.startswith(_CONTEXT):
            key = _CAMEL_HUMP.sub(lambda hump: f"_{hump[0].lower()}", name[len(_SETTINGS) :])
            if key == "max_output_tokens":
                parameters["max_tokens"] = value  # The newer name wins.
            else:
                parameters.setdefault(_RENAMED.get(key, key), value)
    return {name: value for name, value in parameters.items() if name not in ("", "model")}


def _provider(reader: AttributeReader) -> str | UnsetType:
    """Return the provider without its API: `openai.chat` is `openai`."""
    provider = reader.label("ai.model.provider")
    return UNSET if provider is UNSET else provider.partition(".")[0].strip() or UNSET
