"""Text evaluators: equality, substrings, patterns, formats and similarity."""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.core.json import is_list, json_equal
from palaver.core.messages import Message, Refusal
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.case import Case, read_messages
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.json_schema import check_schema, schema_errors
from palaver.evaluation.json_values import scalar_text
from palaver.evaluation.score import Score, ScoringError
from palaver.evaluation.target import Target

REGEX_TIMEOUT_S = 0.1
"""Some patterns backtrack for years."""
_FLAG_LETTERS = "imsx"


def _compile_regex(pattern: str, flags: str) -> Any:
    import regex as engine

    flag_values = {"i": engine.IGNORECASE, "m": engine.MULTILINE, "s": engine.DOTALL, "x": engine.VERBOSE}
    return engine.compile(pattern, sum(flag_values[letter] for letter in set(flags)))  # `regex` caches patterns.


def _check_regex(parameters: Any, _context: EvaluatorContext) -> None:
    if unknown := sorted(set(parameters.flags) - set(_FLAG_LETTERS)):
        raise InvalidValue(
            f"unknown flag {unknown[0]!r}. Available: {', '.join(_FLAG_LETTERS)}.",
            pointer="/parameters/flags",
        )
    try:
        _compile_regex(parameters.pattern, parameters.flags)
    except Exception as error:  # Mostly `regex.error`, but the parser may raise others.
        raise InvalidValue(f"invalid regular expression: {error}.", pointer="/parameters/pattern") from None


@evaluator(title="Regular expression", check=_check_regex)
def regex(
    case: Case,
    target: Target,
    pattern: Annotated[str, Meta(max_length=10_000, description="The regular expression.")],
    *,
    should_match: Annotated[bool, Meta(description="Whether the pattern must match.")] = True,
    full: Annotated[bool, Meta(description="Require the pattern to match the whole text.")] = False,
    flags: Annotated[
        str, Meta(max_length=4, description="Flags of the regular expression: any of i, m, s and x.")
    ] = "",
) -> Score:
    """The text matches a regular expression. If `should_match` is false, it must not match."""
    compiled = _compile_regex(pattern, flags if target.case_sensitive else f"{flags}i")
    text = target.text(case)
    try:
        match = (compiled.fullmatch if full else compiled.search)(text, timeout=REGEX_TIMEOUT_S, concurrent=True)
    except TimeoutError:
        raise ScoringError("regex_timeout", f"matching the pattern took longer than {REGEX_TIMEOUT_S} s") from None
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
    """Required number of fenced code blocks (default: at least one)."""

    min: Annotated[int, Meta(ge=0)] | None = None
    max: Annotated[int, Meta(ge=0)] | None = None
    language: Annotated[str, Meta(min_length=1)] | None = None
    """Count only blocks in this language."""


def _check_format(parameters: Any, _context: EvaluatorContext) -> None:
    if not parameters.json and all(msgspec.structs.asdict(parameters)[rule] is None for rule in _FORMAT_RULES):
        raise InvalidValue(f"at least one rule is required: json, {', '.join(_FORMAT_RULES)}.", pointer="/parameters")
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(title="Format", check=_check_format)
def format(  # noqa: A001 - the key that people write
    case: Case,
    target: Target,
    *,
    json: Annotated[bool, Meta(description="Require the whole text to be JSON.")] = False,
    schema: Annotated[
        dict[str, Any] | bool | None, Meta(description="JSON Schema (draft 2020-12) that the JSON must match.")
    ] = None,
    allow_fence: Annotated[bool, Meta(description="Allow the JSON to be in a fenced code block.")] = False,
    max_chars: _MaxCount = None,
    min_chars: _MaxCount = None,
    max_words: _MaxCount = None,
    max_lines: _MaxCount = None,
    markdown: Annotated[Literal["none"] | None, Meta(description="Set to none to forbid Markdown.")] = None,
    code_blocks: CodeBlocks | None = None,
) -> Score:
    """The text has the required format. The score is the share of rules that it meets."""
    value = _answer_json(case, target, allow_fence=allow_fence) if json or schema is not None else UNSET
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
        reason=f"rules not met: {', '.join(broken)}" if broken else "",
        details=results,
    )


