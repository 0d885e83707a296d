"""/api/online: live evaluators, which score live traffic, and their statistics."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, FromQuery
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection

from palaver.core.api_keys import format_key_id
from palaver.errors import InvalidValue, RequestError
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.live.trace_selection import parse_trace_filter
from palaver.evaluation.plan.plan import PlannedEvaluator
from palaver.evaluation.plan.request import MAX_EVALUATORS, DisplayName, EvaluatorInput
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    encode_object,
    make_view,
    new_id,
    object_response,
    operation_with_body,
    parse_timestamp,
    read_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.api.trace_views import Since, Until
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.evaluations import live_evaluators
from palaver.storage.evaluations.live_evaluators import LiveEvaluator, LiveScoreStats
from palaver.storage.pagination import Page, Window
from palaver.storage.spans.stats import TimeStep

Sample = Annotated[float, Meta(ge=0, le=1)]
PerMinute = Annotated[int, Meta(ge=1, le=10_000)]
EvaluatorList = Annotated[tuple[EvaluatorInput, ...], Meta(min_length=1, max_length=MAX_EVALUATORS)]


class NewLiveEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """A live evaluator to create: the traces to score, and the evaluators."""

    name: DisplayName
    filter: dict[str, Any] | None = None
    """A trace filter, as in /api/traces/query; null for all traces."""
    sample: Sample = 0.1
    """The fraction of matching traces to score. Whether a trace is sampled depends only on its id."""
    evaluators: EvaluatorList
    """The evaluators that score the traces."""
    per_minute: PerMinute = 60
    """Maximum number of traces or sessions to score per minute, across all processes."""
    session: bool = False
    """Whether to score whole sessions, once they are idle, instead of traces."""
    enabled: bool = True
    """Whether the live evaluator scores new traces."""


class LiveEvaluatorPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a live evaluator. Omitted fields are not changed."""

    name: DisplayName | UnsetType = UNSET
    filter: dict[str, Any] | UnsetType | None = UNSET
    """A trace filter; null for all traces."""
    sample: Sample | UnsetType = UNSET
    """The fraction of matching traces to score."""
    evaluators: EvaluatorList | UnsetType = UNSET
    """The evaluators that score the traces."""
    per_minute: PerMinute | UnsetType = UNSET
    """Maximum number of traces or sessions to score per minute, across all processes."""
    session: bool | UnsetType = UNSET
    """Whether to score whole sessions, once they are idle, instead of traces."""
    enabled: bool | UnsetType = UNSET
    """Whether the live evaluator scores new traces."""


class LiveEvaluatorView(msgspec.Struct, frozen=True, kw_only=True):
    """A live evaluator."""

    id: str
    name: str
    filter: dict[str, Any] | None
    sample: float
    evaluators: list[PlannedEvaluator]
    per_minute: int
    session: bool
    enabled: bool
    key: str | None
    created_at: Timestamp
    updated_at: Timestamp


