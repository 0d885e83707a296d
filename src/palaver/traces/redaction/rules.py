"""Redaction rules: what is removed from a record before it is stored, and how.

They are declared in `[[redact]]` tables of palaver.toml and in `@chat(redact=[…])`. Secrets are removed independently
of any rule.
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
"""Fields that identify a record or hold no content."""
REDACTABLE_FIELDS = tuple(name for name in Span.__struct_fields__ if name not in FIXED_FIELDS)
_MAX_STARS = 8


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str | None = None
    """Names joined by dots; `*` matches one or more names or indexes: `messages_in.*.text`."""
    detector: tuple[DetectorName, ...] = ()
    """Applied to every text of the record."""
    action: Action = "mask"
    scope: tuple[RuleScope, ...] = ("traces",)


def parse_rules(tables: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Parse rule tables. Raises SettingsError that names the wrong one."""
    return tuple(_parse_rule(table, number) for number, table in enumerate(tables, start=1))


def _parse_rule(table: Mapping[str, Any], number: int) -> Rule:
    fields = dict(table)
    for name in ("detector", "scope"):  # A single value needs no list.
        if isinstance(fields.get(name), str):
            fields[name] = [fields[name]]
    try:
        rule = msgspec.convert(fields, Rule)
    except msgspec.ValidationError as error:
        raise _rule_error(number, f"{error}. {_choices_hint(fields)}".strip()) from None
    if (rule.path is None) == (not rule.detector):
        raise _rule_error(number, "exactly one of 'path' and 'detector' is required.")
    if rule.path is not None:
        _check_path(rule.path, number)
    if not rule.scope:
        raise _rule_error(number, f"'scope' must not be empty. Available: {', '.join(get_args(RuleScope))}.")
    return rule


def _choices_hint(table: Mapping[str, Any]) -> str:
    """Return the allowed values of the first field that has an invalid one."""
    choices = {"detector": get_args(DetectorName), "action": get_args(Action), "scope": get_args(RuleScope)}
    for field, allowed in choices.items():
        value: Any = table.get(field, [])
        values = cast("list[Any]", value if isinstance(value, list) else [value])
        if any(item not in allowed for item in values):
            return f"Allowed values for {field!r}: {', '.join(allowed)}."
    return ""


def _check_path(path: str, number: int) -> None:
    root = path.partition(".")[0]
    if not all(path.split(".")) or path.strip() != path:
        raise _rule_error(number, f"the path {path!r} contains an empty name or surrounding spaces.")
    if root in FIXED_FIELDS:
        raise _rule_error(number, f"{root!r} cannot be redacted: it identifies the record or holds no content.")
    if root != "*" and root not in REDACTABLE_FIELDS:
        raise _rule_error(number, f"unknown field {root!r}. Available: {', '.join(REDACTABLE_FIELDS)}.")
    if path == "*" or path.count("*") > _MAX_STARS:
        raise _rule_error(number, f"the path {path!r} is too broad or has more than {_MAX_STARS} wildcards.")


def _rule_error(number: int, problem: str) -> SettingsError:
    return SettingsError(f"[[redact]] rule {number}: {problem}")


def compile_path(pattern: str) -> PathMatcher:
    """Compile a path pattern. Matching takes one pass over the path, however many stars there are."""
    first, *pieces = pattern.split("*")
    if not pieces:
        return lambda path: path == pattern

    def matches(path: str) -> bool:
        position = len(first)
        if not path.startswith(first):
            return False
        for piece in pieces[:-1]:
            index = path.find(piece, position + 1)
            if index < 0:
                return False
            position = index + len(piece)
        return len(path) - len(pieces[-1]) > position and path.endswith(pieces[-1])

    return matches
