"""OpenTelemetry's gen_ai attributes, current and as of 2024. `pydantic_ai` adds those of Pydantic AI and Logfire."""

from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.json import as_list
from palaver.core.messages import Message
from palaver.traces.conventions import pydantic_ai
from palaver.traces.conventions.attributes import (
    AttributeReader,
    Attributes,
    SpanFields,
    collect_indexed,
    parse_container,
    parse_tools,
)
from palaver.traces.conventions.messages import parse_messages
from palaver.traces.conventions.vocabulary import operation_kind, parse_finish
from palaver.traces.model import ConventionName, RawSpan, SpanKind, ToolDefinition

NAME: ConventionName = "gen_ai"
ROOTS: frozenset[str] = pydantic_ai.ROOTS

_USAGE = "gen_ai.usage."
_REQUEST, _DEFINITIONS = "gen_ai.request.", "gen_ai.tool.definitions"
_INSTRUCTIONS = "gen_ai.system_instructions"
_RENAMED = {"stop_sequences": "stop", "choice.count": "n"}


def read_fields(raw: RawSpan) -> SpanFields:
    return read_attributes(raw.attributes)


def read_attributes(attributes: Attributes) -> SpanFields:
    reader = AttributeReader(attributes)
    kind = _kind(reader, attributes)
    messages_in, messages_out = _conversation(attributes)
    return SpanFields(
        kind=kind,
        messages_in=messages_in or UNSET,
        messages_out=messages_out or UNSET,
        inputs=_inputs(reader),
        outputs=_outputs(reader),
        parameters=_parameters(attributes) or UNSET,
        tools=_tools(attributes) or UNSET,
        tool=reader.tool("gen_ai.tool.name", "gen_ai.tool.call.id"),
        input_tokens=reader.count(_USAGE + "input_tokens", _USAGE + "prompt_tokens"),
        output_tokens=reader.count(_USAGE + "output_tokens", _USAGE + "completion_tokens"),
        cached_input_tokens=reader.count(_USAGE + "cache_read.input_tokens", _USAGE + "cache_read_input_tokens"),
        cache_creation_input_tokens=reader.count(
            _USAGE + "cache_creation.input_tokens", _USAGE + "cache_creation_input_tokens"
        ),
        reasoning_tokens=reader.count(_USAGE + "reasoning.output_tokens", _USAGE + "reasoning_tokens"),
        cost=reader.amount(_USAGE + "cost", "operation.cost"),
        model=reader.label("gen_ai.response.model", "gen_ai.request.model"),
        provider=_provider(reader),
        finish=parse_finish(parse_container(reader.value("gen_ai.response.finish_reasons"))),
        session=reader.label("gen_ai.conversation.id"),
        user=_user(reader),
        workflow=_workflow(reader, kind),
        notes=tuple(reader.notes),
    )


def prepend_instructions(messages: tuple[Message, ...], attributes: Attributes) -> tuple[Message, ...]:
    """Prepend the instructions, which have their own attribute, unless the messages start with them."""
    value = parse_container(attributes.get(_INSTRUCTIONS))
    if not value:
        return messages
    instructions = parse_messages([{"role": "system", "parts": as_list(value)}], "input")
    has_instructions = bool(messages) and messages[0].text == "".join([message.text for message in instructions])
    return messages if has_instructions and messages[0].text else (*instructions, *messages)


def _kind(reader: AttributeReader, attributes: Attributes) -> SpanKind | UnsetType:
    kind = operation_kind(reader.value("gen_ai.operation.name"))
    if kind is not UNSET or "gen_ai.operation.name" in attributes:
        return kind
    if pydantic_ai.is_agent_run(attributes):
        return "agent"
    return "tool" if "gen_ai.tool.name" in attributes and "gen_ai.tool.call.id" in attributes else UNSET


def _conversation(attributes: Attributes) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Read messages by the current names, else by those of 2024, else by Logfire's."""
    for name_in, name_out in (
        ("gen_ai.input.messages", "gen_ai.output.messages"),
        ("gen_ai.prompt", "gen_ai.completion"),
    ):
        messages_in = parse_messages(attributes.get(name_in), "input")
        messages_out = parse_messages(attributes.get(name_out), "output")
        if messages_in or messages_out:
            return messages_in, messages_out
    return pydantic_ai.agent_conversation(attributes)


def _inputs(reader: AttributeReader) -> Any:
    query = reader.value("gen_ai.retrieval.query.text")
    return {"query": query} if query is not UNSET else reader.json("gen_ai.tool.call.arguments", "tool_arguments")


def _outputs(reader: AttributeReader) -> Any:
    documents = reader.json("gen_ai.retrieval.documents")
    if documents is not UNSET:
        return {"documents": documents}
    result = reader.json("gen_ai.tool.call.result", "tool_response")
    return result if result is not UNSET else parse_container(reader.value("final_result"))


def _parameters(attributes: Attributes) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(_REQUEST) and value is not None and name != "gen_ai.request.model":
            key = name[len(_REQUEST) :]
            parameters[_RENAMED.get(key, key)] = parse_container(value)
    return parameters


def _tools(attributes: Attributes) -> tuple[ToolDefinition, ...]:
    value = attributes.get(_DEFINITIONS)
    return parse_tools(collect_indexed(attributes, _DEFINITIONS) if value is None else value)


def _provider(reader: AttributeReader) -> str | UnsetType:
    provider, system = reader.label("gen_ai.provider.name"), reader.label("gen_ai.system")
    if provider is UNSET and system is not UNSET and reader.value("ai.model.provider") is not UNSET:
        return system.partition(".")[0] or system  # The AI SDK appends the API: `openai.chat`.
    return system if provider is UNSET else provider


def _user(reader: AttributeReader) -> str | UnsetType:
    """Read `gen_ai.user`, unless there is one of OpenTelemetry's user attributes, which `span_mapper` reads."""
    return UNSET if reader.label("user.id", "enduser.id") is not UNSET else reader.label("gen_ai.user")


def _workflow(reader: AttributeReader, kind: SpanKind | UnsetType) -> str | UnsetType:
    name = reader.label("gen_ai.workflow.name")
    if name is UNSET and kind == "agent" and reader.value("traceloop.workflow.name") is UNSET:
        return reader.label("gen_ai.agent.name", "agent_name")
    return name
