"""OpenTelemetry's gen_ai attributes, as they are and as they were in 2024; Logfire's additions are in logfire.py."""

from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.dialects.common import as_list
from palaver.core.messages import Message
from palaver.traces.conventions import logfire
from palaver.traces.conventions.base import Found
from palaver.traces.conventions.definitions import defined
from palaver.traces.conventions.meanings import finish_of, operation_kind
from palaver.traces.conventions.messages import messages_of
from palaver.traces.conventions.reading import Attributes, Reader, indexed, opened
from palaver.traces.record import Convention, Defined, Kind, Raw, Tool

NAME: Convention = "gen_ai"
ROOTS: frozenset[str] = logfire.ROOTS | {"gen_ai"}

_USAGE = "gen_ai.usage."
_REQUEST, _DEFINITIONS = "gen_ai.request.", "gen_ai.tool.definitions"
_INSTRUCTIONS = "gen_ai.system_instructions"
_RENAMED = {"stop_sequences": "stop", "choice.count": "n"}


def read(raw: Raw) -> Found:
    """What the attributes of a span say."""
    return found(raw.attributes)


def found(attributes: Attributes) -> Found:
    """What attributes say, wherever they stand: events may carry them too."""
    reader = Reader(attributes)
    kind = _kind(reader, attributes)
    messages_in, messages_out = _conversation(attributes)
    return Found(
        kind=kind,
        messages_in=messages_in or UNSET,
        messages_out=messages_out or UNSET,
        inputs=_inputs(reader),
        outputs=_outputs(reader),
        parameters=_parameters(attributes) or UNSET,
        tools=_tools(attributes) or UNSET,
        tool=_tool(reader),
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
        finish=finish_of(opened(reader.value("gen_ai.response.finish_reasons"))),
        session=reader.label("gen_ai.conversation.id"),
        user=_user(reader),
        workflow=_workflow(reader, kind),
        notes=tuple(reader.notes),
    )


def led(messages: tuple[Message, ...], attributes: Attributes) -> tuple[Message, ...]:
    """The messages after the instructions, which have an attribute of their own, unless they start with them."""
    given = opened(attributes.get(_INSTRUCTIONS))
    if not given:
        return messages
    instructions = messages_of([{"role": "system", "parts": as_list(given)}], "input")
    starts = bool(messages) and messages[0].text == "".join([each.text for each in instructions])
    return messages if starts and messages[0].text else (*instructions, *messages)


def _kind(reader: Reader, attributes: Attributes) -> Kind | UnsetType:
    kind = operation_kind(reader.value("gen_ai.operation.name"))
    if kind is not UNSET or "gen_ai.operation.name" in attributes:
        return kind
    if logfire.is_run(attributes):
        return "agent"
    return "tool" if "gen_ai.tool.name" in attributes and "gen_ai.tool.call.id" in attributes else UNSET


def _conversation(attributes: Attributes) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """By the current names, else by those of 2024, else by Logfire's."""
    for name_in, name_out in (
        ("gen_ai.input.messages", "gen_ai.output.messages"),
        ("gen_ai.prompt", "gen_ai.completion"),
    ):
        messages_in = messages_of(attributes.get(name_in), "input")
        messages_out = messages_of(attributes.get(name_out), "output")
        if messages_in or messages_out:
            return messages_in, messages_out
    return logfire.conversation(attributes)


def _inputs(reader: Reader) -> Any:
    query = reader.value("gen_ai.retrieval.query.text")
    return {"query": query} if query is not UNSET else reader.json("gen_ai.tool.call.arguments", "tool_arguments")


def _outputs(reader: Reader) -> Any:
    documents = reader.json("gen_ai.retrieval.documents")
    if documents is not UNSET:
        return {"documents": documents}
    result = reader.json("gen_ai.tool.call.result", "tool_response")
    return result if result is not UNSET else opened(reader.value("final_result"))


def _parameters(attributes: Attributes) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(_REQUEST) and value is not None and name != "gen_ai.request.model":
            key = name[len(_REQUEST) :]
            parameters[_RENAMED.get(key, key)] = opened(value)
    return parameters


def _tools(attributes: Attributes) -> tuple[Defined, ...]:
    given = attributes.get(_DEFINITIONS)
    return defined(indexed(attributes, _DEFINITIONS) if given is None else given)


def _tool(reader: Reader) -> Tool | UnsetType:
    name, call_id = reader.label("gen_ai.tool.name"), reader.label("gen_ai.tool.call.id")
    return UNSET if name is UNSET else Tool(name=name, call_id=None if call_id is UNSET else call_id)


def _provider(reader: Reader) -> str | UnsetType:
    named, system = reader.label("gen_ai.provider.name"), reader.label("gen_ai.system")
    if named is UNSET and system is not UNSET and reader.value("ai.model.provider") is not UNSET:
        return system.partition(".")[0] or system  # The AI SDK says by which API too, `openai.chat`.
    return system if named is UNSET else named


def _user(reader: Reader) -> str | UnsetType:
    """OpenTelemetry's own names for a user come first; mapping.py reads them for everybody."""
    return UNSET if reader.label("user.id", "enduser.id") is not UNSET else reader.label("gen_ai.user")


def _workflow(reader: Reader, kind: Kind | UnsetType) -> str | UnsetType:
    name = reader.label("gen_ai.workflow.name")
    if name is UNSET and kind == "agent" and reader.value("traceloop.workflow.name") is UNSET:
        return reader.label("gen_ai.agent.name", "agent_name")
    return name
