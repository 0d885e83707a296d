"""Trace the steps of LangChain and LangGraph: graphs, nodes, models, tools and retrievers.

LangChain calls a configure hook for callback handlers; it returns one while a run is traced. Steps that LangChain marks
as hidden are left out, and their children belong to the enclosing step.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.tracers.context import register_configure_hook

from palaver.core.json import as_list, dict_or_empty, optional_str
from palaver.core.steps import DetailsProvider, Step, StepDetails, StepError, StepKind, StepListener, current_listener
from palaver.frameworks.base import visible_parameters
from palaver.frameworks.langchain.messages import message_usage, to_json_value

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult


_NODE_TAG = "graph:step:"


def step_name(serialized: Mapping[str, Any] | None, kwargs: Mapping[str, Any]) -> str:
    fields = dict_or_empty(serialized)
    path = as_list(fields.get("id"))
    return optional_str(kwargs.get("name")) or optional_str(fields.get("name")) or (str(path[-1]) if path else "chain")


def is_agent(name: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
    """Whether the step is an agent, not one of its children, which inherit its metadata."""
    if name == "AgentExecutor":
        return True
    if any(tag.startswith(_NODE_TAG) for tag in tags):
        return False
    integration = optional_str(metadata.get("ls_integration")) or ""
    return integration.endswith("create_agent") and name in ("LangGraph", metadata.get("lc_agent_name"))


def is_control_flow(error: BaseException) -> bool:
    """Whether LangGraph raises the exception for control flow."""
    return any(base.__name__ == "GraphBubbleUp" for base in type(error).__mro__)


def copy_lists(value: Any) -> Any:
    """Copy lists, so that later additions are not included."""
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        return {key: list(cast("list[Any]", item)) if isinstance(item, list) else item for key, item in mapping.items()}
    return list(cast("list[Any]", value)) if isinstance(value, list) else value


def input_details(inputs: Any) -> StepDetails:
    messages, values = _split_messages(inputs)
    return StepDetails(messages_in=messages, inputs=values)


def output_details(inputs: Any, outputs: Any) -> StepDetails:
    """Leave out the messages of the input: a graph returns its complete state."""
    input_messages, _ = _split_messages(inputs)
    messages, values = _split_messages(outputs)
    if input_messages and [_message_key(message) for message in messages[: len(input_messages)]] == [
        _message_key(message) for message in input_messages
    ]:
        messages = messages[len(input_messages) :]
    return StepDetails(messages_out=messages, outputs=values)


def _message_key(message: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(message.get(key) for key in ("type", "content", "tool_calls", "tool_call_id"))


def _split_messages(value: Any) -> tuple[list[Any], Any]:
    """Split a state, an update or an answer into messages and other values."""
    match value:
        case BaseMessage():
            return dump_messages([value]), None
        case PromptValue():
            return dump_messages(value.to_messages()), None
        case list() if value and all(isinstance(item, BaseMessage) for item in cast("list[Any]", value)):
            return dump_messages(cast("list[Any]", value)), None
        case [command] if _is_command(command):
            return _split_messages(command.update)
        case _ if _is_command(value):
            return _split_messages(value.update)
        case dict() if "messages" in value:
            state = cast("dict[str, Any]", value)
            values = {key: item for key, item in state.items() if key != "messages"}
            return dump_messages(as_list(state["messages"]) or [state["messages"]]), to_json_value(values) or None
        case _:
            return [], to_json_value(value)


def _is_command(value: Any) -> bool:
    return type(value).__name__ == "Command" and hasattr(value, "update")


def dump_messages(messages: Sequence[Any]) -> list[Any]:
    """Convert LangChain's messages, or its shorthand for them, to plain values."""
    return [to_json_value(message) for message in convert_to_messages(list(messages))]


def model_details(response: "LLMResult") -> StepDetails:
    messages: list[Any] = []
    details = StepDetails()
    for generation in (generation for batch in response.generations for generation in batch[:1]):
        message = getattr(generation, "message", None)
        if message is None:
            messages.append({"role": "assistant", "content": generation.text})
            continue
        messages.append(to_json_value(message))
        metadata = dict_or_empty(message.response_metadata)
        details = StepDetails(
            usage=message_usage(message),
            model=optional_str(metadata.get("model_name")) or optional_str(metadata.get("model")),
            finish=next(
                filter(None, (optional_str(metadata.get(f"{prefix}_reason")) for prefix in ("finish", "stop", "done"))),
                None,
            ),
        )
    return StepDetails(messages_out=messages, usage=details.usage, model=details.model, finish=details.finish)


def tool_result(output: Any) -> Any:
    return to_json_value(output.content if isinstance(output, BaseMessage) else output)


def document_value(document: Any) -> Any:
    return {"content": document.page_content, "metadata": to_json_value(document.metadata)} | (
        {"id": document.id} if getattr(document, "id", None) else {}
    )


SOURCE = ("langchain", "langgraph", "langsmith")
_HIDDEN_TAG = "langsmith:hidden"
_MAX_BUFFERED_TOKENS = 100_000


