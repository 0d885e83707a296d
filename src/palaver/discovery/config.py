"""Connections declared in palaver.toml, as `[connections.tutor]`.

Secrets stay in the environment: `headers = {authorization = "env:TUTOR_KEY"}` names the variable.
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
    url: str
    headers: Mapping[str, str] = {}
    """Sent to that service only; `env:NAME` is replaced by the variable's value."""
    is_chat: bool | None = None
    dialect: Dialect | None = None
    model: str | None = None
    timeout_seconds: TimeoutSeconds = 60


def declared_workflows(connections: Mapping[str, ConnectionSettings], env: Mapping[str, str]) -> "list[RemoteWorkflow]":
    """Return the connections as workflows. None is contacted: the server must start even if a service is down."""
    if not connections:
        return []
    from palaver.core.descriptions import check_workflow_name
    from palaver.discovery.connections import ConnectionConfig, remote_workflow
    from palaver.outbound import check_headers, check_url

    workflows: list[RemoteWorkflow] = []
    for name, settings in connections.items():
        check_url(settings.url)
        config = ConnectionConfig(
            url=settings.url,
            is_chat=settings.is_chat,
            dialect=settings.dialect,
            model=settings.model,
            headers=check_headers(
                {header: _header_value(name, text, env) for header, text in settings.headers.items()}
            ),
            timeout=settings.timeout_seconds,
        )
        workflows.append(remote_workflow(config, check_workflow_name(name)))
        workflows[-1].checked_at = None
    return workflows


def toml_lines(name: str, url: str) -> str:
    """Return the lines for palaver.toml that declare a service with credentials."""
    key = name if _BARE_KEY.fullmatch(name) else _quote(name)
    variable = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "SERVICE"
    return f'[connections.{key}]\nurl = {_quote(url)}\nheaders = {{authorization = "env:{variable}_KEY"}}\n'


def mask_connections(connections: Mapping[str, ConnectionSettings]) -> dict[str, Any]:
    """Return the connections without secrets: only the names of variables are shown."""
    return {name: _mask_connection(settings) for name, settings in connections.items()}


def _mask_connection(settings: ConnectionSettings) -> dict[str, Any]:
    headers = {name: value if value.startswith(_VARIABLE_PREFIX) else "***" for name, value in settings.headers.items()}
    url = urlsplit(settings.url)._replace(query="", fragment="").geturl()
    return msgspec.to_builtins(msgspec.structs.replace(settings, url=url, headers=headers))


def _header_value(connection: str, text: str, env: Mapping[str, str]) -> str:
    if not text.startswith(_VARIABLE_PREFIX):
        return text
    variable = text.removeprefix(_VARIABLE_PREFIX)
    if variable not in env:
        raise SettingsError(f"Connection {connection!r}: the environment variable {variable!r} is not set.")
    return env[variable]


def _quote(text: str) -> str:
    """Quote a string for TOML, in the syntax of JSON."""
    return json.encode(text).decode()
