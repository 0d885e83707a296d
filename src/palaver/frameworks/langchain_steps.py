"""LangChain and LangGraph tell of their steps, wherever they run: graphs and nodes, models, tools, retrievers.

LangChain asks a hook for further callbacks whenever something of its begins. Ours has some while a run is heard, and
none otherwise. What LangChain itself marks as hidden is left out, and what happens in it belongs to whatever it is in.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.tracers.context import register_configure_hook

from palaver.core.dialects.common import as_list, dict_or_empty, optional_str
from palaver.core.steps import DetailsProvider, Step, StepDetails, StepError, StepKind, StepListener, current_listener
from palaver.frameworks.langchain_content import plain
from palaver.frameworks.langchain_told import (
    answered,
    came_to,
    copied,
    document_of,
    dumped,
    given_to,
    is_agent,
    is_signal,
    name_of,
    result_of,
)
from palaver.frameworks.parameters import shown

if TYPE_CHECKING:
    from langchain_core.outputs import LLMResult

TELLER = ("langchain", "langgraph", "langsmith")
_HIDDEN = "langsmith:hidden"
_MOST_SAID = 100_000
"""Pieces of an answer that are remembered while it comes."""


class _Handlers:
    """Stands where LangChain expects a context variable with a handler in it."""

    def get(self) -> "_Teller | None":
        """The one of the run that this code belongs to."""
        heard_by = current_listener()
        if heard_by is None:
            return None
        return heard_by.memory.get(TELLER) or heard_by.memory.setdefault(TELLER, _Teller(heard_by))


def listen() -> None:
    """From now on, in this process."""
    register_configure_hook(cast("ContextVar[BaseCallbackHandler | None]", _Handlers()), inheritable=True)


class _Teller(BaseCallbackHandler):
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
        name = name_of(serialized, kwargs)
        kind: StepKind = "agent" if is_agent(name, tags or (), metadata or {}) else "task"
        if kind == "agent":
            name = optional_str((metadata or {}).get("lc_agent_name")) or name
        given = self._given[run_id] = copied(inputs)
        self._begin(run_id, parent_run_id, kind, name, partial(given_to, given))

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
        self._ask(run_id, parent_run_id, partial(dumped, asked), metadata or {}, kwargs)

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
        step = partial(self._begin, run_id, parent_run_id, "tool", name_of(serialized, kwargs))
        step(lambda: StepDetails(inputs=plain(given)), call_id=optional_str(kwargs.get("tool_call_id")))

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
        name = name_of(serialized, kwargs)
        self._begin(run_id, parent_run_id, "retrieval", name, lambda: StepDetails(inputs={"query": query}))

    # What happens meanwhile

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **_: Any) -> None:
        """A model speaks: should it be stopped, this is what it had said."""
        said = self._said.get(run_id)
        if said is not None and isinstance(token, str) and token and len(said) < _MOST_SAID:
            said.append(token)

    # What ends

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """It came to something."""
        self._end(run_id, partial(came_to, self._given.get(run_id), outputs))

    def on_llm_end(self, response: "LLMResult", *, run_id: UUID, **_: Any) -> None:
        """The model has answered."""
        self._end(run_id, partial(answered, response))

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """The tool has answered, or says that it could not."""
        failed = getattr(output, "status", None) == "error"
        self._end(
            run_id,
            lambda: StepDetails(outputs=result_of(output)),
            StepError("tool_error", str(output.content)) if failed else None,
        )

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        """Documents were found."""
        self._end(run_id, lambda: StepDetails(outputs={"documents": [document_of(each) for each in documents]}))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """It failed, was stopped, or is a graph that waits for somebody."""
        self._end(run_id, None, None if is_signal(error) else error)

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
        self._steps[run_id] = self._heard_by.begin(TELLER, kind, name, parent=parent, call_id=call_id, tell=tell)

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
                parameters=plain(shown(given)),
                tools=plain(as_list(given.get("tools"))),
            )

        self._begin(run_id, parent_run_id, "llm", model or "", tell)

    def _end(self, run_id: UUID, tell: DetailsProvider | None, error: BaseException | StepError | None = None) -> None:
        step = self._steps.pop(run_id, None)
        self._said.pop(run_id, None)
        self._given.pop(run_id, None)
        if step is not None:
            step.end(tell, error=error)
