"""Mask credentials that leak into log, error or trace text, by known values and by common patterns.

Matches may be false positives, and unknown formats are not found.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

MASK = "***"
_MIN_VALUE_LENGTH = 8
"""Shorter values occur in ordinary text and are not masked."""
# Each pattern has a text that every match contains, and a rare character that is even faster to search. Most texts
# contain neither, so only that search is paid for. A pattern starts with plain text, looks behind from there, and takes
# linear time for any text: an endless run of eyJ… is one match that is left unchanged.
_PATTERNS = tuple(
    (required_text, rare_character, re.compile(pattern, re.DOTALL))
    for (required_text, rare_character), pattern in {
        ("PRIVATE KEY", ""): r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        ("plv_", ""): r"(plv_[0-9A-Za-z]{8}_)[0-9A-Za-z]+",  # A Palaver API key: its id is not secret.
        ("sk-", ""): r"()sk-(?<!\wsk-)[\w-]{8,}",
        ("eyJ", "J"): r"()eyJ(?<!\weyJ)[\w-]{8,}+(\.[\w-]+\.[\w-]*)?",
        ("://", "@"): r"(://[^\s/?#@:]*:)[^\s/?#@]+(?=@)",
        ("earer ", ""): r"(earer (?<=\b[Bb]earer ))[\w.~+/=-]{8,}",
        ("asic ", ""): r"(asic (?<=\b[Bb]asic ))[\w.~+/=-]{8,}",
        ("palaver=", "="): r"(palaver=(?<!\wpalaver=))\w+",
    }.items()
)


def mask_secrets(text: str, known: Iterable[str] = ()) -> str:
    """Mask the `known` values and everything that looks like a key, token or password."""
    for value in known:
        if len(value) >= _MIN_VALUE_LENGTH:
            text = text.replace(value, MASK)
    for required_text, rare_character, pattern in _PATTERNS:
        if rare_character in text and required_text in text:
            text = pattern.sub(_mask_match, text)
    return text


def may_contain_secret(text: str) -> bool:
    """Whether `mask_secrets` would have to run a pattern on the text."""
    for required_text, rare_character, _ in _PATTERNS:  # noqa: SIM110  # A generator takes twice as long, and this runs for every text.
        if rare_character in text and required_text in text:
            return True
    return False


def _mask_match(match: re.Match[str]) -> str:
    prefix, *other_groups = match.groups()
    return match[0] if None in other_groups else f"{prefix}{MASK}"


def mask_values(value: Any, known: Collection[str]) -> Any:
    """Return the JSON value with all `known` values masked, also in keys."""
    match value:
        case str():
            for secret in known:
                if len(secret) >= _MIN_VALUE_LENGTH:
                    value = value.replace(secret, MASK)
            return value
        case list() | tuple():
            return [mask_values(item, known) for item in cast("list[Any]", value)]
        case Mapping():
            mapping = cast("Mapping[Any, Any]", value)
            return {mask_values(key, known): mask_values(item, known) for key, item in mapping.items()}
        case _:
            return value
