"""Text evaluators: starts_with, ends_with, contains, contains_any, contains_all, regex, format."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.errors import InvalidValue
from palaver.evaluation import json_search
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.json_schema import check_schema, schema_errors
from palaver.evaluation.score import Score, ScoringError
from palaver.evaluation.target import Target

REGEX_TIMEOUT_S = 0.1
"""Some patterns would take years."""
_FLAG_LETTERS = "imsx"


def _compile_regex(pattern: str, flags: str) -> Any:
    import regex as engine

    named = {"i": engine.IGNORECASE, "m": engine.MULTILINE, "s": engine.DOTALL, "x": engine.VERBOSE}
    return engine.compile(pattern, sum(named[letter] for letter in set(flags)))  # It caches compiled patterns.


def _check_regex(parameters: Any, _context: EvaluatorContext) -> None:
    if unknown := sorted(set(parameters.flags) - set(_FLAG_LETTERS)):
        raise InvalidValue(
            f"There is no flag {unknown[0]!r} of a regular expression. Known: {', '.join(_FLAG_LETTERS)}.",
            pointer="/parameters/flags",
        )
    try:
        _compile_regex(parameters.pattern, parameters.flags)
    except Exception as error:  # Mostly its own error, but its parser may raise others.
        raise InvalidValue(f"The pattern is no regular expression: {error}.", pointer="/parameters/pattern") from None


@evaluator(title="Regular expression", check=_check_regex)
def regex(
    case: Case,
    target: Target,
    pattern: Annotated[str, Meta(max_length=10_000, description="The regular expression.")],
    *,
    should_match: Annotated[bool, Meta(description="Must it be found, or must it not?")] = True,
    full: Annotated[bool, Meta(description="Must it match the whole text?")] = False,
    flags: Annotated[str, Meta(max_length=4, description="Any of i, m, s and x.")] = "",
) -> Score:
    """A regular expression is found in the text; or is not, where it should not be."""
    compiled = _compile_regex(pattern, flags if target.case_sensitive else f"{flags}i")
    text = target.text(case)
    try:
        match = (compiled.fullmatch if full else compiled.search)(text, timeout=REGEX_TIMEOUT_S, concurrent=True)
    except TimeoutError:
        raise ScoringError("regex_timeout", f"the pattern took more than {REGEX_TIMEOUT_S} s for this text") from None
    if match is None:
        return Score(passed=not should_match, reason="the pattern does not match")
    return Score(
        passed=should_match,
        reason=f"the pattern matches at character {match.start() + 1}",
        details={"start": match.start(), "end": match.end()},
    )


_MaxCount = Annotated[int, Meta(ge=0)] | None
_FORMAT_RULES = "schema max_chars min_chars max_words max_lines markdown code_blocks".split()
_MARKDOWN = re.compile(
    r"^ {0,3}#{1,6}\s"  # headings
    r"|^ {0,3}(?:```|~~~)|`[^`\n]+`"  # code
    r"|\*\*[^*\s][^*\n]*\*\*|(?<![\w*])\*[^*\s](?:[^*\n]*[^*\s])?\*(?![\w*])"  # bold, italics
    r"|(?<!\w)__[^_\s][^_\n]*__(?!\w)|(?<!\w)_[^_\s](?:[^_\n]*[^_\s])?_(?!\w)"
    r"|^ {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]{1,20}\S"  # lists
    r"|^ {0,3}>[ \t]?\S"  # quotes
    r"|\[[^\]\n]{0,300}\]\([^)\n]{1,2000}\)"  # links, images
    r"|^ {0,3}(?:-{3,}|\*{3,}|_{3,})[ \t]*$"  # rules
    r"|^ {0,3}\|?[ \t]{0,20}:?-{3,}:?[ \t]{0,20}\|",  # tables
    re.MULTILINE,
)


class CodeBlocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many fenced blocks of code there must be."""

    min: Annotated[int, Meta(ge=0)] | None = None
    max: Annotated[int, Meta(ge=0)] | None = None
    language: Annotated[str, Meta(min_length=1)] | None = None
    """Count only blocks in this language. By default at least one is required."""


