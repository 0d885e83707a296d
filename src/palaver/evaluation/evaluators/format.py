"""format: the text has the form that was asked for: JSON, so long and no longer, without Markdown, with code."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from palaver.errors import InvalidValue
from palaver.evaluation.matching.json_schemas import check_schema, misfits
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score
from palaver.evaluation.values import found_json

_Count = Annotated[int, Meta(ge=0)] | None
_RULES = "schema max_chars min_chars max_words max_lines markdown code_blocks".split()
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
    """Only those in this language count. By default at least one."""


def _check(parameters: Any, _reach: Reach) -> None:
    if not parameters.json and all(msgspec.structs.asdict(parameters)[rule] is None for rule in _RULES):
        raise InvalidValue(f"Give at least one rule: json, {', '.join(_RULES)}.", pointer="/parameters")
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(title="Format", check=_check)
def format(  # noqa: A001 - the key that people write
    case: Case,
    aim: Aim,
    *,
    json: Annotated[bool, Meta(description="The whole text is JSON.")] = False,
    schema: Annotated[
        dict[str, Any] | bool | None, Meta(description="A JSON Schema (draft 2020-12) that this JSON meets.")
    ] = None,
    allow_fence: Annotated[bool, Meta(description="The JSON may stand in a fenced block.")] = False,
    max_chars: _Count = None,
    min_chars: _Count = None,
    max_words: _Count = None,
    max_lines: _Count = None,
    markdown: Annotated[Literal["none"] | None, Meta(description="none: there is no Markdown in it.")] = None,
    code_blocks: CodeBlocks | None = None,
) -> Score:
    """The text has the form that was asked for; the score is the share of the rules that it keeps."""
    value = _value(case, aim, allow_fence=allow_fence) if json or schema is not None else UNSET
    tests: dict[str, Callable[[], bool] | None] = {
        "json": (lambda: value is not UNSET) if json else None,
        "schema": None if schema is None else lambda: value is not UNSET and not misfits(value, schema),
        "max_chars": None if max_chars is None else lambda: len(aim.text(case)) <= max_chars,
        "min_chars": None if min_chars is None else lambda: len(aim.text(case)) >= min_chars,
        "max_words": None if max_words is None else lambda: len(aim.text(case).split()) <= max_words,
        "max_lines": None if max_lines is None else lambda: len(aim.text(case).splitlines()) <= max_lines,
        "markdown": None if markdown is None else lambda: _MARKDOWN.search(aim.text(case)) is None,
        "code_blocks": None if code_blocks is None else lambda: _has_blocks(aim.text(case), code_blocks),
    }
    kept = {rule: test() for rule, test in tests.items() if test is not None}
    broken = [rule for rule, is_kept in kept.items() if not is_kept]
    return Score(
        not broken,
        (len(kept) - len(broken)) / len(kept),
        reason=f"not kept: {', '.join(broken)}" if broken else "",
        details=kept,
    )


def _value(case: Case, aim: Aim, *, allow_fence: bool) -> Any:
    """The JSON that the whole is: a workflow's value, the text, or the one block that it consists of."""
    raw = aim.raw(case)
    if not isinstance(raw, str):
        return raw
    value = found_json.whole(raw)
    if value is UNSET and allow_fence:
        block = next(iter(found_json.blocks(raw)), None)
        return found_json.whole(block.text) if block is not None and block.is_whole else UNSET
    return value


def _has_blocks(text: str, wanted: CodeBlocks) -> bool:
    language = None if wanted.language is None else wanted.language.casefold()
    count = sum(language is None or one.language.casefold() == language for one in found_json.blocks(text))
    least = wanted.min if wanted.min is not None else 0 if wanted.max is not None else 1
    return count >= least and (wanted.max is None or count <= wanted.max)
