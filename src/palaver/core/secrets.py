"""Credentials in a text that is not theirs: found by their shapes and masked, before the text is written down.

What looks like one is masked, even if it is none. That nothing else is one cannot be promised.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

MASK = "***"
_SHORTEST = 8
"""Characters of a value that is looked for as it stands; shorter ones are in every text."""
_HINTS = ("plv_", "sk-", "eyJ", "://", "PRIVATE KEY", "earer ", "asic ", "palaver=")
"""One of these is in every text that has something to mask: most have none, and cost no more than looking."""
_SHAPES = re.compile(
    r"(?P<key>plv_[0-9A-Za-z]{8}_)[0-9A-Za-z]+"  # Ours: its id may be told.
    r"|\bsk-[\w-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|(?P<user>://[^\s/?#@:]*:)[^\s/?#@]+(?=@)"
    r"|(?P<scheme>\b[Bb]earer |\b[Bb]asic )[\w.~+/=-]{8,}"
    r"|(?P<cookie>\bpalaver=)\w+"
    r"|(?P<begin>-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


def masked(text: str, known: Iterable[str] = ()) -> str:
    """The text without what looks like a key, a token or a password, and without the values that are known to be."""
    for value in known:
        if len(value) >= _SHORTEST:
            text = text.replace(value, MASK)
    if not any(hint in text for hint in _HINTS):
        return text
    return _SHAPES.sub(lambda found: f"{next((part for part in found.groups() if part), '')}{MASK}", text)


def without(value: Any, known: Collection[str]) -> Any:
    """A JSON value in which those values stand nowhere, not even in a key."""
    match value:
        case str():
            for secret in known:
                if len(secret) >= _SHORTEST:
                    value = value.replace(secret, MASK)
            return value
        case list() | tuple():
            return [without(item, known) for item in cast("list[Any]", value)]
        case Mapping():
            given = cast("Mapping[Any, Any]", value)
            return {without(key, known): without(item, known) for key, item in given.items()}
        case _:
            return value