class _HandlerVariable:
    """Used by LangChain as a context variable that holds a handler."""

    def get(self) -> "_StepReporter | None":
        step_listener = current_listener()
        if step_listener is None:
            return None
        return step_listener.memory.get(SOURCE) or step_listener.memory.setdefault(SOURCE, _StepReporter(step_listener))


def install_listener() -> None:
    """Install the hook for this process."""
    register_configure_hook(cast("ContextVar[BaseCallbackHandler | None]", _HandlerVariable()), inheritable=True)


class _StepReporter(BaseCallbackHandler):
    run_inline = True  # In the task of the step, in order.

    def __init__(self, step_listener: StepListener) -> None:
        self._listener = step_listener
        self._steps: dict[UUID, Step | None] = {}  # By LangChain's id; for a hidden one, the step around it.
        self._outputs: dict[UUID, list[str]] = {}  # Output of models while they stream.
        self._inputs: dict[UUID, Any] = {}  # Inputs of running chains.

    # Start

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
        if _HIDDEN_TAG in (tags or ()):
            self._steps[run_id] = self._parent(parent_run_id)
            return
        name = step_name(serialized, kwargs)
        kind: StepKind = "agent" if is_agent(name, tags or (), metadata or {}) else "task"
        if kind == "agent":
            name = optional_str((metadata or {}).get("lc_agent_name")) or name
        copied_inputs = self._inputs[run_id] = copy_lists(inputs)
        self._start_step(run_id, parent_run_id, kind, name, partial(input_details, copied_inputs))

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
        request_messages = [message for batch in messages for message in batch]
        self._start_model(run_id, parent_run_id, partial(dump_messages, request_messages), metadata or {}, kwargs)

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
        request_messages = [{"role": "user", "content": prompt} for prompt in prompts]
        self._start_model(run_id, parent_run_id, lambda: request_messages, metadata or {}, kwargs)

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
        tool_input: Any = input_str if inputs is None else dict(inputs)
        start = partial(self._start_step, run_id, parent_run_id, "tool", step_name(serialized, kwargs))
        start(lambda: StepDetails(inputs=to_json_value(tool_input)), call_id=optional_str(kwargs.get("tool_call_id")))

    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        name = step_name(serialized, kwargs)
        self._start_step(run_id, parent_run_id, "retrieval", name, lambda: StepDetails(inputs={"query": query}))

    # Progress

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep the output, in case the run is cancelled."""
        tokens = self._outputs.get(run_id)
        if tokens is not None and isinstance(token, str) and token and len(tokens) < _MAX_BUFFERED_TOKENS:
            tokens.append(token)

    # End

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, partial(output_details, self._inputs.get(run_id), outputs))

    def on_llm_end(self, response: "LLMResult", *, run_id: UUID, **_: Any) -> None:
        self._end(run_id, partial(model_details, response))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        failed = getattr(output, "status", None) == "error"
        self._end(
            run_id,
            lambda: StepDetails(outputs=tool_result(output)),
            StepError("tool_error", str(output.content)) if failed else None,
        )

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        self._end(
            run_id, lambda: StepDetails(outputs={"documents": [document_value(document) for document in documents]})
        )

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Also called for control flow, such as a graph that is interrupted."""
        self._end(run_id, None, None if is_control_flow(error) else error)

    on_llm_error = on_tool_error = on_retriever_error = on_chain_error

    # Steps

    def _parent(self, parent_run_id: UUID | None) -> Step | None:
        return None if parent_run_id is None else self._steps.get(parent_run_id)

    def _start_step(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        kind: StepKind,
        name: str,
        details: DetailsProvider,
        *,
        call_id: str | None = None,
    ) -> None:
        parent = self._parent(parent_run_id)
        self._steps[run_id] = self._listener.begin(SOURCE, kind, name, parent=parent, call_id=call_id, details=details)

    def _start_model(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        request_messages: Any,
        metadata: Mapping[str, Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        parameters, tokens = dict(dict_or_empty(kwargs.get("invocation_params"))), self._outputs.setdefault(run_id, [])
        model = (
            optional_str(metadata.get("ls_model_name"))
            or optional_str(parameters.get("model"))
            or optional_str(parameters.get("model_name"))
        )
        provider = optional_str(metadata.get("ls_provider"))

        def details() -> StepDetails:
            return StepDetails(
                messages_in=request_messages(),
                messages_out=[{"role": "assistant", "content": "".join(tokens)}] if tokens else [],
                model=model,
                provider=provider,
                parameters=to_json_value(visible_parameters(parameters)),
                tools=to_json_value(as_list(parameters.get("tools"))),
            )

        self._start_step(run_id, parent_run_id, "llm", model or "", details)

    def _end(
        self, run_id: UUID, details: DetailsProvider | None, error: BaseException | StepError | None = None
    ) -> None:
        step = self._steps.pop(run_id, None)
        self._outputs.pop(run_id, None)
        self._inputs.pop(run_id, None)
        if step is not None:
            step.end(details, error=error)
