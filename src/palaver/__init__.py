"""Palaver gives any workflow a chat interface.

    from palaver import chat

    @chat
    async def tutor(messages, subject="maths"):
        yield "Let us begin with …"

These are all the names that an application needs. Importing them loads neither a server nor a database: `app` and
`connect`, which need one, are loaded when they are first used, and so is what evaluators are written with.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from palaver.core.model_options import ModelOptions
from palaver.errors import Failure, PalaverError
from palaver.workflows.context import Context
from palaver.workflows.decorators import chat, workflow
from palaver.workflows.signature import Parameter

if TYPE_CHECKING:
    from palaver.core.extraction import extract_chat_messages, read_conversation
    from palaver.discovery.connections import connect
    from palaver.evaluation.case import Case
    from palaver.evaluation.evaluator import evaluator
    from palaver.evaluation.score import Score, Skip
    from palaver.server.app import app

__all__ = [
    "Case",
    "Context",
    "Data",
    "Failure",
    "File",
    "Message",
    "ModelOptions",
    "PalaverError",
    "Parameter",
    "Reasoning",
    "Refusal",
    "Score",
    "Skip",
    "Text",
    "ToolCall",
    "ToolResult",
    "Usage",
    "app",
    "chat",
    "connect",
    "evaluator",
    "extract_chat_messages",
    "read_conversation",
    "workflow",
]

_LAZY_MODULES = {
    "Case": "palaver.evaluation.case",
    "Score": "palaver.evaluation.score",
    "Skip": "palaver.evaluation.score",
    "app": "palaver.server.app",
    "connect": "palaver.discovery.connections",
    "evaluator": "palaver.evaluation.evaluator",
    "extract_chat_messages": "palaver.core.extraction",
    "read_conversation": "palaver.core.extraction",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module 'palaver' has no attribute {name!r}")
    return getattr(import_module(_LAZY_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
