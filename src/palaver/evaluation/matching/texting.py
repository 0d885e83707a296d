"""Texting: what is expected of a text in a script: `{equals, contains, not_contains, any_of, matches, similar}`."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from palaver.evaluation.matching.calls import listed
from palaver.evaluation.matching.json_schemas import PATTERN_SECONDS
from palaver.evaluation.scoring.scores import Unscored

_SHOWN: Final = 80


def text_fault(text: str, wanted: Mapping[str, Any]) -> str | None:
    """What the text does not keep to first; None where it keeps to all."""
    for key, value in wanted.items():
        fault = _FAULTS[key](text, value)
        if fault is not None:
            return fault
    return None


def matches(pattern: str, text: str) -> bool:
    """Does the pattern occur in the text? Unscored regex_timeout where that takes too long to tell."""
    try:
        return _compiled(pattern).search(text, timeout=PATTERN_SECONDS, concurrent=True) is not None
    except TimeoutError:
        raise Unscored("regex_timeout", f"{_shown(pattern)} takes more than {PATTERN_SECONDS} s") from None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)


def _equals(text: str, value: Any) -> str | None:
    other = next((one for one in listed(value) if text != one), None)
    return None if other is None else f"the text is not {_shown(other)}"


def _contains(text: str, value: Any) -> str | None:
    missing = next((one for one in listed(value) if one not in text), None)
    return None if missing is None else f"the text lacks {_shown(missing)}"


def _not_contains(text: str, value: Any) -> str | None:
    found = next((one for one in listed(value) if one in text), None)
    return None if found is None else f"the text has {_shown(found)}"


def _any_of(text: str, value: Any) -> str | None:
    return None if any(one in text for one in listed(value)) else "the text has none of those wanted"


def _matches(text: str, value: Any) -> str | None:
    other = next((one for one in listed(value) if not matches(one, text)), None)
    return None if other is None else f"the text does not match {_shown(other)}"


def _similar(text: str, value: Any) -> str | None:
    from rapidfuzz import fuzz

    near, least = fuzz.ratio(text, value["to"]) / 100, value.get("min", 0.5)
    return None if near >= least else f"the text is similar by {near:.2f}, wanted {least}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


_FAULTS: Final[Mapping[str, Callable[[str, Any], str | None]]] = {
    "equals": _equals,
    "contains": _contains,
    "not_contains": _not_contains,
    "any_of": _any_of,
    "matches": _matches,
    "similar": _similar,
}
