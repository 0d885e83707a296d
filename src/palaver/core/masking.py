"""Credentials in a text that is not theirs: found by their shapes and masked, before the text is written down.

What looks like one is masked, even if it is none. That nothing else is one cannot be promised.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

MASK = "***"
_MIN_VALUE_LENGTH = 8
"""Characters of a value that is looked for as it stands; shorter ones are in every text."""
# Each shape by what it has in it: most texts have none of it, and cost no more than looking, which is quickest for one
# rare character. A pattern begins with plain text, which is found fast, and looks back from there; each costs time in
# proportion to the text, whatever it holds: a run of eyJ… without an end is taken as one, and left as it is.
_SHAPES = tuple(
    (hint, also, re.compile(shape, re.DOTALL))
    for (hint, also), shape in {
        ("PRIVATE KEY", ""): r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        ("plv_", ""): r"(plv_[0-9A-Za-z]{8}_)[0-9A-Za-z]+",  # Ours: its id may be told.
        ("sk-", ""): r"()sk-(?<!\wsk-)[\w-]{8,}",
        ("eyJ", "J"): r"()eyJ(?<!\weyJ)[\w-]{8,}+(\.[\w-]+\.[\w-]*)?",
        ("://", "@"): r"(://[^\s/?#@:]*:)[^\s/?#@]+(?=@)",
        ("earer ", ""): r"(earer (?<=\b[Bb]earer ))[\w.~+/=-]{8,}",
        ("asic ", ""): r"(asic (?<=\b[Bb]asic ))[\w.~+/=-]{8,}",
        ("palaver=", "="): r"(palaver=(?<!\wpalaver=))\w+",
    }.items()
)


def mask_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without what looks like a key, a token or a password, and without the values that are known to be."""
    for value in known:
        if len(value) >= _MIN_VALUE_LENGTH:
            text = text.replace(value, MASK)
    for hint, also, shape in _SHAPES:
        if also in text and hint in text:
            text = shape.sub(_mask_match, text)
    return text


def may_contain_secret(text: str) -> bool:
    """Is there anything in it for which `masked` would look closer?"""
    for hint, also, _ in _SHAPES:  # noqa: SIM110  # As a generator it takes twice as long, and every text is asked.
        if also in text and hint in text:
            return True
    return False


def _mask_match(found: re.Match[str]) -> str:
    begin, *rest = found.groups()
    return found[0] if None in rest else f"{begin}{MASK}"


def mask_values(value: Any, known: Collection[str]) -> Any:
    """A JSON value in which those values stand nowhere, not even in a key."""
    match value:
        case str():
            for secret in known:
                if len(secret) >= _MIN_VALUE_LENGTH:
                    value = value.replace(secret, MASK)
            return value
        case list() | tuple():
            return [mask_values(item, known) for item in cast("list[Any]", value)]
        case Mapping():
            given = cast("Mapping[Any, Any]", value)
            return {mask_values(key, known): mask_values(item, known) for key, item in given.items()}
        case _:
            return value
