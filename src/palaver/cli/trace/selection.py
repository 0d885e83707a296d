"""Options that select traces, and their conversion to a query or a trace id."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click
import msgspec

from palaver.cli.options import CommandT
from palaver.core import json
from palaver.errors import NotFound, RequestError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from palaver.storage.spans.queries import SpanQuery

_OPERATORS = {
    "!=": "ne",
    ">=": "gte",
    "<=": "lte",
    "^=": "starts_with",
    "=": "eq",
    ">": "gt",
    "<": "lt",
    "~": "contains",
}
_CONDITION_PATTERN = re.compile(r"([^=<>~!^]+?)\s*(!=|>=|<=|\^=|=|>|<|~)\s*(.*)", re.DOTALL)
_FIELD_ALIASES = {
    "tokens_in": "usage.input_tokens",
    "tokens_out": "usage.output_tokens",
    "input_tokens": "usage.input_tokens",
    "output_tokens": "usage.output_tokens",
    "tool": "tool.name",
    "exception": "exception.type",
}
_RELATIVE_TIME = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_ID_PREFIX = re.compile(r"[0-9a-f]{1,32}")
_MAX_LISTED_IDS = 5
"""Maximum number of ids that are listed if a prefix matches several traces."""


def filter_options(command: CommandT) -> CommandT:
    """Add --filter and --search: `def command(filters: tuple[str, ...], search: str | None)`."""
    text = "Condition: status=error, duration_ms>2000, model~gpt, http.route=/chat (attribute) or JSON. Repeatable."
    command = click.option("--search", help='Only traces with these words or "phrases".')(command)
    return click.option("--filter", "filters", multiple=True, metavar="CONDITION", help=text)(command)


def build_query(
    filters: Sequence[str],
    search: str | None,
    since: str | None = None,
    until: str | None = None,
    **fields: str | None,
) -> "SpanQuery":
    """Build the query; all conditions must hold."""
    from palaver.storage.spans import filters as span_filters  # Imported late: --help must not wait for SQLAlchemy.
    from palaver.storage.spans.queries import SpanQuery

    conditions = [{"field": name, "op": "eq", "value": value} for name, value in fields.items() if value is not None]
    conditions += [_parse_condition(text) for text in filters]
    try:
        condition = span_filters.parse_filter({"and": conditions}) if conditions else None
    except RequestError as error:
        raise click.UsageError(f"--filter: {error.message}") from None
    return SpanQuery(
        filter=condition, search=search, since=parse_time(since, "--from"), until=parse_time(until, "--to")
    )


def _parse_condition(text: str) -> dict[str, Any]:
    """Parse a condition, in short form or as JSON, into the filter language of the REST API."""
    if text.lstrip().startswith("{"):
        try:
            return json.decode(text.encode())
        except RequestError as error:
            raise click.UsageError(f"--filter: {error.message}") from None
    match = _CONDITION_PATTERN.fullmatch(text.strip())
    if match is None:
        raise click.UsageError(
            f"Invalid --filter {text!r}: expected a field, an operator ({' '.join(_OPERATORS)}) and a value."
        )
    name, operator, value = match[1].strip(), match[2], match[3]
    return _parse_field(_FIELD_ALIASES.get(name, name)) | {
        "op": _OPERATORS[operator],
        "value": _parse_value(_FIELD_ALIASES.get(name, name), operator, value),
    }


def _parse_field(name: str) -> dict[str, Any]:
    from palaver.storage.spans.filters import FILTER_FIELDS

    if name in FILTER_FIELDS:
        return {"field": name}
    similar = [] if "." in name else get_close_matches(name, [*FILTER_FIELDS, *_FIELD_ALIASES], n=1, cutoff=0.75)
    if similar:  # Reported, because a typo would silently match nothing.
        as_json = f'{{"attribute": "{name}", …}}'
        raise click.UsageError(
            f"--filter: unknown field {name!r}. Did you mean {similar[0]!r}? To filter on an attribute, use {as_json}."
        )
    return {"attribute": name}


def _parse_value(name: str, operator: str, text: str) -> Any:
    from palaver.storage.spans.filters import FILTER_FIELDS

    field_kind = FILTER_FIELDS.get(name)
    if field_kind in ("text", "time") or operator in ("~", "^="):
        return text
    try:
        return msgspec.json.decode(text, type=int | float | bool)
    except msgspec.MsgspecError:
        return text


def parse_time(text: str | None, option: str) -> datetime | None:
    """Parse a day, an RFC 3339 time, or a time ago like 30m, 12h, 7d. UTC without a zone."""
    if text is None:
        return None
    if match := _RELATIVE_TIME.fullmatch(text):
        return datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"Invalid {option} {text!r}: use 2026-11-15, 2026-11-15T07:20:00Z, 30m, 12h or 7d."
        ) from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed


def require_trace_id(db: "Connection", project: str, text: str) -> str:
    """Return the trace id that is or begins with `text`. Raises NotFound unless exactly one matches."""
    from palaver.storage.spans import queries

    prefix = text.strip().rstrip("…").lower()
    ids = (
        queries.find_traces_by_prefix(db, project, prefix, limit=_MAX_LISTED_IDS + 1)
        if _ID_PREFIX.fullmatch(prefix)
        else []
    )
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise NotFound(f"Trace {text[:80]!r} not found in project {project!r}. See `palaver trace tail`.")
    names = ", ".join(ids[:_MAX_LISTED_IDS]) + (", …" if len(ids) > _MAX_LISTED_IDS else "")
    raise NotFound(f"Trace {prefix!r} is ambiguous. Matches: {names}.")
