"""What a span or a hook of the OpenAI Agents SDK tells of a step, as plain values."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from palaver.core.dialects.pieces import integer, listed, mapping, string
from palaver.core.steps import Tell, Told
from palaver.core.usage import Usage
from palaver.frameworks.openai_agents_reader import plain, usage_of
from palaver.frameworks.parameters import shown

_PROVIDER = "openai"


def tell_of(data: Any) -> Tell:
    """What a span tells, once it is read; now is what it says."""
    match data.type:
        case "generation":
            given = (_copied(data.input), _copied(data.output), data.model, data.model_config, data.usage)
            return partial(_generation, *given)
        case "response":
            return partial(_response, _copied(data.input), data.response, data.usage)
        case "function":
            return partial(_values, data.input, data.output)
        case "guardrail":
            return partial(_values, None, {"triggered": data.triggered})
        case "handoff":
            return partial(_values, None, {"from": data.from_agent, "to": data.to_agent})
        case "mcp_tools":
            return partial(_values, None, data.result)
        case "custom":
            return partial(_values, dict(data.data), None)
        case _:
            return Told


def name_of(data: Any) -> str:
    """The name of a step: that of its agent, tool, guardrail, or what it does."""
    match data.type:
        case "generation":
            return data.model or ""
        case "response":
            return ""
        case "handoff":
            return f"handoff to {data.to_agent}" if data.to_agent else "handoff"
        case "mcp_tools":
            return f"list tools of {data.server}" if data.server else "list tools"
        case _:
            return string(getattr(data, "name", None)) or str(data.type)


def asked(model: Any, instructions: str | None, items: Sequence[Any], settings: Any) -> Tell:
    """What a model is about to be asked."""
    given = list(items)

    def tell() -> Told:
        return Told(
            messages_in=[*_instructed(instructions), *plain(given)],
            model=string(model) or string(getattr(model, "model", None)),
            parameters=_parameters(settings),
        )

    return tell


def answered(response: Any) -> Tell:
    """What it answered."""
    return lambda: Told(messages_out=_dumped(response.output), usage=_spent(usage_of(response.usage)))


def _generation(given: Any, came: Any, model: str | None, settings: Any, spent: Any) -> Told:
    responses = [each for each in listed(plain(came)) if mapping(each).get("object") == "response"]
    said = [item for each in responses for item in listed(each.get("output"))]
    return Told(
        messages_in=listed(plain(given)),
        messages_out=said or listed(plain(came)),
        model=next((string(each.get("model")) for each in responses if each.get("model")), None) or model,
        parameters=_parameters(settings),
        tools=[tool for each in responses for tool in listed(each.get("tools"))],
        usage=_counted(spent),
        finish=_finish(responses[0]) if responses else None,
    )


def _response(given: Any, response: Any, spent: Any) -> Told:
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else listed(plain(given))
    if response is None:
        return Told(messages_in=asked, usage=_counted(spent))
    told = mapping(plain(response))
    return Told(
        messages_in=[*_instructed(told.get("instructions")), *asked],
        messages_out=listed(told.get("output")),
        model=string(told.get("model")),
        provider=_PROVIDER,
        parameters=shown(told),
        tools=listed(told.get("tools")),
        usage=_spent(usage_of(response.usage)) if response.usage else _counted(spent),
        finish=_finish(told),
    )


def _values(inputs: Any, outputs: Any) -> Told:
    return Told(inputs=plain(inputs), outputs=plain(outputs))


# Small things


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # of whatever


def _instructed(instructions: Any) -> list[Any]:
    return [{"role": "system", "content": instructions}] if instructions and isinstance(instructions, str) else []


def _dumped(items: Sequence[Any]) -> list[Any]:
    return [plain(item) for item in items]


def _parameters(settings: Any) -> dict[str, Any]:
    read: Callable[[], Any] | None = getattr(settings, "to_json_dict", None)
    return shown(mapping(plain(settings if read is None else read())))


def _finish(response: Any) -> str:
    told = mapping(response)
    why = string(mapping(told.get("incomplete_details")).get("reason"))
    calls = any(mapping(item).get("type") == "function_call" for item in listed(told.get("output")))
    return why or ("tool_calls" if calls else "stop")


def _counted(spent: Any) -> Usage | None:
    """What a span's own words for usage say."""
    told = mapping(spent)
    given, made = mapping(told.get("input_tokens_details")), mapping(told.get("output_tokens_details"))
    return _spent(
        Usage(
            input_tokens=integer(told.get("input_tokens")) or 0,
            output_tokens=integer(told.get("output_tokens")) or 0,
            cached_input_tokens=integer(given.get("cached_tokens")) or None,
            reasoning_tokens=integer(made.get("reasoning_tokens")) or None,
        )
    )


def _spent(usage: Usage) -> Usage | None:
    """The SDK says nothing where nothing is known, which looks like none."""
    return usage if usage.total_tokens else None