def _answer_json(case: Case, target: Target, *, allow_fence: bool) -> Any:
    """Return the JSON that the whole answer is: a workflow's value, the text, or its only code block; else UNSET."""
    raw = target.raw(case)
    if not isinstance(raw, str):
        return raw
    value = json_values.parse_json(raw)
    if value is UNSET and allow_fence:
        block = next(iter(json_values.code_blocks(raw)), None)
        return json_values.parse_json(block.text) if block is not None and block.is_whole else UNSET
    return value


def _has_code_blocks(text: str, expected: CodeBlocks) -> bool:
    language = None if expected.language is None else expected.language.casefold()
    count = sum(language is None or block.language.casefold() == language for block in json_values.code_blocks(text))
    min_count = expected.min if expected.min is not None else 0 if expected.max is not None else 1
    return count >= min_count and (expected.max is None or count <= expected.max)


_DEFAULT_NOTE = "Default: the expected answer."
Substring = Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description=_DEFAULT_NOTE)]
Substrings = Annotated[
    Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)] | Annotated[str, Meta(min_length=1)] | None,
    Meta(description=f"A list, a JSON list as a string, or comma-separated strings. {_DEFAULT_NOTE}"),
]


def expected_substring(parameter: str | None, case: Case, target: Target) -> str:
    expected = parameter if parameter is not None else target.expected_text(case)
    if not expected:
        raise ScoringError("empty_needle", "the expected text is empty")
    return expected


def expected_substrings(parameter: list[str] | str | None, case: Case, target: Target) -> list[str]:
    """Return the strings to look for, without duplicates. Raises ScoringError if there are none."""
    expected: Any = parameter if parameter is not None else target.expected(case)
    if isinstance(expected, str):
        expected = split_texts(expected)
    elif parameter is None:
        texts = [scalar_text(item) for item in expected] if is_list(expected) else [None]
        expected = split_texts(target.expected_text(case)) if None in texts else texts
    if not expected or not all(expected):
        raise ScoringError("empty_needle", "the expected answer contains no text to search for")
    return list(dict.fromkeys(cast("list[str]", expected)))


def split_texts(text: str) -> list[str]:
    """Split a JSON list of strings, or comma-separated strings."""
    value = json_values.parse_json(text) if text.lstrip().startswith("[") else None
    if _are_texts(value):
        return cast("list[str]", value)
    return [part for piece in text.split(",") if (part := piece.strip())]


def check_substrings(parameters: Any, _context: EvaluatorContext) -> None:
    """Raise InvalidValue if there is nothing to look for."""
    substrings = parameters.substrings
    if isinstance(substrings, str) and (not (expected := split_texts(substrings)) or not all(expected)):
        raise InvalidValue(
            "substrings must contain at least one non-empty string.",
            pointer="/parameters/substrings",
        )


def contained_texts(expected: Sequence[str], text: str, target: Target) -> list[str]:
    folded = target.fold_case(text)
    return [substring for substring in expected if target.fold_case(substring) in folded]


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


@evaluator(title="Starts with")
async def starts_with(case: Case, target: Target, prefix: Substring = None) -> Score:
    """The text starts with a prefix, by default the expected answer."""
    expected = expected_substring(prefix, case, target)
    if target.fold_case(target.text(case)).startswith(target.fold_case(expected)):
        return Score(passed=True)
    return Score(passed=False, reason="the text does not start with the prefix")


@evaluator(title="Ends with")
async def ends_with(case: Case, target: Target, suffix: Substring = None) -> Score:
    """The text ends with a suffix, by default the expected answer."""
    expected = expected_substring(suffix, case, target)
    if target.fold_case(target.text(case)).endswith(target.fold_case(expected)):
        return Score(passed=True)
    return Score(passed=False, reason="the text does not end with the suffix")


