"""What LangChain tells of a step, as plain values: names, messages, values, usage."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.tracers.context import register_configure_hook

from palaver.core.dialects.common import as_list, dict_or_empty, optional_str
from palaver.core.steps import DetailsProvider, Step, StepDetails, StepError, StepKind, StepListener, current_listener
from palaver.frameworks.base import visible_parameters
from palaver.frameworks.langchain.messages import message_usage, to_json_value

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult


_NODE_TAG = "graph:step:"


def step_name(serialized: Mapping[str, Any] | None, kwargs: Mapping[str, Any]) -> str:
    """The name of a chain, node, tool or retriever."""
    known = dict_or_empty(serialized)
    path = as_list(known.get("id"))
    return optional_str(kwargs.get("name")) or optional_str(known.get("name")) or (str(path[-1]) if path else "chain")


def is_agent(name: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
    """Is it a whole agent? What happens in one inherits its metadata."""
    if name == "AgentExecutor":
        return True
    if any(tag.startswith(_NODE_TAG) for tag in tags):
        return False
    made_by = optional_str(metadata.get("ls_integration")) or ""
    return made_by.endswith("create_agent") and name in ("LangGraph", metadata.get("lc_agent_name"))


def is_control_flow(error: BaseException) -> bool:
    """Does LangGraph raise it to say something else than that it failed?"""
    return any(base.__name__ == "GraphBubbleUp" for base in type(error).__mro__)


def copy_lists(value: Any) -> Any:
    """The value, so that what is added to its lists later is not in it."""
    if isinstance(value, dict):
        found = cast("dict[Any, Any]", value)
        return {key: list(cast("list[Any]", each)) if isinstance(each, list) else each for key, each in found.items()}
    return list(cast("list[Any]", value)) if isinstance(value, list) else value


def input_details(inputs: Any) -> StepDetails:
    """What a chain was given."""
    messages, rest = _split_messages(inputs)
    return StepDetails(messages_in=messages, inputs=rest)


def output_details(inputs: Any, outputs: Any) -> StepDetails:
    """What came of it. A graph gives its whole state, with what it was given; that was not said by it."""
    given, _ = _split_messages(inputs)
    messages, rest = _split_messages(outputs)
    if given and [_message_key(each) for each in messages[: len(given)]] == [_message_key(each) for each in given]:
        messages = messages[len(given) :]
    return StepDetails(messages_out=messages, outputs=rest)


def _message_key(message: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(message.get(key) for key in ("type", "content", "tool_calls", "tool_call_id"))


def _split_messages(value: Any) -> tuple[list[Any], Any]:
    """The messages of a state, an update or an answer, and what else there is."""
    match value:
        case BaseMessage():
            return dump_messages([value]), None
        case PromptValue():
            return dump_messages(value.to_messages()), None
        case list() if value and all(isinstance(each, BaseMessage) for each in cast("list[Any]", value)):
            return dump_messages(cast("list[Any]", value)), None
        case [only] if _is_command(only):
            return _split_messages(only.update)
        case _ if _is_command(value):
            return _split_messages(value.update)
        case dict() if "messages" in value:
            known = cast("dict[str, Any]", value)
            rest = {key: each for key, each in known.items() if key != "messages"}
            return dump_messages(as_list(known["messages"]) or [known["messages"]]), to_json_value(rest) or None
        case _:
            return [], to_json_value(value)


def _is_command(value: Any) -> bool:
    return type(value).__name__ == "Command" and hasattr(value, "update")


def dump_messages(messages: Sequence[Any]) -> list[Any]:
    """Messages of LangChain's, or its shorthand for them, as plain values."""
    return [to_json_value(message) for message in convert_to_messages(list(messages))]


def model_details(response: "LLMResult") -> StepDetails:
    """What a model said, and what it says of that."""
    said: list[Any] = []
    told = StepDetails()
    for each in (generation for several in response.generations for generation in several[:1]):
        message = getattr(each, "message", None)
        if message is None:
            said.append({"role": "assistant", "content": each.text})
            continue
        said.append(to_json_value(message))
        about = dict_or_empty(message.response_metadata)
        told = StepDetails(
            usage=message_usage(message),
            model=optional_str(about.get("model_name")) or optional_str(about.get("model")),
            finish=next(
                filter(None, (optional_str(about.get(f"{word}_reason")) for word in ("finish", "stop", "done"))), None
            ),
        )
    return StepDetails(messages_out=said, usage=told.usage, model=told.model, finish=told.finish)


def tool_result(output: Any) -> Any:
    """What a tool came to."""
    return to_json_value(output.content if isinstance(output, BaseMessage) else output)


def document_value(document: Any) -> Any:
    """One that was found."""
    return {"content": document.page_content, "metadata": to_json_value(document.metadata)} | (
        {"id": document.id} if getattr(document, "id", None) else {}
    )


SOURCE = ("langchain", "langgraph", "langsmith")
_HIDDEN = "langsmith:hidden"
_MAX_TOKENS_KEPT = 100_000
"""Pieces of an answer that are remembered while it comes."""


