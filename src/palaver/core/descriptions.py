"""Describe workflows: names, flags and schemas. Protocols and the web page see these, never the workflow itself."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from palaver.errors import ContradictoryFlags, InvalidFlag, InvalidName

IsChatSource = Literal["declared", "derived"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PER_CALL_FLAGS = frozenset({"stream", "trim", "force", "resolve"})


class Schemas(msgspec.Struct, frozen=True):
    """JSON Schemas of inputs, parameters and outputs."""

    inputs: Mapping[str, Any] = {}
    parameters: Mapping[str, Any] = {}
    outputs: Mapping[str, Any] = {}


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The public description of a workflow. Holds no secret, header, path or source text."""

    name: str
    description: str = ""
    flags: Mapping[str, bool]
    """Always contains `is_chat`."""
    is_chat_source: IsChatSource = "declared"
    schemas: Schemas = Schemas()
    inputs: Mapping[str, Any] = {}
    """Defaults of the inputs."""
    parameters: Mapping[str, Any] = {}
    """Defaults of the parameters."""
    streams: bool = True
    remote: bool = False
    """Served by another service and called by URL."""

    @property
    def is_chat(self) -> bool:
        """Whether it takes a message history and returns messages."""
        return self.flags["is_chat"]


def check_workflow_name(name: str) -> str:
    """Return the name. Raises InvalidName if it is not URL-safe."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"Workflow name {name!r} is not URL-safe. Use at most 64 characters: letters, digits, '_', '-' and '.'."
        )
    return name


def check_flags(name: str, declared: Mapping[str, Any], *, is_chat: bool | None) -> dict[str, bool]:
    """Return the flags of a declaration. `is_chat` is what the decorator implies, None if it implies nothing."""
    for flag, value in declared.items():
        if flag in _PER_CALL_FLAGS:
            raise InvalidFlag(f"{name}: flag {flag!r} applies to a single call and can't be set on a workflow.")
        if not isinstance(value, bool):
            raise InvalidFlag(f"{name}: flag {flag!r} must be True or False, not {value!r}.")
    if is_chat and declared.get("is_chat") is False:
        raise ContradictoryFlags(f"{name}: @chat can't be combined with the flag is_chat=False. Use @workflow instead.")
    return {**declared, "is_chat": declared.get("is_chat", is_chat or False)}
