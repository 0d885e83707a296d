"""What a row expects of an answer: `{"code"?, "contains"?, "absent"?, "edit"?, "span"?}`, each key one check."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from palaver import Case, Score, Skip
from palaver_jobchat.evaluators.suggested_code import SuggestedCode, suggested_code
from palaver_jobchat.rules.outside_untouched import outside_untouched

Needles = str | list[str]


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mistyped key is an error, not an expectation that always holds."""

    edit: bool | UnsetType = UNSET
    """Whether the job is changed."""
    code: str | UnsetType = UNSET
    """The whole suggested code; where code stands in the text, one of its blocks."""
    contains: Needles | UnsetType = UNSET
    """Texts that stand in the changed job or, where it is not changed, in the answer."""
    absent: Needles | UnsetType = UNSET
    """Texts that do not."""
    span: tuple[int, int] | UnsetType = UNSET
    """The first and last line of the old job that may be changed."""


class Check(msgspec.Struct, frozen=True):
    """One expectation, and what is wrong where it does not hold."""

    key: str
    fault: str | None = None


def score_expected(case: Case) -> Score:
    """The share of what a row expects that holds; passed where all of it does."""
    found = list(checks(parse_expected(case.expected), suggested_code(case)))
    if not found:
        raise Skip("no_expected", "the row expects nothing")
    faults = [check.fault for check in found if check.fault is not None]
    return Score(
        passed=not faults,
        score=1 - len(faults) / len(found),
        reason=" ".join(faults),
        details={"checks": {check.key: check.fault is None for check in found}},
    )


def parse_expected(value: Any) -> Expected:
    """What is expected; a ValueError says why it cannot be read."""
    try:
        return msgspec.convert(value, Expected)
    except msgspec.ValidationError as error:
        raise ValueError(f"The column `expected` cannot be used: {error}.") from error


def span(value: Any) -> tuple[int, int] | None:
    """The lines that may be changed, if a row says that."""
    if not isinstance(value, dict) or "span" not in value:
        return None
    given = parse_expected({"span": cast("dict[str, Any]", value)["span"]}).span
    return None if given is UNSET else given


def checks(expected: Expected, said: SuggestedCode) -> Iterator[Check]:
    """A check for every key that is given."""
    text = said.text if said.new is None else said.new
    if expected.edit is not UNSET:
        yield Check("edit", _edit(expected.edit, said))
    if expected.code is not UNSET:
        yield Check("code", _code(expected.code, said))
    if expected.contains is not UNSET:
        missing = [needle for needle in _all(expected.contains) if needle not in text]
        yield Check("contains", f"This is missing: {_listed(missing)}." if missing else None)
    if expected.absent is not UNSET:
        found = [needle for needle in _all(expected.absent) if needle in text]
        yield Check("absent", f"This should not be there: {_listed(found)}." if found else None)
    if expected.span is not UNSET:
        findings = outside_untouched(said.new, old=said.old, span=expected.span) if said.new is not None else ()
        yield Check("span", f"Line {findings[0].line}: {findings[0].message}" if findings else None)


def _edit(expected: bool, said: SuggestedCode) -> str | None:  # noqa: FBT001 (it is what is expected)
    if expected == (said.new is not None):
        return None
    return "The job was to be changed, and is not." if expected else "The job is changed, and was not to be."


def _code(expected: str, said: SuggestedCode) -> str | None:
    if said.new is not None:
        same = said.new == expected
        lines = zip(said.new.splitlines(keepends=True), expected.splitlines(keepends=True), strict=False)
        line = next((place for place, (one, other) in enumerate(lines, 1) if one != other), None)
        where = f" from line {line} on" if line is not None else " at its end"
        return None if same else f"The code is another{where}."
    # Of a block in a text nobody knows how its last line ended.
    if any(block.code.strip("\r\n") == expected.strip("\r\n") for block in said.blocks):
        return None
    return "No such code is suggested." if said.blocks else "No code is suggested."


def _all(needles: Needles) -> list[str]:
    return [needles] if isinstance(needles, str) else needles


def _listed(texts: list[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)
