"""Connections that an operator declares in the settings: `[connections.tutor]` in palaver.toml.

Secrets stay where they are: a header names the variable that holds it, `headers = {authorization = "env:TUTOR_KEY"}`.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec

from palaver.core import json
from palaver.discovery.evidence import Dialect
from palaver.errors import SettingsError

if TYPE_CHECKING:
    from palaver.frameworks.remote import RemoteWorkflow

MAX_TIMEOUT_S = 600
TimeoutSeconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_TIMEOUT_S)]
_VARIABLE_PREFIX = "env:"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class ConnectionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of them."""

    url: str
    headers: Mapping[str, str] = {}
    """Sent to that service only; `env:NAME` stands for the value of a variable."""
    is_chat: bool | None = None
    dialect: Dialect | None = None
    model: str | None = None
    timeout_seconds: TimeoutSeconds = 60


def declared_workflows(connections: Mapping[str, ConnectionSettings], env: Mapping[str, str]) -> "list[RemoteWorkflow]":
    """These, as workflows. None is asked what it is: a server must start, whoever is away."""
    if not connections:
        return []
    from palaver.core.descriptions import check_workflow_name
    from palaver.discovery.connections import ConnectionConfig, remote_workflow
    from palaver.outbound import check_headers, check_url

    made: list[RemoteWorkflow] = []
    for name, one in connections.items():
        check_url(one.url)
        wanted = ConnectionConfig(
            url=one.url,
            is_chat=one.is_chat,
            dialect=one.dialect,
            model=one.model,
            headers=check_headers({header: _header_value(name, text, env) for header, text in one.headers.items()}),
            timeout=one.timeout_seconds,
        )
        made.append(remote_workflow(wanted, check_workflow_name(name)))
        made[-1].checked_at = None
    return made


def toml_lines(name: str, url: str) -> str:
    """What to write into palaver.toml for a service that wants credentials."""
    key = name if _BARE_KEY.fullmatch(name) else _quote(name)
    variable = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "SERVICE"
    return f'[connections.{key}]\nurl = {_quote(url)}\nheaders = {{authorization = "env:{variable}_KEY"}}\n'


def mask_connections(connections: Mapping[str, ConnectionSettings]) -> dict[str, Any]:
    """These, as they may be shown: without what a header says, unless that is the name of a variable."""
    return {name: _mask_connection(one) for name, one in connections.items()}


def _mask_connection(one: ConnectionSettings) -> dict[str, Any]:
    headers = {name: value if value.startswith(_VARIABLE_PREFIX) else "***" for name, value in one.headers.items()}
    url = urlsplit(one.url)._replace(query="", fragment="").geturl()
    return msgspec.to_builtins(msgspec.structs.replace(one, url=url, headers=headers))


def _header_value(connection: str, text: str, env: Mapping[str, str]) -> str:
    if not text.startswith(_VARIABLE_PREFIX):
        return text
    variable = text.removeprefix(_VARIABLE_PREFIX)
    if variable not in env:
        raise SettingsError(f"The connection {connection!r} needs the variable {variable!r}, which is not set.")
    return env[variable]


def _quote(text: str) -> str:
    """A string as TOML has it, which JSON's are too."""
    return json.encode(text).decode()
