"""Rules: what is removed from a record before it is stored, and how (contract: traces, 10).

`[[redact]]` tables of palaver.toml and `@chat(redact=[…])` are read here. What is always removed is no rule of theirs:
nothing that they say takes it away.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from palaver.errors import SettingsError
from palaver.traces.model import Span

DetectorName = Literal["secrets", "email", "phone", "card", "iban", "ip"]

Action = Literal["mask", "hash", "drop"]
RuleScope = Literal["traces", "runs", "testsets"]
PathMatcher: TypeAlias = Callable[[str], bool]

FIXED_FIELDS = frozenset(
    "trace_id span_id parent_id project kind status start duration_ms usage cost cost_source finish conventions dropped"
    " notes redactions run_id".split()
)
"""Fields that a record is found by, or that hold nothing of what was said."""
REDACTABLE_FIELDS = tuple(name for name in Span.__struct_fields__ if name not in FIXED_FIELDS)
_MAX_STARS = 8


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of them: by where it stands, or by how it looks."""

    path: str | None = None
    """Names joined by dots; `*` stands for one or more names or indexes: `messages_in.*.text`."""
    detector: tuple[DetectorName, ...] = ()
    """Looked for in every text of the record."""
    action: Action = "mask"
    scope: tuple[RuleScope, ...] = ("traces",)


def parse_rules(tables: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """The rules that these tables declare, or a SettingsError that says which of them is wrong."""
    return tuple(_parse_rule(table, number) for number, table in enumerate(tables, start=1))


def _parse_rule(table: Mapping[str, Any], number: int) -> Rule:
    given = dict(table)
    for listed in ("detector", "scope"):  # One needs no list.
        if isinstance(given.get(listed), str):
            given[listed] = [given[listed]]
    try:
        rule = msgspec.convert(given, Rule)
    except msgspec.ValidationError as error:
        raise _rule_error(number, f"{error}. {_choices_hint(given)}".strip()) from None
    if (rule.path is None) == (not rule.detector):
        raise _rule_error(number, "it needs a path or a detector, and not both.")
    if rule.path is not None:
        _check_path(rule.path, number)
    if not rule.scope:
        raise _rule_error(number, f"its scope is empty. Known: {', '.join(get_args(RuleScope))}.")
    return rule


def _choices_hint(given: Mapping[str, Any]) -> str:
    """The words that may stand where one is wrong."""
    choices = {"detector": get_args(DetectorName), "action": get_args(Action), "scope": get_args(RuleScope)}
    for field, words in choices.items():
        said: Any = given.get(field, [])
        listed = cast("list[Any]", said if isinstance(said, list) else [said])
        if any(word not in words for word in listed):
            return f"Known for {field}: {', '.join(words)}."
    return ""


def _check_path(path: str, number: int) -> None:
    root = path.partition(".")[0]
    if not all(path.split(".")) or path.strip() != path:
        raise _rule_error(number, f"the path {path!r} has an empty name in it.")
    if root in FIXED_FIELDS:
        raise _rule_error(
            number, f"{root} cannot be removed: a record is found by it, or nothing of what was said is in it."
        )
    if root != "*" and root not in REDACTABLE_FIELDS:
        raise _rule_error(number, f"no record has a field {root!r}. Known: {', '.join(REDACTABLE_FIELDS)}.")
    if path == "*" or path.count("*") > _MAX_STARS:
        raise _rule_error(number, f"the path {path!r} names too much, or has more than {_MAX_STARS} stars.")


def _rule_error(number: int, what: str) -> SettingsError:
    return SettingsError(f"[[redact]] {number}: {what}")


def compile_path(pattern: str) -> PathMatcher:
    """Does a path match? Costs one pass over the path, however many stars there are."""
    first, *rest = pattern.split("*")
    if not rest:
        return lambda path: path == pattern

    def matches(path: str) -> bool:
        at = len(first)
        if not path.startswith(first):
            return False
        for piece in rest[:-1]:
            found = path.find(piece, at + 1)
            if found < 0:
                return False
            at = found + len(piece)
        return len(path) - len(rest[-1]) > at and path.endswith(rest[-1])

    return matches
