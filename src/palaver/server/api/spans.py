"""/api/spans: rows of spans by what is asked for, and the record of one.

A record may hold megabytes. What is long in it is shown from its beginning, and `cut` says of which parts; these can be
had whole, a piece at a time.
"""

from typing import Annotated, Any, Literal, cast

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.core import json
from palaver.errors import NotFound
from palaver.server.api.conventions import Asked, Page, answer, caller_of, read_body, takes, told_time
from palaver.server.api.dependencies import ApiController
from palaver.server.api.trace_views import Asker, Asking, SpanRow, span_row
from palaver.server.settings import Settings
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import traces as span_trees
from palaver.traces.model import Span

PartName = Literal[
    "attributes",
    "events",
    "links",
    "messages_in",
    "messages_out",
    "inputs",
    "outputs",
    "parameters",
    "tools",
    "exception",
    "status_message",
]
Part = Annotated[PartName | None, QueryParameter(description="A part that was cut: its JSON text, a piece at a time.")]
Offset = Annotated[int, QueryParameter(ge=0, le=1 << 40, description="Characters of that text to leave out.")]

LONG_PART = 64 * 1024
"""Bytes of a part that is shown as it is."""
SHORT_TEXT = 8 * 1024
"""Characters that are shown of each text in one that is longer,"""
SHORT_PART = 256 * 1024
"""and bytes of all of it; else it is shown empty."""
PIECE = 256 * 1024
"""Characters of a piece of it."""
_EMPTY: dict[str, Any] = {"attributes": {}, "parameters": {}, "inputs": None, "outputs": None, "exception": None}


class Record(Span, frozen=True, kw_only=True):
    """The record of a span."""

    cut: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    """Which parts are not shown whole, and how many characters their JSON has."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a part's JSON text."""

    part: PartName
    offset: int
    total: int
    text: str
    next: int | None
    """The offset of the piece after it."""


class SpanController(ApiController):
    path = "/api/spans"

    settings: Settings
    run_query: Asker

    @post(
        "/query",
        operation_id="query_spans",
        summary="Spans by a filter, newest first",
        operation_class=takes(Asking),
        status_code=200,
    )
    async def query_spans(self, request: Asked) -> Page[SpanRow]:
        _, asked = await read_body(request, self.settings, Asking)
        query = asked.query
        found = await self.run_query(query, span_pages.list_spans, caller_of(request).project, query, asked.window)
        return found.map(span_row)

    @get(
        "/{trace:str}/{span:str}",
        operation_id="get_span",
        summary="The record of a span; with part, the text of a part that is too long to be shown whole",
    )
    async def get_span(
        self, request: Asked, trace: FromPath[str], span: FromPath[str], part: Part = None, offset: Offset = 0
    ) -> Response[Record | Piece]:
        project = caller_of(request).project
        if part is not None:
            return answer(request, await self.run_query(None, _piece, project, trace, span, part, offset))
        return answer(request, cast("Record", await self.run_query(None, _record, project, trace, span)))


def _parts(db: Connection, project: str, trace: str, span: str) -> dict[str, msgspec.Raw]:
    body = span_trees.get_span_body(db, project, trace.lower(), span.lower())
    if body is None:
        raise NotFound(f"There is no span {span[:80]!r} in a trace {trace[:80]!r}.")
    return msgspec.json.decode(body, type=dict[str, msgspec.Raw])


def _record(db: Connection, project: str, trace: str, span: str) -> dict[str, msgspec.Raw]:
    parts = _parts(db, project, trace, span)
    cut: dict[str, int] = {}
    for name, raw in parts.items():
        if len(raw) > LONG_PART:
            parts[name] = _short_part(name, raw)
            cut[name] = len(bytes(raw).decode())
    began = msgspec.json.decode(parts["start"], type=msgspec.structs.fields(Span)[_START].type)
    parts["start"] = _raw(told_time(began))
    return parts | {"cut": _raw(cut)} if cut else parts


def _short_part(name: str, raw: msgspec.Raw) -> msgspec.Raw:
    short = _raw(shortened(msgspec.json.decode(raw)))
    return short if len(short) <= SHORT_PART else _raw(_EMPTY.get(name, []))


def shortened(value: Any) -> Any:
    """A value with no more than the beginning of each text in it."""
    match value:
        case str():
            return value[:SHORT_TEXT]
        case list():
            return [shortened(item) for item in cast("list[Any]", value)]
        case dict():
            return {name: shortened(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _piece(db: Connection, project: str, trace: str, span: str, part: PartName, offset: int) -> Piece:
    parts = _parts(db, project, trace, span)
    whole = bytes(parts.get(part, b"null")).decode()
    end = offset + PIECE
    more = end if end < len(whole) else None
    return Piece(part=part, offset=offset, total=len(whole), text=whole[offset:end], next=more)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.encode(value))


_START = Span.__struct_fields__.index("start")
