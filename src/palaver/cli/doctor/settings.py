"""Check settings that are unknown, unsafe or conflicting.

Invalid values, and --debug on a reachable host, are rejected when settings are read. Other faults are found here.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from palaver.cli.doctor.checks import Check, ok, problem, split_advice, warning
from palaver.discovery.config import declared_workflows
from palaver.errors import PalaverError, SettingsError
from palaver.evaluation.providers.config import resolve_key
from palaver.outbound import printable
from palaver.server import otlp_exporter, supervisor
from palaver.server.exposure import check_exposure
from palaver.server.settings import FILE_ONLY_SETTINGS, SETTING_NAMES, Settings, closest_names, unknown_names

_ENV_PREFIX = "PALAVER_"
_MIN_PREFIX_BITS = 8
"""Minimum prefix length of a network of proxies."""


def check_settings(
    settings: Settings, *, folder: Path, env: Mapping[str, str], database: str, has_key: bool | None
) -> Iterator[Check]:
    """Yield a check per fault, or one that passes. `has_key` is None if unknown."""
    checks = [
        *_check_unknown(folder, env),
        *_check_exposure(settings, has_key, database),
        *_check_names(settings),
        *_check_numbers(settings),
        *_check_startup(settings, env, database),
    ]
    if not any(check.sign != "ok" for check in checks):
        checks.append(ok("settings", "All settings are valid."))
    yield from checks


def _check_unknown(folder: Path, env: Mapping[str, str]) -> Iterator[Check]:
    for name, advice in unknown_names(folder).items():
        yield problem("settings", f"Unknown setting '{printable(name, 60)}' in palaver.toml.", advice)
    for variable in sorted(env):
        name = variable.removeprefix(_ENV_PREFIX).lower()
        if not variable.startswith(_ENV_PREFIX) or (name in SETTING_NAMES and name not in FILE_ONLY_SETTINGS):
            continue
        if name in FILE_ONLY_SETTINGS:
            yield warning("settings", f"{variable} is ignored.", f"Set {name} in palaver.toml instead.")
        elif similar := [candidate for candidate in closest_names(name) if candidate not in FILE_ONLY_SETTINGS]:
            message = f"Unknown environment variable '{printable(variable, 60)}'."
            yield warning("settings", message, f"Did you mean '{_ENV_PREFIX}{similar[0].upper()}'?")


def _check_exposure(settings: Settings, has_key: bool | None, database: str) -> Iterator[Check]:
    """Check which clients can reach the server, and what they could do."""
    if settings.debug:
        yield warning(
            "settings", "debug is on. Responses include internal error details.", "Turn it off in production."
        )
    for network in settings.trusted_proxies:
        try:
            is_broad = ip_network(network, strict=False).prefixlen < _MIN_PREFIX_BITS
        except ValueError:
            message = f"trusted_proxies: '{printable(network)}' is not an IP address or network."
            yield problem("settings", message, "Use e.g. 10.0.0.1 or 10.0.0.0/8.")
        else:
            if is_broad:
                message = f"trusted_proxies: {network} is too broad. Almost any client can forge its address."
                yield problem("settings", message, "List only your proxies.")
    if settings.is_loopback:
        return
    if has_key is False:
        try:
            check_exposure(settings, has_key=False, database=database)
        except SettingsError as error:
            yield problem("settings", *split_advice(error.message))
    if not settings.trusted_proxies:
        message = f"{settings.host} is reachable from other machines without TLS. Keys and data are sent unencrypted."
        yield warning("settings", message, "Put a TLS proxy in front and add it to trusted_proxies.")
    if settings.allow_private_urls:
        message = "allow_private_urls is on. Clients can make this server send requests to your internal network."
        yield warning("settings", message, "Turn it off. Connections in palaver.toml work without it.")
    if settings.rate_per_minute == 0:
        yield warning("settings", "rate_per_minute is 0. API keys have no rate limit.", "Set a limit.")


def _check_names(settings: Settings) -> Iterator[Check]:
    """Check names that no request can match."""
    for origin in settings.allowed_origins:
        parts = urlsplit(origin)
        if f"{parts.scheme}://{parts.netloc}".lower() != origin or not parts.netloc:
            message = f"allowed_origins: '{printable(origin)}' is not a valid origin."
            yield problem("settings", message, "Use e.g. https://example.org (lower case, no path, no wildcard).")
    for host in settings.allowed_hosts:
        if "/" in host or "*" in host or host != host.lower():
            message = f"allowed_hosts: '{printable(host)}' is not a valid Host header."
            yield problem("settings", message, "Use a lower-case name, with :port if it is not the default.")
    root = settings.root_path
    if root and (not root.startswith("/") or root.endswith("/")):
        yield problem("settings", f"root_path: '{printable(root)}' is not a valid prefix.", "Use e.g. /palaver.")


def _check_numbers(settings: Settings) -> Iterator[Check]:
    """Check limits that are negative or have no effect."""
    values = msgspec.structs.asdict(settings)
    for name in SETTING_NAMES:
        value = values[name]
        if isinstance(value, int | float) and value < 0:
            yield problem("settings", f"{name} is {value}, but must not be negative.", "Set it to 0 or more.")
    for smaller, larger in (("max_string", "max_body"), ("max_streams", "max_streams_total")):
        if values[smaller] > values[larger]:
            message = f"{smaller} ({values[smaller]}) exceeds {larger} ({values[larger]}) and has no effect."
            yield warning("settings", message, f"Increase {larger} or decrease {smaller}.")


def _check_startup(settings: Settings, env: Mapping[str, str], database: str) -> Iterator[Check]:
    """Check settings that a server would reject at start or at first use."""
    try:
        if settings.workers > 1:
            supervisor.check_worker_count(settings, database)
        declared_workflows(settings.connections, env)
        otlp_exporter.configured_endpoint(settings)
    except PalaverError as error:
        yield problem("settings", error.message, "The server will not start.")
    for name, provider in settings.providers.items():
        try:
            resolve_key(provider, env)
        except KeyError as variable:
            message = f"Provider {name!r} has no API key: environment variable {printable(str(variable))} is not set."
            yield warning("settings", message, "Set it in the server's environment.")
