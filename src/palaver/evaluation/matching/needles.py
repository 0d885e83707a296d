"""Needles: what is looked for in a text. Given as a parameter, or else what the row expects."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

from msgspec import Meta

from palaver.errors import InvalidValue
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Unscored
from palaver.evaluation.values import found_json

_ANY_TEXT = "By default what is expected."
Needle = Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description=_ANY_TEXT)]
Needles = Annotated[
    Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)] | Annotated[str, Meta(min_length=1)] | None,
    Meta(description=f"A list, the JSON text of one, or texts with commas between. {_ANY_TEXT}"),
]


def needle(given: str | None, case: Case, aim: Aim) -> str:
    """The one text to look for."""
    wanted = given if given is not None else aim.expected_text(case)
    if not wanted:
        raise Unscored("empty_needle", "what is expected is an empty text, which every text contains")
    return wanted


def needles(given: list[str] | str | None, case: Case, aim: Aim) -> list[str]:
    """The texts to look for, each once."""
    wanted: Any = given if given is not None else aim.expected(case)
    if isinstance(wanted, str):
        wanted = listed(wanted)
    elif given is None and not _are_texts(wanted):
        wanted = listed(aim.expected_text(case))
    if not wanted or not all(wanted):
        raise Unscored("empty_needle", "what is expected names no text to look for")
    return list(dict.fromkeys(cast("list[str]", wanted)))


def listed(text: str) -> list[str]:
    """The texts that one text lists: JSON's list of strings, or with commas between."""
    value = found_json.whole(text) if text.lstrip().startswith("[") else None
    if _are_texts(value):
        return cast("list[str]", value)
    return [part for piece in text.split(",") if (part := piece.strip())]


def check_needles(parameters: Any, _reach: Reach) -> None:
    """Refuse what lists nothing to look for."""
    given = parameters.substrings
    if isinstance(given, str) and (not (wanted := listed(given)) or not all(wanted)):
        raise InvalidValue(
            "/parameters/substrings names no text to look for: every text contains the empty one.",
            pointer="/parameters/substrings",
        )


def found_of(wanted: Sequence[str], text: str, aim: Aim) -> list[str]:
    """Which of them are in the text."""
    folded = aim.folded(text)
    return [one for one in wanted if aim.folded(one) in folded]


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))