class LiveEvaluatorStat(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one evaluator in one minute, hour or day."""

    at: Timestamp
    evaluator: str
    n: int
    """Number of scores."""
    passed: int
    pass_rate: float | None
    """The fraction of passed scores among those that passed or failed."""
    mean: float | None
    skipped: int
    errors: int
    cost: float | None


class LiveEvaluatorStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a live evaluator, in chronological order."""

    waiting: int
    """Number of selected traces or sessions that have not been scored yet."""
    done: int
    dropped: int
    """Number of waiting traces or sessions that were dropped, oldest first, because `per_minute` was exceeded."""
    data: list[LiveEvaluatorStat]


class LiveEvaluatorController(ApiController):
    path = "/api/online"

    database: Database
    settings: Settings
    evaluator_context: EvaluatorContext
    evaluators: EvaluatorRegistry
    wake_scorer: Callable[[], None]

    @post(
        operation_id="create_online_rule",
        summary="Create a live evaluator, which scores new traces",
        operation_class=operation_with_body(NewLiveEvaluator),
    )
    async def create_online_rule(self, request: ApiRequest) -> Response[LiveEvaluatorView]:
        caller = caller_of(request)
        raw, body = await read_body(request, self.settings, NewLiveEvaluator)
        if body.filter is not None:
            parse_trace_filter(body.filter)
        now = utc_now()
        fields: dict[str, Any] = {**msgspec.structs.asdict(body), "evaluators": self._plan(request, body.evaluators)}
        rule = LiveEvaluator(id=new_id("on"), **fields, key=caller.key, created_at=now, updated_at=now)

        def work(db: Connection) -> HttpResponse:
            stored = live_evaluators.create_live_evaluator(db, caller.project, rule)
            return encode_object(
                _rule_view(stored), status=201, location=f"{self.settings.root_path}/api/online/{stored.id}"
            )

        response = await run_idempotent(request, self.database, raw, work)
        self.wake_scorer()
        return response

    @get(operation_id="list_online_rules", summary="List live evaluators, newest first")
    async def list_online_rules(
        self, request: ApiRequest, limit: Limit = 50, after: After = None
    ) -> Page[LiveEvaluatorView]:
        page = await self.database.read(
            live_evaluators.list_live_evaluators, caller_of(request).project, Window(limit, after)
        )
        return page.map(_rule_view)

    @get("/{rule:str}", operation_id="get_online_rule", summary="Get a live evaluator")
    async def get_online_rule(self, request: ApiRequest, rule: FromPath[str]) -> Response[LiveEvaluatorView]:
        return object_response(
            request,
            _rule_view(await self.database.read(live_evaluators.get_live_evaluator, caller_of(request).project, rule)),
        )

    @patch(
        "/{rule:str}",
        operation_id="change_online_rule",
        summary="Change, disable or enable a live evaluator",
        operation_class=operation_with_body(LiveEvaluatorPatch),
    )
    async def change_online_rule(self, request: ApiRequest, rule: FromPath[str]) -> Response[LiveEvaluatorView]:
        _, body = await read_body(request, self.settings, LiveEvaluatorPatch)
        fields = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
        if fields.get("filter") is not None:
            parse_trace_filter(fields["filter"])
        if body.evaluators is not UNSET:
            fields["evaluators"] = self._plan(request, body.evaluators)
        changed = await self.database.write(
            live_evaluators.update_live_evaluator, caller_of(request).project, rule, utc_now(), **fields
        )
        self.wake_scorer()
        return object_response(request, _rule_view(changed))

    @delete("/{rule:str}", operation_id="delete_online_rule", summary="Delete a live evaluator and its scores")
    async def delete_online_rule(self, request: ApiRequest, rule: FromPath[str]) -> None:
        await self.database.write(live_evaluators.delete_live_evaluator, caller_of(request).project, rule)
        self.wake_scorer()

    @get(
        "/{rule:str}/stats",
        operation_id="online_rule_stats",
        summary="Get the number of scored and passed traces over time, by evaluator",
    )
    async def online_rule_stats(
        self,
        request: ApiRequest,
        rule: FromPath[str],
        by: FromQuery[TimeStep] = "hour",
        since: Since = None,
        until: Until = None,
    ) -> LiveEvaluatorStats:
        times = {"since": parse_timestamp(since, "?from"), "until": parse_timestamp(until, "?to")}

        def work(db: Connection, project: str) -> LiveEvaluatorStats:
            live_evaluators.get_live_evaluator(db, project, rule)
            stats = live_evaluators.score_stats(db, project, rule, by=by, **times)
            counts = live_evaluators.count_cases(db, project, rule)
            data, pending = [_rule_stat(row) for row in stats], counts.waiting + counts.running
            return LiveEvaluatorStats(waiting=pending, done=counts.done, dropped=counts.dropped, data=data)

        return await self.database.read(work, caller_of(request).project)

    def _plan(self, request: ApiRequest, requested: Sequence[EvaluatorInput]) -> list[dict[str, Any]]:
        caller = caller_of(request)
        context = self.evaluator_context.for_project(caller.project, caller.key)
        return _plan_evaluators(requested, self.evaluators, context)


def _plan_evaluators(
    requested: Sequence[EvaluatorInput], registry: EvaluatorRegistry, context: EvaluatorContext
) -> list[dict[str, Any]]:
    """Validate the evaluators: known keys, valid parameters, unique names."""
    planned: list[PlannedEvaluator] = []
    for index, item in enumerate(requested):
        pointer = f"/evaluators/{index}"
        try:
            bound = registry.find(item.key).bind(item.parameters, context, name=item.name)
        except RequestError as error:
            error.pointer = f"{pointer}{error.pointer or '/key'}"
            raise
        if any(bound.name == other.name for other in planned):
            message = f"Two evaluators are named {bound.name!r}. Rename one of them."
            raise InvalidValue(message, pointer=f"{pointer}/name")
        planned.append(PlannedEvaluator(key=item.key, name=bound.name, parameters=item.parameters))
    return msgspec.to_builtins(planned)


def _rule_view(rule: LiveEvaluator) -> LiveEvaluatorView:
    return make_view(
        LiveEvaluatorView,
        rule,
        evaluators=msgspec.convert(rule.evaluators, list[PlannedEvaluator]),
        key=None if rule.key is None else format_key_id(rule.key),
    )


def _rule_stat(row: LiveScoreStats) -> LiveEvaluatorStat:
    return make_view(LiveEvaluatorStat, row, pass_rate=row.passed / row.judged if row.judged else None)