@evaluator(title="Contains")
async def contains(case: Case, target: Target, substring: Substring = None) -> Score:
    """The text contains a substring, by default the expected answer."""
    expected = expected_substring(substring, case, target)
    if target.fold_case(expected) in target.fold_case(target.text(case)):
        return Score(passed=True)
    return Score(passed=False, reason="expected text not found")


@evaluator(title="Contains any", check=check_substrings)
async def contains_any(case: Case, target: Target, substrings: Substrings = None) -> Score:
    """The text contains at least one of several substrings. The score is the share found."""
    expected = expected_substrings(substrings, case, target)
    contained = contained_texts(expected, target.text(case), target)
    reason = "" if contained else "none of the expected strings found"
    return Score(bool(contained), len(contained) / len(expected), reason=reason, details={"found": contained})


@evaluator(title="Contains all", check=check_substrings)
async def contains_all(case: Case, target: Target, substrings: Substrings = None) -> Score:
    """The text contains all of several substrings. The score is the share found."""
    expected = expected_substrings(substrings, case, target)
    contained = contained_texts(expected, target.text(case), target)
    missing = [substring for substring in expected if substring not in contained]
    reason = f"not found: {', '.join(map(repr, missing))}" if missing else ""
    return Score(
        not missing, len(contained) / len(expected), reason=reason, details={"found": contained, "missing": missing}
    )


_SPACE = re.compile(r"\s+")


@evaluator(title="Exact match", needs={"expected"})
async def exact_match(
    case: Case,
    target: Target,
    *,
    trim: Annotated[bool, Meta(description="Ignore leading and trailing whitespace.")] = False,
    collapse_space: Annotated[bool, Meta(description="Collapse whitespace to single spaces.")] = False,
    tolerance: Annotated[float, Meta(ge=0, description="Maximum difference between numbers.")] = 0,
) -> Score:
    """The answer equals the expected answer: the same text, messages or JSON."""
    expected = target.expected(case)

    def normalize(text: str) -> str:
        text = _SPACE.sub(" ", text) if collapse_space else text
        return target.fold_case(text.strip() if trim else text)

    if isinstance(expected, str):
        return _compare_texts(normalize(target.text(case)), normalize(expected))
    actual, expected_text = target.raw(case), scalar_text(expected)
    if isinstance(actual, str) and expected_text is not None and normalize(actual) == normalize(expected_text):
        return Score(passed=True)
    if case.flags.is_chat and target.target == "text" and (messages := read_messages(expected)) is not None:
        return _compare_messages(case, messages, normalize, only_last=isinstance(expected, dict), tolerance=tolerance)
    return _compare_values(case, target, expected, tolerance)


def _compare_texts(actual: str, expected: str) -> Score:
    if actual == expected:
        return Score(passed=True)
    pairs = enumerate(zip(actual, expected, strict=False))
    index = next((position for position, (left, right) in pairs if left != right), min(len(actual), len(expected)))
    return Score(passed=False, reason=f"the text differs from the expected text at character {index + 1}")


def _compare_messages(
    case: Case, expected: Sequence[Message], normalize: Callable[[str], str], *, only_last: bool, tolerance: float
) -> Score:
    actual: Sequence[Message] = case.messages
    if only_last:
        actual = [message for message in actual if message.role == "assistant"][-1:]
    actual_gists, expected_gists = _message_gists(actual, normalize), _message_gists(expected, normalize)
    for index, (actual_gist, expected_gist) in enumerate(zip(actual_gists, expected_gists, strict=False)):
        for field, value in expected_gist.items():
            if not json_equal(actual_gist[field], value, tolerance=tolerance):
                return Score(passed=False, reason=f"message {index + 1} differs in: {field}")
    if len(actual_gists) != len(expected_gists):
        return Score(passed=False, reason=f"messages: {len(actual_gists)}, expected {len(expected_gists)}")
    return Score(passed=True)


