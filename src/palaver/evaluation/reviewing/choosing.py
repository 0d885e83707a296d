"""What is reviewed: the results of a run, or traces, chosen once, when the review is made."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, select

from palaver.errors import InvalidValue, NotFound
from palaver.evaluation.judging.questions import Question
from palaver.evaluation.planning.plans import NAMED, Plan
from palaver.storage.evaluations import repository as evaluations
from palaver.storage.evaluations import results as evaluation_pages
from palaver.storage.evaluations.results import ResultFilters
from palaver.storage.pagination import Window
from palaver.storage.reviews.repository import NewReviewItem
from palaver.storage.spans import filters as span_filters
from palaver.storage.spans import queries as span_pages
from palaver.storage.spans.queries import SpanQuery
from palaver.storage.spans.tables import IS_HEAD, spans

MOST = 10_000
"""Items of one review."""
_PIECE = 500
_Text = Annotated[str, Meta(max_length=200, pattern=NAMED)]
_Moment = Annotated[datetime, Meta(tz=True)]


class WantedResults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which results of a run: as its list of results is asked for them."""

    evaluator: _Text | None = None
    passed: bool | None = None
    """What that evaluator says, or any."""
    status: Literal["done", "failed"] = "done"
    search: _Text | None = None


class WantedItems(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be reviewed: results of a run, or traces by their ids or by what is asked of them."""

    run: _Text | None = None
    variant: _Text | None = None
    filter: WantedResults = WantedResults()
    traces: Annotated[list[str], Meta(min_length=1, max_length=MOST)] | dict[str, Any] | None = None
    """Ids, or a filter as traces are asked for; `{}` is for all."""
    search: Annotated[str, Meta(max_length=1_000)] | None = None
    since: _Moment | None = msgspec.field(default=None, name="from")
    until: _Moment | None = msgspec.field(default=None, name="to")
    sample: Annotated[int, Meta(ge=1, le=MOST)] | None = None
    """At most so many, drawn at random."""
    seed: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0


class Chosen(msgspec.Struct, frozen=True):
    """What people will be asked about."""

    evaluation: str | None
    plan: Plan | None
    items: Sequence[NewReviewItem]


def chosen(db: Connection, project: str, wanted: WantedItems) -> Chosen:
    """The items; NotFound for a run or trace that is not there, InvalidValue where there is nothing to review."""
    if (wanted.run is None) == (wanted.traces is None):
        raise InvalidValue("Say either a run or traces that are to be reviewed.", pointer="/items")
    plan = None
    if wanted.run is not None:
        _, kept = evaluations.get_plan(db, project, wanted.run)
        plan = msgspec.convert(kept, Plan)
        items = _results(db, project, wanted.run, plan, wanted)
    else:
        items = [NewReviewItem(trace=trace) for trace in _traces(db, project, wanted)]
    if wanted.sample is not None:
        items = _sampled(items, wanted.sample, wanted.seed)
    if not items:
        raise InvalidValue("There is nothing to review there.", pointer="/items")
    if len(items) > MOST:
        raise InvalidValue(f"A review has at most {MOST} items: take a sample.", pointer="/items")
    return Chosen(wanted.run, plan, items)


def questions_of(plan: Plan) -> list[Question]:
    """What the `human` evaluators of a run ask."""
    found = [question for one in plan.evaluators if one.key == "human" for question in asked_by(one.parameters)]
    return list({question.key: question for question in found}.values())


def asked_by(parameters: Any) -> list[Question]:
    """What one of them asks."""
    given = parameters.get("questions")
    return [Question(key="correct")] if given is None else msgspec.convert(given, list[Question])


def _results(db: Connection, project: str, run: str, plan: Plan, wanted: WantedItems) -> list[NewReviewItem]:
    names, asked = [variant.name for variant in plan.variants], wanted.filter
    if wanted.variant is not None and wanted.variant not in names:
        told = f"There is no variant {wanted.variant!r} here. It has: {', '.join(names)}."
        raise InvalidValue(told, pointer="/items/variant")
    which = ResultFilters(
        variant=None if wanted.variant is None else names.index(wanted.variant),
        status=asked.status,
        evaluator=asked.evaluator,
        passed=asked.passed,
        search=asked.search,
    )
    items: list[NewReviewItem] = []
    after: str | None = None
    while True:
        page = evaluation_pages.list_results(db, project, run, which, Window(_PIECE, after))
        items += [NewReviewItem(cell=one.cell, seq=one.seq, trace=one.trace_id) for one in page.data]
        after = page.next
        if after is None or (len(items) > MOST and wanted.sample is None):
            return items


def _traces(db: Connection, project: str, wanted: WantedItems) -> list[str]:
    if isinstance(wanted.traces, list):
        named = list(dict.fromkeys(trace.lower() for trace in wanted.traces))
        there: set[str] = set()
        for first in range(0, len(named), _PIECE):
            asked = select(spans.c.trace_id).where(spans.c.project == project, spans.c.head == IS_HEAD)
            there.update(db.scalars(asked.where(spans.c.trace_id.in_(named[first : first + _PIECE]))))
        if missing := next((trace for trace in wanted.traces if trace.lower() not in there), None):
            raise NotFound(f"There is no trace {missing[:80]!r}.")
        return named
    read = span_filters.parse_filter(wanted.traces, "/items/traces") if wanted.traces else None
    query = SpanQuery(filter=read, search=wanted.search, since=wanted.since, until=wanted.until)
    theirs = select(spans.c.trace_id).where(spans.c.head == IS_HEAD, *span_pages.query_clauses(db, project, query))
    newest = theirs.order_by(spans.c.start.desc(), spans.c.span_id)
    return list(db.scalars(newest if wanted.sample is not None else newest.limit(MOST + 1)))


def _sampled(items: Sequence[NewReviewItem], count: int, seed: int) -> list[NewReviewItem]:
    """So many of them, in their order: the same again with the same seed."""

    def lot(item: NewReviewItem) -> bytes:
        return blake2b(f"{seed}:{item.trace if item.cell is None else item.cell}".encode(), digest_size=8).digest()

    drawn = sorted(range(len(items)), key=lambda place: lot(items[place]))[:count]
    return [items[place] for place in sorted(drawn)]
