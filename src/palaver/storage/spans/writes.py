"""Insert and delete spans.

A span that arrives again replaces the stored one if it ended later, else it is ignored. One span of each trace, the
head, represents it in lists: the root, or else the earliest span. Insert statements are compiled once and get rows in
the form that the driver wants: SQLAlchemy would otherwise take half of the time.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import (
    ARRAY,
    Connection,
    Dialect,
    Insert,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    update,
)

from palaver.storage.notifications import ALL_REFS, Change, mark_changed
from palaver.storage.schema import UtcTimestamp
from palaver.storage.spans import full_text, partitions
from palaver.storage.spans.tables import HEAD, SIMPLE_REGCONFIG, SearchWords, span_bodies, span_ids, spans

SpanColumns = dict[str, Any]
"""All columns of both tables by name."""

_timestamp, _search_words = UtcTimestamp(), SearchWords()


class _Statement(NamedTuple):
    text: str
    values: Callable[[SpanColumns], Any]
    """Returns the driver's parameters for a row."""


_statement_cache: dict[str, tuple[_Statement, _Statement]] = {}


def bulk_insert(db: Connection, rows: Sequence[SpanColumns]) -> None:
    """Insert spans and bodies, and on SQLite the search index."""
    texts = [(row["id"], row["words"]) for row in rows if row["words"]]
    for row in rows:
        row["start"] = _timestamp.process_bind_param(row["start"], db.dialect)
        row["words"] = _search_words.process_bind_param(row["words"], db.dialect)
    for statement in _statements(db.dialect):
        db.exec_driver_sql(statement.text, [statement.values(row) for row in rows])
    if texts and db.dialect.name == "sqlite":
        db.exec_driver_sql("INSERT INTO span_words (rowid, words) VALUES (?, ?)", texts)


def _statements(dialect: Dialect) -> tuple[_Statement, _Statement]:
    if dialect.name not in _statement_cache:
        _statement_cache[dialect.name] = (
            _compile_insert(_spans_insert(dialect), dialect),
            _compile_insert(insert(span_bodies), dialect),
        )
    return _statement_cache[dialect.name]


def _spans_insert(dialect: Dialect) -> Insert:
    if dialect.name != "postgresql":
        return insert(spans)
    columns = {column.name: bindparam(column.name, type_=column.type) for column in spans.c if column.name != "words"}
    return insert(spans).values(**columns, words=func.to_tsvector(SIMPLE_REGCONFIG, bindparam("words", type_=Text)))


def _compile_insert(statement: Insert, dialect: Dialect) -> _Statement:
    compiled = cast("Any", statement.compile(dialect=dialect))
    return _Statement(str(compiled), itemgetter(*compiled.positiontup) if compiled.positional else _identity)


def _identity(row: SpanColumns) -> SpanColumns:
    return row


INSERT_BATCH = 2_000
COMPRESS_FROM_BYTES = 2048
"""Bodies of at least this size are compressed."""
_INSERT_LOCK_SEED = 6_157_842_604
"""PostgreSQL advisory lock: one process at a time inserts spans of a project."""
_DELETE_BATCH = 500


class SpanRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A span as stored. Texts are truncated to what columns and indexes hold; the body is complete."""

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
    """As returned by `full_text.normalize_words`."""
    labels: str
    """The attributes for filters, as a JSON object."""
    body: bytes
    """The complete span, as returned by `compress_body`."""

    @property
    def key(self) -> "SpanKey":
        return SpanKey(self.project, self.trace_id, self.span_id)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(milliseconds=self.duration_ms)

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        """The span of a trace with the lowest rank is its head."""
        return (self.parent_id is not None, self.start, self.span_id)

    @property
    def bytes(self) -> int:
        """The approximate storage size."""
        return len(self.body) + len(self.labels) + len(self.preview_in) + len(self.preview_out) + len(self.words)


class SpanKey(NamedTuple):
    project: str
    trace_id: str
    span_id: str


class InsertCounts(NamedTuple):
    new: int
    replaced: int
    ignored: int


class _StoredSpan(NamedTuple):
    """The columns of a stored span that matter for a new one."""

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


_STORED_COLUMNS = [spans.c[name] for name in _StoredSpan._fields]


def compress_body(body: bytes) -> bytes:
    """Compress a large body. Compressed bodies start with an x, others with a brace."""
    return zlib.compress(body, 1) if len(body) >= COMPRESS_FROM_BYTES else body


def decompress_body(body: bytes) -> bytes:
    return body if body[:1] == b"{" else zlib.decompress(body)


# Insert


def insert_spans(db: Connection, rows: Sequence[SpanRow], *, today: date) -> InsertCounts:
    """Insert spans under the day of their start, or under today if that is too far away or was dropped."""
    unique = _deduplicate(rows)
    by_project: dict[str, list[SpanRow]] = {}
    for row in unique:
        by_project.setdefault(row.project, []).append(row)
    order = sorted(by_project)  # The same order in all transactions avoids deadlocks.
    days = {
        project: partitions.assign_days(db, project, [row.start for row in by_project[project]], today)
        for project in order
    }
    totals = InsertCounts(0, 0, len(rows) - len(unique))
    for project in order:
        dated_rows = list(zip(by_project[project], days[project], strict=True))
        for first in range(0, len(dated_rows), INSERT_BATCH):
            counts = _insert_batch(db, project, dated_rows[first : first + INSERT_BATCH])
            totals = InsertCounts(*(total + count for total, count in zip(totals, counts, strict=True)))
        mark_changed(db, Change(project, "spans", ALL_REFS))
    return totals


def _deduplicate(rows: Sequence[SpanRow]) -> list[SpanRow]:
    """Return the rows without duplicates, of which the one that ended last stays."""
    latest: dict[SpanKey, SpanRow] = {}
    for row in rows:
        duplicate = latest.get(row.key)
        if duplicate is None or row.end > duplicate.end:
            latest[row.key] = row
    return list(latest.values())


def lock_project(db: Connection, project: str) -> None:
    """Let no other process insert spans of a project until the transaction ends."""
    if db.dialect.name == "postgresql":
        db.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(project, _INSERT_LOCK_SEED))))


def replace_spans(db: Connection, project: str, rows: Sequence[SpanRow], *, today: date) -> None:
    """Replace stored spans, although the new ones ended at the same time."""
    days = partitions.assign_days(db, project, [row.start for row in rows], today)
    _insert_batch(db, project, list(zip(rows, days, strict=True)), replaces_equal=True)


def _insert_batch(
    db: Connection, project: str, rows: Sequence[tuple[SpanRow, int]], *, replaces_equal: bool = False
) -> InsertCounts:
    lock_project(db, project)
    heads = _load_heads(db, project, {row.trace_id for row, _ in rows})
    # A trace without a head has no spans: most spans need no lookup.
    existing = _load_existing(db, project, [row for row, _ in rows if row.trace_id in heads])
    new = [
        (row, day)
        for row, day in rows
        if (old := existing.get(row.key)) is None or row.end > old.end or (replaces_equal and row.end == old.end)
    ]
    replaced = [old for row, _ in new if (old := existing.get(row.key)) is not None]
    row_ids = _allocate_ids(db, len(new))  # Before deleting, so that followers see the replacements as new.
    if replaced:
        delete_spans(db, project, [(old.id, old.day, old.trace_id, old.span_id, old.bytes) for old in replaced])
    if new:
        new_heads = _choose_heads(db, project, [row for row, _ in new], heads, {old.id for old in replaced})
        _insert_rows(db, new, row_ids, new_heads)
        partitions.add_day_usage(db, project, [(day, 1, row.bytes) for row, day in new])
    return InsertCounts(len(new) - len(replaced), len(replaced), len(rows) - len(new))


def _load_heads(db: Connection, project: str, traces: Collection[str]) -> dict[str, _StoredSpan]:
    query = select(*_STORED_COLUMNS).where(spans.c.project == project, spans.c.head == HEAD, _trace_in(db, traces))
    return {row.trace_id: _StoredSpan(*row) for row in db.execute(query)}


def _trace_in(db: Connection, traces: Collection[str]) -> Any:
    if db.dialect.name == "postgresql":  # An array is one parameter, and fast to plan.
        return spans.c.trace_id == func.any(literal(list(traces), ARRAY(Text)))
    return spans.c.trace_id.in_(traces)


def _load_existing(db: Connection, project: str, rows: Collection[SpanRow]) -> dict[SpanKey, _StoredSpan]:
    if not rows:
        return {}
    keys: Any = [(row.trace_id, row.span_id) for row in rows]
    if db.dialect.name == "postgresql":
        traces, ids = zip(*keys, strict=True)
        keys = select(*(func.unnest(literal(list(column), ARRAY(Text))) for column in (traces, ids)))
    query = select(*_STORED_COLUMNS).where(
        spans.c.project == project, tuple_(spans.c.trace_id, spans.c.span_id).in_(keys)
    )
    return {SpanKey(project, row.trace_id, row.span_id): _StoredSpan(*row) for row in db.execute(query)}


def _choose_heads(
    db: Connection, project: str, new: Sequence[SpanRow], heads: Mapping[str, _StoredSpan], deleted: Collection[int]
) -> set[SpanKey]:
    """Return which new spans become heads, and unset the heads that they replace."""
    best: dict[str, SpanRow] = {}
    for row in new:
        current = best.get(row.trace_id)
        if current is None or row.rank < current.rank:
            best[row.trace_id] = row
    demoted: list[int] = []
    for trace, row in list(best.items()):
        head = heads.get(trace)
        if head is not None and head.id in deleted:  # Replaced: another span may become the head.
            head = find_head_candidate(db, project, trace)
            if head is not None and head.rank < row.rank:
                set_head(db, head.id)
        if head is not None and head.rank < row.rank:
            del best[trace]
        elif head is not None and head.head:
            demoted.append(head.id)
    if demoted:
        db.execute(update(spans).where(spans.c.id.in_(demoted)).values(head=0))
    return {row.key for row in best.values()}


def find_head_candidate(db: Connection, project: str, trace: str) -> _StoredSpan | None:
    query = select(*_STORED_COLUMNS).where(spans.c.project == project, spans.c.trace_id == trace)
    row = db.execute(query.order_by(spans.c.parent_id.is_not(None), spans.c.start, spans.c.span_id).limit(1)).first()
    return None if row is None else _StoredSpan(*row)


def set_head(db: Connection, span: int) -> None:
    db.execute(update(spans).where(spans.c.id == span).values(head=1))


def _insert_rows(
    db: Connection, new: Sequence[tuple[SpanRow, int]], row_ids: Sequence[int], heads: Collection[SpanKey]
) -> None:
    rows: list[SpanColumns] = []
    for row_id, (row, day) in zip(row_ids, new, strict=True):
        columns = {"id": row_id, "day": day, "head": 1 if row.key in heads else 0, "bytes": row.bytes}
        rows.append(msgspec.structs.asdict(row) | columns)
    bulk_insert(db, rows)


def _allocate_ids(db: Connection, count: int) -> Sequence[int]:
    """Return ids greater than all existing ones."""
    if not count:
        return ()
    if db.dialect.name == "postgresql":
        return db.scalars(select(span_ids.next_value()).select_from(func.generate_series(1, count))).all()
    last = db.scalar(select(func.max(spans.c.id))) or 0
    return range(last + 1, last + count + 1)


# Delete


def delete_spans(db: Connection, project: str, deleted: Sequence[tuple[int, int, str, str, int]]) -> None:
    """Delete spans, given as (id, day, trace, span, bytes)."""
    full_text.delete_words(db, _indexed_words(db, [row_id for row_id, *_ in deleted]))
    for table in (spans, span_bodies):
        in_trace = (table.c.project == project, table.c.trace_id == bindparam("of_trace"))
        statement = delete(table).where(
            *in_trace, table.c.span_id == bindparam("of_span"), table.c.day == bindparam("of_day")
        )
        db.execute(
            statement, [{"of_trace": trace, "of_span": span, "of_day": day} for _, day, trace, span, _ in deleted]
        )
    partitions.add_day_usage(db, project, [(day, -1, -size) for _, day, _, _, size in deleted])


def _indexed_words(db: Connection, row_ids: Sequence[int]) -> Iterable[tuple[int, str | None]]:
    """Yield the search words of spans, which SQLite needs to delete them from its index."""
    for first in range(0, len(row_ids), _DELETE_BATCH):
        in_batch = spans.c.id.in_(row_ids[first : first + _DELETE_BATCH])
        yield from db.execute(select(spans.c.id, spans.c.words).where(in_batch))
