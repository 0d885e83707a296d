"""/api/traces: traces in a list, by what is asked for, over time; and one of them: in short, as a tree, as a line."""

from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from sqlalchemy import Connection

from palaver.server.api.conventions import After, Asked, Limit, Page, Window, answer, caller_of, read_body, takes
from palaver.server.api.dependencies import ApiController
from palaver.server.api.trace_views import (
    Asker,
    Asking,
    BoneRow,
    BranchRow,
    FilterText,
    Since,
    StatRow,
    TraceRow,
    TraceView,
    Until,
    Words,
    asked_by_url,
    bone_row,
    branch_row,
    missing_trace,
    stat_row,
    trace_row,
    trace_view,
)
from palaver.server.settings import Settings
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans import stats as span_stats
from palaver.storage.spans import traces as span_trees
from palaver.storage.spans.queries import SpanQuery
from palaver.storage.spans.stats import StatsGroup, TimeStep, TraceStats
from palaver.storage.spans.traces import SkeletonSpan, SpanTreeItem

Bones = Annotated[int, QueryParameter(ge=1, le=5_000, description="How many spans at most.")]
Parent = Annotated[str | None, QueryParameter(max_length=32, description="The span whose children are wanted.")]


class Stats(msgspec.Struct, frozen=True):
    """What traces came to, in the order of time."""

    data: list[StatRow]


class TraceController(ApiController):
    path = "/api/traces"

    settings: Settings
    run_query: Asker

    @get(operation_id="list_traces", summary="Newest first: the root of each, or its earliest span")
    async def list_traces(
        self,
        request: Asked,
        filter_: FilterText = None,
        search: Words = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 50,
        after: After = None,
    ) -> Page[TraceRow]:
        query = asked_by_url(filter_, search, since, until)
        found = await self.run_query(
            query, span_pages.list_traces, caller_of(request).project, query, Window(limit, after)
        )
        return found.map(trace_row)

    @post(
        "/query",
        operation_id="query_traces",
        summary="The same, by a filter: it is asked of the span that stands for each trace",
        operation_class=takes(Asking),
        status_code=200,
    )
    async def query_traces(self, request: Asked) -> Page[TraceRow]:
        _, asked = await read_body(request, self.settings, Asking)
        query = asked.query
        found = await self.run_query(query, span_pages.list_traces, caller_of(request).project, query, asked.window)
        return found.map(trace_row)

    @get("/stats", operation_id="trace_stats", summary="Counts, errors, durations, tokens and cost over time")
    async def trace_stats(
        self,
        request: Asked,
        by: FromQuery[TimeStep] = "hour",
        group: FromQuery[StatsGroup | None] = None,
        filter_: FilterText = None,
        search: Words = None,
        since: Since = None,
        until: Until = None,
    ) -> Stats:
        query = asked_by_url(filter_, search, since, until)
        project = caller_of(request).project
        found = await self.run_query(query, _stats, project, by, group, query)
        return Stats([stat_row(row) for row in found])

    @get("/{trace:str}", operation_id="get_trace", summary="One trace, in short")
    async def get_trace(self, request: Asked, trace: FromPath[str]) -> Response[TraceView]:
        found = await self.run_query(None, span_trees.get_trace_overview, caller_of(request).project, trace.lower())
        if found is None:
            raise missing_trace(trace)
        return answer(request, trace_view(found))

    @get(
        "/{trace:str}/tree",
        operation_id="get_trace_tree",
        summary="What stands at the top of a trace, or the children of a span, in the order of their start",
    )
    async def get_trace_tree(
        self, request: Asked, trace: FromPath[str], parent: Parent = None, limit: Limit = 200, after: After = None
    ) -> Page[BranchRow]:
        project, below = caller_of(request).project, parent if parent is None else parent.lower()
        found = await self.run_query(None, _tree, project, trace, below, Window(limit, after))
        return found.map(branch_row)

    @get(
        "/{trace:str}/skeleton",
        operation_id="get_trace_skeleton",
        summary="All spans of a trace, without what is in them",
    )
    async def get_trace_skeleton(
        self, request: Asked, trace: FromPath[str], limit: Bones = 5_000, after: After = None
    ) -> Page[BoneRow]:
        found = await self.run_query(None, _skeleton, caller_of(request).project, trace, Window(limit, after))
        return found.map(bone_row)


def _stats(db: Connection, project: str, by: TimeStep, group: StatsGroup | None, query: SpanQuery) -> list[TraceStats]:
    return span_stats.trace_stats(db, project, by=by, group=group, query=query)


def _tree(db: Connection, project: str, trace: str, parent: str | None, window: Window) -> Page[SpanTreeItem]:
    _check(db, project, trace)
    return span_trees.list_children(db, project, trace.lower(), parent=parent, window=window)


def _skeleton(db: Connection, project: str, trace: str, window: Window) -> Page[SkeletonSpan]:
    _check(db, project, trace)
    return span_trees.list_skeleton(db, project, trace.lower(), window)


def _check(db: Connection, project: str, trace: str) -> None:
    if span_pages.get_head_span(db, project, trace.lower()) is None:
        raise missing_trace(trace)
