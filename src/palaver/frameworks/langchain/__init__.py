"""LangChain and LangGraph: graphs, agents, chat models and other runnables as workflows.

adapter    the adapter: wrap a runnable, convert the output of a function
graph      run a graph or a runnable; interrupts and approvals
messages   convert messages to and from LangChain's
stream     messages and chunks to events
steps      trace steps through LangChain's callbacks
responses  message_to_items, stream_to_responses: the conversion to Responses without a server
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from palaver.frameworks.langchain.responses import message_to_items, stream_to_responses

__all__ = ["message_to_items", "stream_to_responses"]


def __getattr__(name: str) -> Any:
    """Load the public functions on first use, because they import a protocol."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("palaver.frameworks.langchain.responses"), name)