class _HandlerVariable:
    """Stands where LangChain expects a context variable with a handler in it."""

    def get(self) -> "_StepReporter | None":
        """The one of the run that this code belongs to."""
        heard_by = current_listener()
        if heard_by is None:
            return None
        return heard_by.memory.get(SOURCE) or heard_by.memory.setdefault(SOURCE, _StepReporter(heard_by))


def install_listener() -> None:
    """From now on, in this process."""
    register_configure_hook(cast("ContextVar[BaseCallbackHandler | None]", _HandlerVariable()), inheritable=True)


class _StepReporter(BaseCallbackHandler):
    """Tells of what happens in one run."""

    run_inline = True  # In the task of what happens, and in its order.

    def __init__(self, heard_by: StepListener) -> None:
        self._heard_by = heard_by
        self._steps: dict[UUID, Step | None] = {}  # By LangChain's id; where one is not shown, the step that it is in.
        self._said: dict[UUID, list[str]] = {}  # What models say, as long as they speak.
        self._given: dict[UUID, Any] = {}  # What chains were given, as long as they run.

    # What begins

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A graph, a node, a chain, or one of its links."""
        if _HIDDEN in (tags or ()):
            self._steps[run_id] = self._in(parent_run_id)
            return
        name = step_name(serialized, kwargs)
        kind: StepKind = "agent" if is_agent(name, tags or (), metadata or {}) else "task"
        if kind == "agent":
            name = optional_str((metadata or {}).get("lc_agent_name")) or name
        given = self._given[run_id] = copy_lists(inputs)
        self._begin(run_id, parent_run_id, kind, name, partial(input_details, given))

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - as LangChain calls it
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A chat model is called."""
        asked = [message for each in messages for message in each]
        self._ask(run_id, parent_run_id, partial(dump_messages, asked), metadata or {}, kwargs)

    def on_llm_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - as LangChain calls it
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A model that completes a text is called."""
        asked = [{"role": "user", "content": prompt} for prompt in prompts]
        self._ask(run_id, parent_run_id, lambda: asked, metadata or {}, kwargs)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A tool is run."""
        given: Any = input_str if inputs is None else dict(inputs)
        step = partial(self._begin, run_id, parent_run_id, "tool", step_name(serialized, kwargs))
        step(lambda: StepDetails(inputs=to_json_value(given)), call_id=optional_str(kwargs.get("tool_call_id")))

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """Documents are looked for."""
        name = step_name(serialized, kwargs)
        self._begin(run_id, parent_run_id, "retrieval", name, lambda: StepDetails(inputs={"query": query}))

    # What happens meanwhile

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **_: Any) -> None:
        """A model speaks: should it be stopped, this is what it had said."""
        said = self._said.get(run_id)
        if said is not None and isinstance(token, str) and token and len(said) < _MAX_TOKENS_KEPT:
            said.append(token)

    # What ends

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """It came to something."""
        self._end(run_id, partial(output_details, self._given.get(run_id), outputs))

    def on_llm_end(self, response: "LLMResult", *, run_id: UUID, **_: Any) -> None:
        """The model has answered."""
        self._end(run_id, partial(model_details, response))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """The tool has answered, or says that it could not."""
        failed = getattr(output, "status", None) == "error"
        self._end(
            run_id,
            lambda: StepDetails(outputs=tool_result(output)),
            StepError("tool_error", str(output.content)) if failed else None,
        )

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        """Documents were found."""
        self._end(run_id, lambda: StepDetails(outputs={"documents": [document_value(each) for each in documents]}))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """It failed, was stopped, or is a graph that waits for somebody."""
        self._end(run_id, None, None if is_control_flow(error) else error)

    on_llm_error = on_tool_error = on_retriever_error = on_chain_error

    # All of them

    def _in(self, parent_run_id: UUID | None) -> Step | None:
        return None if parent_run_id is None else self._steps.get(parent_run_id)

    def _begin(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        kind: StepKind,
        name: str,
        tell: DetailsProvider,
        *,
        call_id: str | None = None,
    ) -> None:
        parent = self._in(parent_run_id)
        self._steps[run_id] = self._heard_by.begin(SOURCE, kind, name, parent=parent, call_id=call_id, tell=tell)

    def _ask(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        asked: Any,
        metadata: Mapping[str, Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        given, said = dict(dict_or_empty(kwargs.get("invocation_params"))), self._said.setdefault(run_id, [])
        model = (
            optional_str(metadata.get("ls_model_name"))
            or optional_str(given.get("model"))
            or optional_str(given.get("model_name"))
        )
        provider = optional_str(metadata.get("ls_provider"))

        def tell() -> StepDetails:
            return StepDetails(
                messages_in=asked(),
                messages_out=[{"role": "assistant", "content": "".join(said)}] if said else [],
                model=model,
                provider=provider,
                parameters=to_json_value(visible_parameters(given)),
                tools=to_json_value(as_list(given.get("tools"))),
            )

        self._begin(run_id, parent_run_id, "llm", model or "", tell)

    def _end(self, run_id: UUID, tell: DetailsProvider | None, error: BaseException | StepError | None = None) -> None:
        step = self._steps.pop(run_id, None)
        self._said.pop(run_id, None)
        self._given.pop(run_id, None)
        if step is not None:
            step.end(tell, error=error)
