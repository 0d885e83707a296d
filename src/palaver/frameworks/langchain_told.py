"""What LangChain tells of a step, as plain values: names, messages, values, usage."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue

from palaver.core.dialects.common import as_list, dict_or_empty, optional_str
from palaver.core.steps import StepDetails
from palaver.frameworks.langchain_content import plain, usage_of

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult

_NODE = "graph:step:"


def name_of(serialized: Mapping[str, Any] | None, kwargs: Mapping[str, Any]) -> str:
    """The name of a chain, node, tool or retriever."""
    known = dict_or_empty(serialized)
    path = as_list(known.get("id"))
    return optional_str(kwargs.get("name")) or optional_str(known.get("name")) or (str(path[-1]) if path else "chain")


def is_agent(name: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
    """Is it a whole agent? What happens in one inherits its metadata."""
    if name == "AgentExecutor":
        return True
    if any(tag.startswith(_NODE) for tag in tags):
        return False
    made_by = optional_str(metadata.get("ls_integration")) or ""
    return made_by.endswith("create_agent") and name in ("LangGraph", metadata.get("lc_agent_name"))


def is_signal(error: BaseException) -> bool:
    """Does LangGraph raise it to say something else than that it failed?"""
    return any(base.__name__ == "GraphBubbleUp" for base in type(error).__mro__)


def copied(value: Any) -> Any:
    """The value, so that what is added to its lists later is not in it."""
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        return {key: list(cast("list[Any]", each)) if isinstance(each, list) else each for key, each in found.items()}
    return list(cast("list[Any]", value)) if isinstance(value, list) else value


def given_to(inputs: Any) -> StepDetails:
    """What a chain was given."""
    messages, rest = _apart(inputs)
    return StepDetails(messages_in=messages, inputs=rest)


def came_to(inputs: Any, outputs: Any) -> StepDetails:
    """What came of it. A graph gives its whole state, with what it was given; that was not said by it."""
    given, _ = _apart(inputs)
    messages, rest = _apart(outputs)
    if given and [_gist(each) for each in messages[: len(given)]] == [_gist(each) for each in given]:
        messages = messages[len(given) :]
    return StepDetails(messages_out=messages, outputs=rest)


def _gist(message: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(message.get(key) for key in ("type", "content", "tool_calls", "tool_call_id"))


def _apart(value: Any) -> tuple[list[Any], Any]:
    """The messages of a state, an update or an answer, and what else there is."""
    match value:
        case BaseMessage():
            return dumped([value]), None
        case PromptValue():
            return dumped(value.to_messages()), None
        case list() if value and all(isinstance(each, BaseMessage) for each in cast("list[Any]", value)):
            return dumped(cast("list[Any]", value)), None
        case [only] if _is_command(only):
            return _apart(only.update)
        case _ if _is_command(value):
            return _apart(value.update)
        case dict() if "messages" in value:
            known = cast("dict[str, Any]", value)
            rest = {key: each for key, each in known.items() if key != "messages"}
            return dumped(as_list(known["messages"]) or [known["messages"]]), plain(rest) or None
        case _:
            return [], plain(value)


def _is_command(value: Any) -> bool:
    return type(value).__name__ == "Command" and hasattr(value, "update")


def dumped(messages: Sequence[Any]) -> list[Any]:
    """Messages of LangChain's, or its shorthand for them, as plain values."""
    return [plain(message) for message in convert_to_messages(list(messages))]


def answered(response: "LLMResult") -> StepDetails:
    """What a model said, and what it says of that."""
    said: list[Any] = []
    told = StepDetails()
    for each in (generation for several in response.generations for generation in several[:1]):
        message = getattr(each, "message", None)
        if message is None:
            said.append({"role": "assistant", "content": each.text})
            continue
        said.append(plain(message))
        about = dict_or_empty(message.response_metadata)
        told = StepDetails(
            usage=usage_of(message),
            model=optional_str(about.get("model_name")) or optional_str(about.get("model")),
            finish=next(
                filter(None, (optional_str(about.get(f"{word}_reason")) for word in ("finish", "stop", "done"))), None
            ),
        )
    return StepDetails(messages_out=said, usage=told.usage, model=told.model, finish=told.finish)


def result_of(output: Any) -> Any:
    """What a tool came to."""
    return plain(output.content if isinstance(output, BaseMessage) else output)


def document_of(document: Any) -> Any:
    """One that was found."""
    return {"content": document.page_content, "metadata": plain(document.metadata)} | (
        {"id": document.id} if getattr(document, "id", None) else {}
    )
