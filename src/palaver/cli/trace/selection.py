"""Which traces a command is about: its options, and what they ask of the database."""

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
_CONDITION = re.compile(r"([^=<>~!^]+?)\s*(!=|>=|<=|\^=|=|>|<|~)\s*(.*)", re.DOTALL)
_ALIASES = {
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
"""Traces that are named where an id fits several."""


def filter_options(command: CommandT) -> CommandT:
    """Which of them: `def command(filters: tuple[str, ...], search: str | None)`."""
    told = "Like status=error, duration_ms>2000, model~gpt, http.route=/chat (an attribute); or JSON. Repeat it."
    command = click.option("--search", help='Only those with these words, and "phrases".')(command)
    return click.option("--filter", "filters", multiple=True, metavar="CONDITION", help=told)(command)


def build_query(
    filters: Sequence[str],
    search: str | None,
    since: str | None = None,
    until: str | None = None,
    **fields: str | None,
) -> "SpanQuery":
    """What these options ask for; all of it has to hold."""
    from palaver.storage.spans import filters as span_filters  # Late: --help must not wait for SQLAlchemy.
    from palaver.storage.spans.queries import SpanQuery

    given = [{"field": name, "op": "eq", "value": value} for name, value in fields.items() if value is not None]
    given += [_parse_condition(text) for text in filters]
    try:
        read = span_filters.parse_filter({"and": given}) if given else None
    except RequestError as error:
        raise click.UsageError(f"--filter: {error.message}") from None
    return SpanQuery(filter=read, search=search, since=parse_time(since, "--from"), until=parse_time(until, "--to"))


def _parse_condition(text: str) -> dict[str, Any]:
    """A condition as the filter language of the REST API has it: in short, or as its JSON."""
    if text.lstrip().startswith("{"):
        try:
            return json.decode(text.encode())
        except RequestError as error:
            raise click.UsageError(f"--filter: {error.message}") from None
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise click.UsageError(f"--filter {text!r}: write a name, one of {' '.join(_OPERATORS)}, and a value.")
    name, sign, value = found[1].strip(), found[2], found[3]
    return _parse_field(_ALIASES.get(name, name)) | {
        "op": _OPERATORS[sign],
        "value": _parse_value(_ALIASES.get(name, name), sign, value),
    }


def _parse_field(name: str) -> dict[str, Any]:
    from palaver.storage.spans.filters import FILTER_FIELDS

    if name in FILTER_FIELDS:
        return {"field": name}
    alike = [] if "." in name else get_close_matches(name, [*FILTER_FIELDS, *_ALIASES], n=1, cutoff=0.75)
    if alike:  # Else a slip would find nothing, and not say why.
        as_json = f'{{"attribute": "{name}", …}}'
        raise click.UsageError(
            f"--filter: there is no field {name!r}: {alike[0]}? An attribute is asked for as {as_json}."
        )
    return {"attribute": name}


def _parse_value(name: str, sign: str, text: str) -> Any:
    from palaver.storage.spans.filters import FILTER_FIELDS

    kind = FILTER_FIELDS.get(name)
    if kind in ("text", "time") or sign in ("~", "^="):
        return text
    try:
        return msgspec.json.decode(text, type=int | float | bool)
    except msgspec.MsgspecError:
        return text


def parse_time(text: str | None, option: str) -> datetime | None:
    """A time: a day, RFC 3339, or so long ago, like 30m, 12h, 7d. Without a zone it is UTC."""
    if text is None:
        return None
    if ago := _RELATIVE_TIME.fullmatch(text):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option} {text!r}: give 2026-11-15, 2026-11-15T07:20:00Z, 30m, 12h or 7d.") from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read


def require_trace_id(db: "Connection", project: str, given: str) -> str:
    """The one trace whose id is this, or begins so."""
    from palaver.storage.spans import queries as span_arrivals

    prefix = given.strip().rstrip("…").lower()
    found = (
        span_arrivals.find_traces_by_prefix(db, project, prefix, limit=_MAX_LISTED_IDS + 1)
        if _ID_PREFIX.fullmatch(prefix)
        else []
    )
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"There is no trace {given[:80]!r} in the project {project}: see palaver trace tail.")
    named = ", ".join(found[:_MAX_LISTED_IDS]) + (", …" if len(found) > _MAX_LISTED_IDS else "")
    raise NotFound(f"Several traces begin with {prefix}: {named}")