def _check_format(parameters: Any, _context: EvaluatorContext) -> None:
    if not parameters.json and all(msgspec.structs.asdict(parameters)[rule] is None for rule in _FORMAT_RULES):
        raise InvalidValue(f"Give at least one rule: json, {', '.join(_FORMAT_RULES)}.", pointer="/parameters")
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(title="Format", check=_check_format)
def format(  # noqa: A001 - the key that people write
    case: Case,
    target: Target,
    *,
    json: Annotated[bool, Meta(description="The whole text is JSON.")] = False,
    schema: Annotated[
        dict[str, Any] | bool | None, Meta(description="A JSON Schema (draft 2020-12) that this JSON meets.")
    ] = None,
    allow_fence: Annotated[bool, Meta(description="The JSON may stand in a fenced block.")] = False,
    max_chars: _MaxCount = None,
    min_chars: _MaxCount = None,
    max_words: _MaxCount = None,
    max_lines: _MaxCount = None,
    markdown: Annotated[Literal["none"] | None, Meta(description="none: there is no Markdown in it.")] = None,
    code_blocks: CodeBlocks | None = None,
) -> Score:
    """The text has the form that was asked for; the score is the share of the rules that it keeps."""
    value = _whole_json(case, target, allow_fence=allow_fence) if json or schema is not None else UNSET
    tests: dict[str, Callable[[], bool] | None] = {
        "json": (lambda: value is not UNSET) if json else None,
        "schema": None if schema is None else lambda: value is not UNSET and not schema_errors(value, schema),
        "max_chars": None if max_chars is None else lambda: len(target.text(case)) <= max_chars,
        "min_chars": None if min_chars is None else lambda: len(target.text(case)) >= min_chars,
        "max_words": None if max_words is None else lambda: len(target.text(case).split()) <= max_words,
        "max_lines": None if max_lines is None else lambda: len(target.text(case).splitlines()) <= max_lines,
        "markdown": None if markdown is None else lambda: _MARKDOWN.search(target.text(case)) is None,
        "code_blocks": None if code_blocks is None else lambda: _has_code_blocks(target.text(case), code_blocks),
    }
    results = {rule: test() for rule, test in tests.items() if test is not None}
    broken = [rule for rule, is_kept in results.items() if not is_kept]
    return Score(
        not broken,
        (len(results) - len(broken)) / len(results),
        reason=f"not kept: {', '.join(broken)}" if broken else "",
        details=results,
    )


def _whole_json(case: Case, target: Target, *, allow_fence: bool) -> Any:
    """The JSON that the whole answer is: a workflow's value, the text, or its only code block."""
    raw = target.raw(case)
    if not isinstance(raw, str):
        return raw
    value = json_search.parse_whole(raw)
    if value is UNSET and allow_fence:
        block = next(iter(json_search.code_blocks(raw)), None)
        return json_search.parse_whole(block.text) if block is not None and block.is_whole else UNSET
    return value


def _has_code_blocks(text: str, wanted: CodeBlocks) -> bool:
    language = None if wanted.language is None else wanted.language.casefold()
    count = sum(language is None or one.language.casefold() == language for one in json_search.code_blocks(text))
    least = wanted.min if wanted.min is not None else 0 if wanted.max is not None else 1
    return count >= least and (wanted.max is None or count <= wanted.max)


_ANY_TEXT = "By default what is expected."
Substring = Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description=_ANY_TEXT)]
Substrings = Annotated[
    Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)] | Annotated[str, Meta(min_length=1)] | None,
    Meta(description=f"A list, the JSON text of one, or texts with commas between. {_ANY_TEXT}"),
]


