"""Rows of test sets: their contents, stored once by hash, and their metadata."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Table, func, literal, select, true
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

from palaver.storage.schema import dialect_insert, split_batches
from palaver.storage.testsets.tables import testset_contents as table
from palaver.storage.testsets.tables import testset_meta as meta_table

_MAX_KEYS = 400


def lookup_rows(
    db: Connection, table: Table, key: str, value: str, project: str, testset: str, keys: Sequence[bytes]
) -> Iterator[Any]:
    """Yield the key and the value of each row of the test set with one of these keys.

    On PostgreSQL each key is looked up separately in one query: with a list, it might scan the whole set, as it
    underestimates the size of new ones.
    """
    unique_keys = list(dict.fromkeys(keys))
    query = select(table.c[key], table.c[value]).where(table.c.project == project, table.c.testset == testset)
    for key_batch in split_batches(unique_keys, _MAX_KEYS):
        if db.dialect.name == "postgresql":
            batch = func.unnest(literal(key_batch, ARRAY(BYTEA))).table_valued("key").render_derived()
            match = query.where(table.c[key] == batch.c.key).limit(1).lateral()
            yield from db.execute(select(match.c[key], match.c[value]).select_from(batch.join(match, true())))
        else:
            yield from db.execute(query.where(table.c[key].in_(key_batch)))


def read_contents(db: Connection, project: str, testset: str, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the JSON of row contents by hash."""
    rows = lookup_rows(db, table, "hash", "data", project, testset, hashes)
    return {bytes(row.hash): bytes(row.data) for row in rows}


def insert_contents(
    db: Connection, project: str, testset: str, contents: Mapping[bytes, bytes], *, added: int = 0
) -> None:
    """Store JSON by hash. An import skips existing rows; a commit (`added` 0) takes them over from an import."""
    if not contents:
        return
    ordered = sorted(contents.items())  # In index order, for sequential writes.
    if db.dialect.name == "postgresql":
        # As two arrays, many times faster than row by row.
        columns = ["project", "testset", "added", "hash", "data"]
        arrays = (func.unnest(literal(list(column), ARRAY(BYTEA))) for column in zip(*ordered, strict=True))
        rows = select(literal(project), literal(testset), literal(added, BigInteger), *arrays)
        db.execute(_on_conflict(postgresql.insert(table).from_select(columns, rows), added))
        return
    common = {"project": project, "testset": testset, "added": added}
    db.execute(
        _on_conflict(sqlite.insert(table), added), [{**common, "hash": name, "data": data} for name, data in ordered]
    )


def _on_conflict(insert: Any, added: int) -> Any:
    if added:
        return insert.on_conflict_do_nothing()
    key = ["project", "testset", "hash"]
    return insert.on_conflict_do_update(index_elements=key, set_={"added": 0}, where=table.c.added != 0)


def read_metas(db: Connection, project: str, testset: str, rows: Sequence[bytes]) -> dict[bytes, Any]:
    """Return the metadata of rows by packed id."""
    found_rows = lookup_rows(db, meta_table, "row", "meta", project, testset, rows)
    return {bytes(row.row): row.meta for row in found_rows}


def insert_metas(db: Connection, project: str, testset: str, metas: Mapping[bytes, Any], *, added: int = 0) -> None:
    """Store metadata of rows, replacing existing metadata."""
    if not metas:
        return
    insert = dialect_insert(db, meta_table)
    key = ["project", "testset", "row"]
    upsert = insert.on_conflict_do_update(index_elements=key, set_={"meta": insert.excluded.meta})
    rows = [
        {"project": project, "testset": testset, "row": row, "added": added, "meta": meta}
        for row, meta in sorted(metas.items())
    ]
    db.execute(upsert, rows)
