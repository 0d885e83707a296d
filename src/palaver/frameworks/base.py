"""Code shared by the adapters: the wrapping workflow, step listeners, agent readers, visible parameters."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from palaver.core.events import FinishReason, RunFinished
from palaver.core.grammar import OutputValue
from palaver.core.messages import APPROVAL_RESPONSE, Data, Message, Usage
from palaver.core.runs import Call
from palaver.errors import NotImplementedYet
from palaver.workflows.workflow import FunctionWorkflow, Options, Producer


class AdoptedWorkflow(FunctionWorkflow):
    """A workflow that wraps a graph, an agent or a runnable."""

    resolves_file_ids = False

    def __init__(
        self,
        thing: Any,
        function: Callable[..., Any],
        *,
        place: str,
        resumes: bool = False,
        name: str,
        description: str,
        flags: Mapping[str, bool],
        options: Options,
    ) -> None:
        self.thing = thing
        self._place = place
        self.resumes = resumes
        super().__init__(function, name=name, description=description, flags=dict(flags), options=options)

    @property
    def place(self) -> str:
        """The framework and the name of the object, which has no file and line."""
        return self._place

    def bind(self, call: Call) -> Producer:
        """Bind the call. Raises NotImplementedYet for an approval if the framework's run cannot be resumed."""
        last_parts = call.messages[-1].parts if call.messages else ()
        is_approval = any(isinstance(part, Data) and part.name == APPROVAL_RESPONSE for part in last_parts)
        if is_approval and not self.resumes:
            raise NotImplementedYet(
                f"{self.description.name} cannot resume after an approval because its run was not stored."
            )
        return super().bind(call)


_VISIBLE_PARAMETERS = frozenset(
    (
        "frequency_penalty",
        "logprobs",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "stop_sequences",
        "temperature",
        "tool_choice",
        "top_k",
        "top_logprobs",
        "top_p",
        "verbosity",
    )
)


def visible_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known parameters that are JSON. Others may be credentials or objects of a client."""
    visible = {name: value for name, value in parameters.items() if name in _VISIBLE_PARAMETERS and value is not None}
    return {name: value for name, value in visible.items() if isinstance(value, str | int | float | bool | list | dict)}


log = logging.getLogger("palaver.frameworks")

_listener_modules = {
    "langchain_core.callbacks.manager": "palaver.frameworks.langchain.steps",
    "agents.tracing": "palaver.frameworks.openai_agents.steps",
}
"""The module with the listener for each framework module; removed once it is installed."""


def install_step_listeners() -> None:
    """Install the listeners of all frameworks that have been loaded."""
    for framework in [module for module in _listener_modules if module in sys.modules]:
        listener = _listener_modules.pop(framework)
        try:
            import_module(listener).install_listener()
        except Exception:  # An incompatible version of a framework must not break a run.
            log.warning("Cannot record the steps of %s", framework.partition(".")[0], exc_info=True)


def approval_request(
    request_id: str,
    call_id: str | None,
    name: str,
    arguments: str,
    *,
    message: str | None = None,
    interrupt: str | None = None,
) -> dict[str, Any]:
    """Return the value of the data part that requests approval of a tool call."""
    return {
        "id": request_id,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "message": message,
        "decisions": ["approve", "reject"],
        "interrupt": interrupt,
    }


class AgentReader:
    """State that the readers of agent frameworks share."""

    def __init__(self, _history: Sequence[Message] = ()) -> None:
        self.finish: FinishReason = "stop"
        """How the last response of the model ended."""
        self._has_started = False
        self._no_text = True  # No text since the last tool result.
        self._reported_usage = Usage(input_tokens=0, output_tokens=0)

    def end(self) -> Iterable[OutputValue]:
        """Return the finish reason, unless it is `stop`."""
        return [] if self.finish == "stop" else [RunFinished(finish=self.finish)]

    def _add_usage(self, usage: Usage) -> Iterator[OutputValue]:
        if usage.total_tokens > 0:
            self._reported_usage += usage
            yield usage

    def _add_total_usage(self, total: Usage) -> Iterator[OutputValue]:
        """Emit the part of the run's total usage that was not reported yet."""
        return self._add_usage(_usage_difference(total, self._reported_usage))


def _usage_difference(total: Usage, reported: Usage) -> Usage:
    def difference(left: int | None, right: int | None) -> int | None:
        return (left or 0) - (right or 0) or None

    return Usage(
        input_tokens=total.input_tokens - reported.input_tokens,
        output_tokens=total.output_tokens - reported.output_tokens,
        cached_input_tokens=difference(total.cached_input_tokens, reported.cached_input_tokens),
        cache_creation_input_tokens=difference(total.cache_creation_input_tokens, reported.cache_creation_input_tokens),
        reasoning_tokens=difference(total.reasoning_tokens, reported.reasoning_tokens),
        cost=None if total.cost is None else total.cost - (reported.cost or 0),
    )
