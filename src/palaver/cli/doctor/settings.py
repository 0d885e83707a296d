"""Check settings that are unknown, unsafe or contradictory.

Invalid values, and --debug on a reachable host, are rejected when settings are read. Other faults are found here.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from palaver.cli.doctor.checks import Check, ok, problem, warning
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
        *_check_exposure(settings, has_key),
        *_check_names(settings),
        *_check_numbers(settings),
        *_check_startup(settings, env, database),
    ]
    if not any(check.sign != "ok" for check in checks):
        checks.append(ok("settings", "Every setting is known, and none contradicts another."))
    yield from checks


def _check_unknown(folder: Path, env: Mapping[str, str]) -> Iterator[Check]:
    for name, advice in unknown_names(folder).items():
        yield problem("settings", f"palaver.toml sets {printable(name, 60)}, which is no setting.", advice)
    for variable in sorted(env):
        name = variable.removeprefix(_ENV_PREFIX).lower()
        if not variable.startswith(_ENV_PREFIX) or (name in SETTING_NAMES and name not in FILE_ONLY_SETTINGS):
            continue
        if name in FILE_ONLY_SETTINGS:
            yield warning("settings", f"{variable} is not read.", f"Write {name} into palaver.toml.")
        elif similar := [candidate for candidate in closest_names(name) if candidate not in FILE_ONLY_SETTINGS]:
            message = f"{printable(variable, 60)} is set, and no setting has that name."
            yield warning("settings", message, f"Is {_ENV_PREFIX}{similar[0].upper()} meant?")


def _check_exposure(settings: Settings, has_key: bool | None) -> Iterator[Check]:
    """Check which clients can reach the server, and what they could do."""
    if settings.debug:
        yield warning("settings", "debug is on: callers are told what goes wrong inside.", "Turn it off when done.")
    for network in settings.trusted_proxies:
        try:
            is_broad = ip_network(network, strict=False).prefixlen < _MIN_PREFIX_BITS
        except ValueError:
            yield problem(
                "settings", f"trusted_proxies: {printable(network)} is no address.", "Write 10.0.0.1 or 10.0.0.0/8."
            )
        else:
            if is_broad:
                message = f"trusted_proxies: of {network}, almost anybody may say where a request comes from."
                yield problem("settings", message, "List your proxies alone.")
    if settings.is_loopback:
        return
    if has_key is False:
        try:
            check_exposure(settings, has_key=False)
        except SettingsError as error:
            message, _, advice = error.message.partition(": ")
            yield problem("settings", f"{message}.", advice[:1].upper() + advice[1:])
    if not settings.trusted_proxies:
        message = f"Others can reach {settings.host}, where keys and texts pass unencrypted."
        yield warning("settings", message, "Put a proxy with TLS before it, and name that in trusted_proxies.")
    if settings.allow_private_urls:
        message = (
            "allow_private_urls is on, and others can reach this server: callers can make it ask your inner network."
        )
        yield warning("settings", message, "Turn it off; connections in palaver.toml may lead anywhere without it.")
    if settings.rate_per_minute == 0:
        yield warning("settings", "rate_per_minute is 0: a key may ask without end.", "Set a number.")


def _check_names(settings: Settings) -> Iterator[Check]:
    """Check names that no request can match."""
    for origin in settings.allowed_origins:
        parts = urlsplit(origin)
        if f"{parts.scheme}://{parts.netloc}".lower() != origin or not parts.netloc:
            message = f"allowed_origins: no browser sends {printable(origin)}."
            yield problem("settings", message, "Write https://example.org: lower case, no path, no *.")
    for host in settings.allowed_hosts:
        if "/" in host or "*" in host or host != host.lower():
            message = f"allowed_hosts: no Host header is {printable(host)}."
            yield problem("settings", message, "Write a name in lower case, and :port where it is sent.")
    root = settings.root_path
    if root and (not root.startswith("/") or root.endswith("/")):
        yield problem("settings", f"root_path: no path begins with {printable(root)}.", "Write it as /palaver.")


def _check_numbers(settings: Settings) -> Iterator[Check]:
    """Check limits that are negative or have no effect."""
    values = msgspec.structs.asdict(settings)
    for name in SETTING_NAMES:
        value = values[name]
        if isinstance(value, int | float) and value < 0:
            yield problem("settings", f"{name} is {value}: there is no such limit.", "Set it to 0 or more.")
    for smaller, larger in (("max_string", "max_body"), ("max_streams", "max_streams_total")):
        if values[smaller] > values[larger]:
            message = (
                f"{smaller} ({values[smaller]}) is larger than {larger} ({values[larger]}), and means nothing then."
            )
            yield warning("settings", message, f"Make {larger} larger, or {smaller} smaller.")


def _check_startup(settings: Settings, env: Mapping[str, str], database: str) -> Iterator[Check]:
    """Check settings that a server would reject at start or at first use."""
    try:
        if settings.workers > 1:
            supervisor.check_worker_count(settings, database)
        declared_workflows(settings.connections, env)
        otlp_exporter.configured_endpoint(settings)
    except PalaverError as error:
        yield problem("settings", error.message, "A server does not start so.")
    for name, provider in settings.providers.items():
        try:
            resolve_key(provider, env)
        except KeyError as variable:
            message = f"The provider {name!r} has no key: the variable {printable(str(variable))} is not set."
            yield warning("settings", message, "Set it where the server runs.")
