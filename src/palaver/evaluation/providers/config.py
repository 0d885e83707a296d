"""The configuration of a provider: `[providers.openai]` in palaver.toml.

`key = "env:OPENAI_API_KEY"` names the environment variable that holds the key. The key is sent only to that provider's
base URL, and never shown, logged or stored.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from palaver.errors import SettingsError

ENV_PREFIX = "env:"
_PROVIDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")

ProviderKind = Literal["openai", "anthropic"]


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: ProviderKind
    """The wire API."""
    base_url: str
    """The base URL, as for the provider's SDK. It may be a private address, because the operator configured it."""
    key: str | None = None
    """`env:NAME`; None if the provider needs no key."""
    models: tuple[str, ...] = ("*",)
    """Patterns of the models that may be used; * matches any characters."""
    options: Mapping[str, Any] = {}
    """Further fields of each request: `{temperature = 0}`."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 60
    retries: Annotated[int, Meta(ge=0, le=10)] = 2


def check_providers(providers: Mapping[str, Provider]) -> None:
    """Raise SettingsError for a provider that can never be used, or whose URL contains a secret."""
    for name, provider in providers.items():
        if not _PROVIDER_NAME.fullmatch(name):
            raise SettingsError(f"Invalid provider name {name!r}: use at most 64 letters, digits, '_', '-' and '.'.")
        if provider.key is not None and (not provider.key.startswith(ENV_PREFIX) or provider.key == ENV_PREFIX):
            raise SettingsError(f'Provider {name!r}: key must name an environment variable: key = "env:NAME".')
        try:
            url = urlsplit(provider.base_url)
            is_http = url.scheme in ("http", "https") and bool(url.hostname)
            has_no_secret = not (url.username or url.password or url.query or url.fragment)
        except ValueError:
            is_http = has_no_secret = False
        if not (is_http and has_no_secret):
            raise SettingsError(f"Provider {name!r}: base_url must be http://… or https://…, without credentials.")


def has_model(provider: Provider, model: str) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in provider.models)


def names_model(provider: Provider, model: str) -> bool:
    """Whether a model name without a provider selects this provider. The pattern `*` alone selects none."""
    return any(pattern != "*" and fnmatchcase(model, pattern) for pattern in provider.models)


def resolve_key(provider: Provider, env: Mapping[str, str]) -> str | None:
    """Return the key, or None. Raises KeyError if the variable is not set."""
    if provider.key is None:
        return None
    variable = provider.key.removeprefix(ENV_PREFIX)
    if not env.get(variable):
        raise KeyError(variable)
    return env[variable]