def _message_gists(messages: Sequence[Message], normalize: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return the parts of each message that are compared; messages without any of them are left out."""
    gists = [
        {
            "role": message.role,
            "text": normalize(message.text),
            "refusal": normalize("".join(part.text for part in message.parts if isinstance(part, Refusal))),
            "calls": [[call.name, call.parsed] for call in message.tool_calls],
            "results": [_parse_output(result.output) for result in message.tool_results],
        }
        for message in messages
    ]
    return [gist for gist in gists if gist["text"] or gist["refusal"] or gist["calls"] or gist["results"]]


def _parse_output(output: Any) -> Any:
    value = json_values.parse_json(output) if isinstance(output, str) else UNSET
    return output if value is UNSET else value


def _compare_values(case: Case, target: Target, expected: Any, tolerance: float) -> Score:
    actual = target.raw(case)
    if isinstance(actual, str):
        actual = json_values.parse_json(actual)
    if actual is UNSET:
        return Score(passed=False, reason="the answer is not JSON")
    if json_equal(target.fold_value(actual), target.fold_value(expected), tolerance=tolerance):
        return Score(passed=True)
    return Score(passed=False, reason="the answer differs from the expected answer")


@evaluator(title="Similarity", needs={"expected"}, threshold=0.5)
def similarity(case: Case, target: Target) -> float:
    """The share of characters that the text and the expected text have in common, in order (indel ratio)."""
    from rapidfuzz.distance import Indel

    expected = target.fold_case(target.expected_text(case))
    return Indel.normalized_similarity(target.fold_case(target.text(case)), expected)


@evaluator(title="Levenshtein similarity", needs={"expected"}, threshold=0.5)
def levenshtein(case: Case, target: Target) -> float:
    """Similarity by edit distance: 1 - (distance from the expected text / length of the longer text)."""
    from rapidfuzz.distance import Levenshtein

    expected = target.fold_case(target.expected_text(case))
    return Levenshtein.normalized_similarity(target.fold_case(target.text(case)), expected)


NGRAM_LENGTH = 3


def _check_semantic_similarity(parameters: Any, context: EvaluatorContext) -> None:
    context.check_model(parameters.model, "/parameters/model")


@evaluator(title="Semantic similarity", needs={"expected"}, threshold=0.8, check=_check_semantic_similarity)
async def semantic_similarity(
    case: Case,
    target: Target,
    context: EvaluatorContext,
    model: Annotated[
        str, Meta(min_length=1, description="Embedding model: ngram, local:NAME or provider/model.")
    ] = "ngram",
) -> float:
    """Cosine similarity of the embeddings of the text and the expected text. Negative values count as 0."""
    expected, text = target.fold_case(target.expected_text(case)), target.fold_case(target.text(case))
    if model == "ngram":
        return await asyncio.get_running_loop().run_in_executor(context.executor, ngram_similarity, text, expected)
    if text == expected or not text.strip() or not expected.strip():  # Empty text has no vector.
        return 1.0 if text == expected else 0.0
    text_vector, expected_vector = await context.embed([text, expected], model=model)
    return max(0.0, _cosine(dict(enumerate(text_vector)), dict(enumerate(expected_vector))))


def ngram_similarity(first: str, second: str) -> float:
    """Return the cosine of character trigram counts; 1 for equal texts."""
    return 1.0 if first == second else _cosine(_ngrams(first), _ngrams(second))


def _ngrams(text: str) -> Mapping[str, float]:
    # Padded, so that a text of one character has trigrams.
    padded = f" {text} " if text else ""
    return Counter(padded[start : start + NGRAM_LENGTH] for start in range(max(0, len(padded) - NGRAM_LENGTH + 1)))


def _cosine(a: Mapping[Any, float], b: Mapping[Any, float]) -> float:
    lengths = _vector_length(a.values()) * _vector_length(b.values())
    product = sum(weight * b.get(key, 0.0) for key, weight in a.items())
    return min(1.0, product / lengths) if lengths else 0.0


def _vector_length(weights: Iterable[float]) -> float:
    return math.sqrt(sum(weight * weight for weight in weights))