def wanted_text(parameter: str | None, case: Case, target: Target) -> str:
    wanted = parameter if parameter is not None else target.expected_text(case)
    if not wanted:
        raise ScoringError("empty_needle", "what is expected is an empty text, which every text contains")
    return wanted


def wanted_texts(parameter: list[str] | str | None, case: Case, target: Target) -> list[str]:
    """The texts to look for, without duplicates."""
    wanted: Any = parameter if parameter is not None else target.expected(case)
    if isinstance(wanted, str):
        wanted = split_texts(wanted)
    elif parameter is None and not _are_texts(wanted):
        wanted = split_texts(target.expected_text(case))
    if not wanted or not all(wanted):
        raise ScoringError("empty_needle", "what is expected names no text to look for")
    return list(dict.fromkeys(cast("list[str]", wanted)))


def split_texts(text: str) -> list[str]:
    """Split a JSON list of strings, or comma-separated texts."""
    value = json_search.parse_whole(text) if text.lstrip().startswith("[") else None
    if _are_texts(value):
        return cast("list[str]", value)
    return [part for piece in text.split(",") if (part := piece.strip())]


def check_substrings(parameters: Any, _context: EvaluatorContext) -> None:
    """Raise InvalidValue if there is nothing to look for."""
    substrings = parameters.substrings
    if isinstance(substrings, str) and (not (wanted := split_texts(substrings)) or not all(wanted)):
        raise InvalidValue(
            "/parameters/substrings names no text to look for: every text contains the empty one.",
            pointer="/parameters/substrings",
        )


def contained_texts(wanted: Sequence[str], text: str, target: Target) -> list[str]:
    folded = target.fold_case(text)
    return [one for one in wanted if target.fold_case(one) in folded]


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


@evaluator(title="Starts with")
async def starts_with(case: Case, target: Target, prefix: Substring = None) -> Score:
    """The text begins with a prefix, by default with what is expected."""
    wanted = wanted_text(prefix, case, target)
    if target.fold_case(target.text(case)).startswith(target.fold_case(wanted)):
        return Score(passed=True)
    return Score(passed=False, reason="the text does not begin with it")


@evaluator(title="Ends with")
async def ends_with(case: Case, target: Target, suffix: Substring = None) -> Score:
    """The text ends with a suffix, by default with what is expected."""
    wanted = wanted_text(suffix, case, target)
    if target.fold_case(target.text(case)).endswith(target.fold_case(wanted)):
        return Score(passed=True)
    return Score(passed=False, reason="the text does not end with it")


@evaluator(title="Contains")
async def contains(case: Case, target: Target, substring: Substring = None) -> Score:
    """The text contains a substring, by default what is expected."""
    wanted = wanted_text(substring, case, target)
    if target.fold_case(wanted) in target.fold_case(target.text(case)):
        return Score(passed=True)
    return Score(passed=False, reason="it is not in the text")


@evaluator(title="Contains any", check=check_substrings)
async def contains_any(case: Case, target: Target, substrings: Substrings = None) -> Score:
    """The text contains at least one of several substrings; the score is the share that it contains."""
    wanted = wanted_texts(substrings, case, target)
    contained = contained_texts(wanted, target.text(case), target)
    reason = "" if contained else "none of them is in the text"
    return Score(bool(contained), len(contained) / len(wanted), reason=reason, details={"found": contained})


@evaluator(title="Contains all", check=check_substrings)
async def contains_all(case: Case, target: Target, substrings: Substrings = None) -> Score:
    """The text contains each of several substrings; the score is the share that it contains."""
    wanted = wanted_texts(substrings, case, target)
    contained = contained_texts(wanted, target.text(case), target)
    missing = [one for one in wanted if one not in contained]
    reason = f"not in the text: {', '.join(map(repr, missing))}" if missing else ""
    return Score(
        not missing, len(contained) / len(wanted), reason=reason, details={"found": contained, "missing": missing}
    )
