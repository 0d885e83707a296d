"""The adapter of LangChain and LangGraph.

`adopt` wraps a runnable, `Reader` converts the output of a function, and `written` converts a history. A chat model is
asked for the JSON Schema that the caller requires; other options of a call, such as `temperature`, are not applied.
LangChain is imported only inside functions, because this module is loaded to recognize LangChain's objects.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from palaver.core.grammar import OutputValue
from palaver.core.json import dict_or_empty
from palaver.core.messages import Message, unanswered_calls
from palaver.frameworks.base import AdoptedWorkflow
from palaver.frameworks.langchain.graph import chat_function, workflow_function
from palaver.frameworks.langchain.messages import HistoryEcho, written
from palaver.frameworks.langchain.stream import MessageStream
from palaver.workflows.adapters import choose_name
from palaver.workflows.workflow import Options

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

    MESSAGES: type | None

PACKAGES = ("langchain_core", "langchain", "langgraph", "langchain_classic", "langchain_community")
"""Packages whose objects are recognized; models of other packages are subclasses of theirs."""

__all__ = ["MESSAGES", "PACKAGES", "Reader", "adopt", "written"]


def __getattr__(name: str) -> object:
    """Load `MESSAGES` lazily, because it imports LangChain."""
    if name != "MESSAGES":
        raise AttributeError(name)
    from langchain_core.messages import BaseMessage

    return BaseMessage


class Reader:
    """Converts LangChain's objects that one run yields to events."""

    def __init__(self, history: Sequence[Message] = ()) -> None:
        from langchain_core.messages import BaseMessage

        self._kind = BaseMessage
        self._history = history
        self._stream = MessageStream(pending=unanswered_calls(history))

    @property
    def warnings(self) -> Sequence[str]:
        return self._stream.warnings

    @cached_property
    def _echo(self) -> HistoryEcho:
        return HistoryEcho(written(self._history))

    def feed(self, value: Any) -> Iterable[OutputValue] | None:
        """Convert a message or chunk, a list of them, or LangGraph's pair with metadata; None for other values."""
        kind = self._kind
        match value:
            case kind():
                return self._stream.feed(value)
            case (kind() as message, dict()):
                return self._stream.feed(message, branch=dict_or_empty(value[1]).get("langgraph_checkpoint_ns", ""))
            case list() if all(isinstance(message, kind) for message in cast("list[Any]", value)):
                new_messages = self._echo.new_messages(cast("list[Any]", value))
                return [output for message in new_messages for output in self._stream.feed(message)]
            case _:
                return None

    def end(self) -> Iterable[OutputValue]:
        """Return the held back events and the finish reason."""
        return self._stream.end()


def adopt(
    thing: object, *, name: str | None, description: str | None, flags: Mapping[str, bool], options: Options
) -> AdoptedWorkflow | None:
    """Return the workflow of a runnable; None for any other object."""
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool

    if not isinstance(thing, Runnable) or isinstance(thing, BaseTool):
        return None
    runnable = cast("Runnable[Any, Any]", thing)
    runnable_name = getattr(runnable, "name", None)
    name = choose_name(
        name, runnable_name if runnable_name != "LangGraph" else "langgraph", type(runnable).__name__.lower()
    )
    return AdoptedWorkflow(
        runnable,
        chat_function(runnable, name) if flags["is_chat"] else workflow_function(runnable),
        place=f"LangChain: {type(runnable).__name__}",
        resumes=True,
        name=name,
        description=description or "",
        flags=flags,
        options=options,
    )
