"""Spans, kept: one row for lists, one body for whoever looks at it, and its words for searches.

A span that comes again takes the place of what was there if it ended later; else it is ignored. Of each trace one span
is the head, which stands for it in lists: its root, or else its earliest.
"""

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ARRAY,
    Connection,
    Text,
    bindparam,
    delete,
    func,
    literal,
    select,
    tuple_,
    update,
)

from palaver.storage.notices import ALL, Change, touch
from palaver.storage.spans import days as span_days
from palaver.storage.spans import inserts as span_inserts
from palaver.storage.spans import words as span_words
from palaver.storage.spans.tables import IS_HEAD, span_bodies, span_ids, spans

AT_ONCE = 2_000
"""Spans that are added together."""
PACKED_FROM = 2048
"""Bodies from so many bytes on are packed."""
_LOCK = 6_157_842_604
"""The name of the lock under which one process at a time adds to a project, a number as PostgreSQL wants it."""
_DELETED_AT_ONCE = 500


class SpanRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is kept of a span. Texts are as short as columns and indexes take them; the body has all of it."""

    project: str
    trace_id: str
    span_id: str
    parent_id: str | None = None
    start: datetime
    duration_ms: float = 0.0
    kind: str = "unknown"
    status: str = "ok"
    name: str
    status_message: str | None = None
    model: str | None = None
    provider: str | None = None
    finish: str | None = None
    session: str | None = None
    user: str | None = None
    workflow: str | None = None
    run_id: str | None = None
    service: str | None = None
    scope: str | None = None
    tool: str | None = None
    exception: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    cost_source: str | None = None
    preview_in: bytes
    preview_out: bytes
    """Previews as JSON."""
    words: str
    """As `span_words.plain` gives them."""
    labels: str
    """The attributes that filters look at, as a JSON object."""
    body: bytes
    """The whole record, as `packed` gives it."""

    @property
    def key(self) -> "Key":
        """What tells it from all others."""
        return Key(self.project, self.trace_id, self.span_id)

    @property
    def end(self) -> datetime:
        """When it ended."""
        return self.start + timedelta(milliseconds=self.duration_ms)

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        """The one of a trace that has the least is its head."""
        return (self.parent_id is not None, self.start, self.span_id)

    @property
    def bytes(self) -> int:
        """About how much room it takes."""
        return len(self.body) + len(self.labels) + len(self.preview_in) + len(self.preview_out) + len(self.words)


class Key(NamedTuple):
    """Names a span."""

    project: str
    trace_id: str
    span_id: str


class Added(NamedTuple):
    """What became of spans that were to be kept."""

    new: int
    replaced: int
    ignored: int


class _Kept(NamedTuple):
    """A span that is there already."""

    id: int
    day: int
    trace_id: str
    span_id: str
    parent_id: str | None
    start: datetime
    duration_ms: float
    head: int
    bytes: int

    @property
    def end(self) -> datetime:
        return self.start + timedelta(milliseconds=self.duration_ms)

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        return (self.parent_id is not None, self.start, self.span_id)


_KEPT = [spans.c[name] for name in _Kept._fields]


def packed(body: bytes) -> bytes:
    """A body as it is kept. What is packed begins with an x, what is not with a brace."""
    return zlib.compress(body, 1) if len(body) >= PACKED_FROM else body


def unpacked(body: bytes) -> bytes:
    """The JSON of a record."""
    return body if body[:1] == b"{" else zlib.decompress(body)


# Adding


def add(db: Connection, rows: Sequence[SpanRow], *, today: date) -> Added:
    """Keep spans: each under the day of its start, or under today where that is far off or was let go of."""
    given = _latest(rows)
    by_project: dict[str, list[SpanRow]] = {}
    for row in given:
        by_project.setdefault(row.project, []).append(row)
    order = sorted(by_project)  # One for all, or two who add could wait for each other.
    days = {
        project: span_days.filed(db, project, [row.start for row in by_project[project]], today) for project in order
    }
    added = Added(0, 0, len(rows) - len(given))
    for project in order:
        theirs = list(zip(by_project[project], days[project], strict=True))
        for first in range(0, len(theirs), AT_ONCE):
            one = _add(db, project, theirs[first : first + AT_ONCE])
            added = Added(*(before + more for before, more in zip(added, one, strict=True)))
        touch(db, Change(project, "spans", ALL))
    return added


def _latest(rows: Sequence[SpanRow]) -> list[SpanRow]:
    """Of those that are the same span, the one that ended last."""
    latest: dict[Key, SpanRow] = {}
    for row in rows:
        known = latest.get(row.key)
        if known is None or row.end > known.end:
            latest[row.key] = row
    return list(latest.values())


def _add(db: Connection, project: str, given: Sequence[tuple[SpanRow, int]]) -> Added:
    if db.dialect.name == "postgresql":
        db.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(project, _LOCK))))
    heads = _heads(db, project, {row.trace_id for row, _ in given})
    # A trace without a head has no span at all: most spans need not be looked for.
    kept = _kept(db, project, [row for row, _ in given if row.trace_id in heads])
    new = [(row, day) for row, day in given if (old := kept.get(row.key)) is None or row.end > old.end]
    replaced = [old for row, _ in new if (old := kept.get(row.key)) is not None]
    numbers = _numbers(db, len(new))  # Before any goes: whoever follows along sees what takes its place, too.
    if replaced:
        remove(db, project, [(old.id, old.day, old.trace_id, old.span_id, old.bytes) for old in replaced])
    if new:
        chosen = _choose(db, project, [row for row, _ in new], heads, {old.id for old in replaced})
        _insert(db, new, numbers, chosen)
        span_days.count(db, project, [(day, 1, row.bytes) for row, day in new])
    return Added(len(new) - len(replaced), len(replaced), len(given) - len(new))


def _heads(db: Connection, project: str, traces: Collection[str]) -> dict[str, _Kept]:
    asked = select(*_KEPT).where(spans.c.project == project, spans.c.head == IS_HEAD, _one_of(db, traces))
    return {row.trace_id: _Kept(*row) for row in db.execute(asked)}


def _one_of(db: Connection, traces: Collection[str]) -> Any:
    if db.dialect.name == "postgresql":  # An array is one parameter, and planned in no time.
        return spans.c.trace_id == func.any(literal(list(traces), ARRAY(Text)))
    return spans.c.trace_id.in_(traces)


def _kept(db: Connection, project: str, given: Collection[SpanRow]) -> dict[Key, _Kept]:
    """Those of the given that are there already."""
    if not given:
        return {}
    keys: Any = [(row.trace_id, row.span_id) for row in given]
    if db.dialect.name == "postgresql":
        traces, named = zip(*keys, strict=True)
        keys = select(*(func.unnest(literal(list(one), ARRAY(Text))) for one in (traces, named)))
    asked = select(*_KEPT).where(spans.c.project == project, tuple_(spans.c.trace_id, spans.c.span_id).in_(keys))
    return {Key(project, row.trace_id, row.span_id): _Kept(*row) for row in db.execute(asked)}


def _choose(
    db: Connection, project: str, new: Sequence[SpanRow], heads: Mapping[str, _Kept], gone: Collection[int]
) -> set[Key]:
    """Which of the new spans become heads; those that were so until now are told."""
    best: dict[str, SpanRow] = {}
    for row in new:
        known = best.get(row.trace_id)
        if known is None or row.rank < known.rank:
            best[row.trace_id] = row
    beaten: list[int] = []
    for trace, row in list(best.items()):
        head = heads.get(trace)
        if head is not None and head.id in gone:  # Then any other may be next in line.
            head = first_of(db, project, trace)
            if head is not None and head.rank < row.rank:
                make_head(db, head.id)
        if head is not None and head.rank < row.rank:
            del best[trace]
        elif head is not None and head.head:
            beaten.append(head.id)
    if beaten:
        db.execute(update(spans).where(spans.c.id.in_(beaten)).values(head=0))
    return {row.key for row in best.values()}


def first_of(db: Connection, project: str, trace: str) -> _Kept | None:
    """The span that a trace's head should be."""
    asked = select(*_KEPT).where(spans.c.project == project, spans.c.trace_id == trace)
    row = db.execute(asked.order_by(spans.c.parent_id.is_not(None), spans.c.start, spans.c.span_id).limit(1)).first()
    return None if row is None else _Kept(*row)


