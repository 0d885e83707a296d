"""What a span or a hook of the OpenAI Agents SDK tells of a step, as plain values."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from palaver.core.dialects.common import as_list, dict_or_empty, optional_int, optional_str
from palaver.core.messages import Usage
from palaver.core.steps import DetailsProvider, StepDetails
from palaver.frameworks.openai_agents_reader import plain, usage_of
from palaver.frameworks.parameters import shown

_PROVIDER = "openai"


def tell_of(data: Any) -> DetailsProvider:
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
            return StepDetails


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
            return optional_str(getattr(data, "name", None)) or str(data.type)


def asked(model: Any, instructions: str | None, items: Sequence[Any], settings: Any) -> DetailsProvider:
    """What a model is about to be asked."""
    given = list(items)

    def tell() -> StepDetails:
        return StepDetails(
            messages_in=[*_instructed(instructions), *plain(given)],
            model=optional_str(model) or optional_str(getattr(model, "model", None)),
            parameters=_parameters(settings),
        )

    return tell


def answered(response: Any) -> DetailsProvider:
    """What it answered."""
    return lambda: StepDetails(messages_out=_dumped(response.output), usage=_spent(usage_of(response.usage)))


def _generation(given: Any, came: Any, model: str | None, settings: Any, spent: Any) -> StepDetails:
    responses = [each for each in as_list(plain(came)) if dict_or_empty(each).get("object") == "response"]
    said = [item for each in responses for item in as_list(each.get("output"))]
    return StepDetails(
        messages_in=as_list(plain(given)),
        messages_out=said or as_list(plain(came)),
        model=next((optional_str(each.get("model")) for each in responses if each.get("model")), None) or model,
        parameters=_parameters(settings),
        tools=[tool for each in responses for tool in as_list(each.get("tools"))],
        usage=_counted(spent),
        finish=_finish(responses[0]) if responses else None,
    )


def _response(given: Any, response: Any, spent: Any) -> StepDetails:
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(plain(given))
    if response is None:
        return StepDetails(messages_in=asked, usage=_counted(spent))
    told = dict_or_empty(plain(response))
    return StepDetails(
        messages_in=[*_instructed(told.get("instructions")), *asked],
        messages_out=as_list(told.get("output")),
        model=optional_str(told.get("model")),
        provider=_PROVIDER,
        parameters=shown(told),
        tools=as_list(told.get("tools")),
        usage=_spent(usage_of(response.usage)) if response.usage else _counted(spent),
        finish=_finish(told),
    )


def _values(inputs: Any, outputs: Any) -> StepDetails:
    return StepDetails(inputs=plain(inputs), outputs=plain(outputs))


# Small things


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # of whatever


def _instructed(instructions: Any) -> list[Any]:
    return [{"role": "system", "content": instructions}] if instructions and isinstance(instructions, str) else []


def _dumped(items: Sequence[Any]) -> list[Any]:
    return [plain(item) for item in items]


def _parameters(settings: Any) -> dict[str, Any]:
    read: Callable[[], Any] | None = getattr(settings, "to_json_dict", None)
    return shown(dict_or_empty(plain(settings if read is None else read())))


def _finish(response: Any) -> str:
    told = dict_or_empty(response)
    why = optional_str(dict_or_empty(told.get("incomplete_details")).get("reason"))
    calls = any(dict_or_empty(item).get("type") == "function_call" for item in as_list(told.get("output")))
    return why or ("tool_calls" if calls else "stop")


def _counted(spent: Any) -> Usage | None:
    """What a span's own words for usage say."""
    told = dict_or_empty(spent)
    given, made = dict_or_empty(told.get("input_tokens_details")), dict_or_empty(told.get("output_tokens_details"))
    return _spent(
        Usage(
            input_tokens=optional_int(told.get("input_tokens")) or 0,
            output_tokens=optional_int(told.get("output_tokens")) or 0,
            cached_input_tokens=optional_int(given.get("cached_tokens")) or None,
            reasoning_tokens=optional_int(made.get("reasoning_tokens")) or None,
        )
    )


def _spent(usage: Usage) -> Usage | None:
    """The SDK says nothing where nothing is known, which looks like none."""
    return usage if usage.total_tokens else None
