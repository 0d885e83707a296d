"""Rules: what is removed from a record before it is stored, and how (contract: traces, 10).

`[[redact]]` tables of palaver.toml and `@chat(redact=[…])` are read here. What is always removed is no rule of theirs:
nothing that they say takes it away.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from palaver.errors import SettingsError
from palaver.traces.record import Span
from palaver.traces.redaction.detectors import Name

Action = Literal["mask", "hash", "drop"]
Scope = Literal["traces", "runs", "testsets"]
Matches: TypeAlias = Callable[[str], bool]

FIXED = frozenset(
    "trace_id span_id parent_id project kind status start duration_ms usage cost cost_source finish conventions dropped"
    " notes redactions run_id".split()
)
"""Fields that a record is found by, or that hold nothing of what was said."""
FIELDS = tuple(name for name in Span.__struct_fields__ if name not in FIXED)
_MOST_STARS = 8


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of them: by where it stands, or by how it looks."""

    path: str | None = None
    """Names joined by dots; `*` stands for one or more names or indexes: `messages_in.*.text`."""
    detector: tuple[Name, ...] = ()
    """Looked for in every text of the record."""
    action: Action = "mask"
    scope: tuple[Scope, ...] = ("traces",)


def rules_of(tables: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """The rules that these tables declare, or a SettingsError that says which of them is wrong."""
    return tuple(_rule(table, number) for number, table in enumerate(tables, start=1))


def _rule(table: Mapping[str, Any], number: int) -> Rule:
    given = dict(table)
    for listed in ("detector", "scope"):  # One needs no list.
        if isinstance(given.get(listed), str):
            given[listed] = [given[listed]]
    try:
        rule = msgspec.convert(given, Rule)
    except msgspec.ValidationError as error:
        raise _wrong(number, f"{error}. {_known(given)}".strip()) from None
    if (rule.path is None) == (not rule.detector):
        raise _wrong(number, "it needs a path or a detector, and not both.")
    if rule.path is not None:
        _check_path(rule.path, number)
    if not rule.scope:
        raise _wrong(number, f"its scope is empty. Known: {', '.join(get_args(Scope))}.")
    return rule


def _known(given: Mapping[str, Any]) -> str:
    """The words that may stand where one is wrong."""
    choices = {"detector": get_args(Name), "action": get_args(Action), "scope": get_args(Scope)}
    for field, words in choices.items():
        said: Any = given.get(field, [])
        listed = cast("list[Any]", said if isinstance(said, list) else [said])
        if any(word not in words for word in listed):
            return f"Known for {field}: {', '.join(words)}."
    return ""


def _check_path(path: str, number: int) -> None:
    root = path.partition(".")[0]
    if not all(path.split(".")) or path.strip() != path:
        raise _wrong(number, f"the path {path!r} has an empty name in it.")
    if root in FIXED:
        raise _wrong(
            number, f"{root} cannot be removed: a record is found by it, or nothing of what was said is in it."
        )
    if root != "*" and root not in FIELDS:
        raise _wrong(number, f"no record has a field {root!r}. Known: {', '.join(FIELDS)}.")
    if path == "*" or path.count("*") > _MOST_STARS:
        raise _wrong(number, f"the path {path!r} names too much, or has more than {_MOST_STARS} stars.")


def _wrong(number: int, what: str) -> SettingsError:
    return SettingsError(f"[[redact]] {number}: {what}")


def matcher(pattern: str) -> Matches:
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