def make_head(db: Connection, span: int) -> None:
    """Let a span stand for its trace."""
    db.execute(update(spans).where(spans.c.id == span).values(head=1))


def _insert(
    db: Connection, new: Sequence[tuple[SpanRow, int]], numbers: Sequence[int], chosen: Collection[Key]
) -> None:
    rows: list[span_inserts.Row] = []
    for number, (row, day) in zip(numbers, new, strict=True):
        own = {"id": number, "day": day, "head": 1 if row.key in chosen else 0, "bytes": row.bytes}
        rows.append(msgspec.structs.asdict(row) | own)
    span_inserts.put(db, rows)


def _numbers(db: Connection, count: int) -> Sequence[int]:
    """Ids, each greater than all before."""
    if not count:
        return ()
    if db.dialect.name == "postgresql":
        return db.scalars(select(span_ids.next_value()).select_from(func.generate_series(1, count))).all()
    last = db.scalar(select(func.max(spans.c.id))) or 0
    return range(last + 1, last + count + 1)


# Removing


def remove(db: Connection, project: str, gone: Sequence[tuple[int, int, str, str, int]]) -> None:
    """Forget spans: each by its id, day, trace, span and bytes."""
    span_words.remove(db, _texts(db, [number for number, *_ in gone]))
    for table in (spans, span_bodies):
        named = (table.c.project == project, table.c.trace_id == bindparam("of_trace"))
        exactly = delete(table).where(
            *named, table.c.span_id == bindparam("of_span"), table.c.day == bindparam("of_day")
        )
        db.execute(exactly, [{"of_trace": trace, "of_span": span, "of_day": day} for _, day, trace, span, _ in gone])
    span_days.count(db, project, [(day, -1, -size) for _, day, _, _, size in gone])


def _texts(db: Connection, numbers: Sequence[int]) -> Iterable[tuple[int, str | None]]:
    """What SQLite's index was given of these; only asked for if there is one."""
    for first in range(0, len(numbers), _DELETED_AT_ONCE):
        some = spans.c.id.in_(numbers[first : first + _DELETED_AT_ONCE])
        yield from db.execute(select(spans.c.id, spans.c.words).where(some))
