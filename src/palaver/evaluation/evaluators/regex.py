"""regex: a regular expression is found in the text, or must not be."""

from typing import Annotated, Any

from msgspec import Meta

from palaver.errors import InvalidValue
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Unscored

SECONDS = 0.1
"""What one text may take: some patterns would go on for years."""
_LETTERS = "imsx"


def _compiled(pattern: str, flags: str) -> Any:
    import regex as engine

    named = {"i": engine.IGNORECASE, "m": engine.MULTILINE, "s": engine.DOTALL, "x": engine.VERBOSE}
    return engine.compile(pattern, sum(named[letter] for letter in set(flags)))  # It keeps what it compiled before.


def _check(parameters: Any, _reach: Reach) -> None:
    if unknown := sorted(set(parameters.flags) - set(_LETTERS)):
        raise InvalidValue(
            f"There is no flag {unknown[0]!r} of a regular expression. Known: {', '.join(_LETTERS)}.",
            pointer="/parameters/flags",
        )
    try:
        _compiled(parameters.pattern, parameters.flags)
    except Exception as error:  # Its own error mostly, and what its parser comes upon.
        raise InvalidValue(f"The pattern is no regular expression: {error}.", pointer="/parameters/pattern") from None


@evaluator(title="Regular expression", check=_check)
def regex(
    case: Case,
    aim: Aim,
    pattern: Annotated[str, Meta(max_length=10_000, description="The regular expression.")],
    *,
    should_match: Annotated[bool, Meta(description="Must it be found, or must it not?")] = True,
    full: Annotated[bool, Meta(description="Must it match the whole text?")] = False,
    flags: Annotated[str, Meta(max_length=4, description="Any of i, m, s and x.")] = "",
) -> Score:
    """A regular expression is found in the text; or is not, where it should not be."""
    compiled = _compiled(pattern, flags if aim.case_sensitive else f"{flags}i")
    text = aim.text(case)
    try:
        match = (compiled.fullmatch if full else compiled.search)(text, timeout=SECONDS, concurrent=True)
    except TimeoutError:
        raise Unscored("regex_timeout", f"the pattern took more than {SECONDS} s for this text") from None
    if match is None:
        return Score(passed=not should_match, reason="the pattern does not match")
    return Score(
        passed=should_match,
        reason=f"the pattern matches at character {match.start() + 1}",
        details={"start": match.start(), "end": match.end()},
    )
