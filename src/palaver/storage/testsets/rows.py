"""What rows hold: once for each hash, whatever revisions and rows have it. And what came with them, by row."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, func, literal, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

from palaver.storage.testsets.lookup import looked_up
from palaver.storage.testsets.tables import testset_contents as table
from palaver.storage.testsets.tables import testset_meta as meta_table


def contents(db: Connection, project: str, testset: str, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
    """The JSON of each of these."""
    found = looked_up(db, table, "hash", "data", project, testset, hashes)
    return {bytes(row.hash): bytes(row.data) for row in found}


def add(db: Connection, project: str, testset: str, given: Mapping[bytes, bytes], *, added: int = 0) -> None:
    """Keep JSON under its hash. An import leaves what is there; a commit takes it over from whichever brought it."""
    if not given:
        return
    ordered = sorted(given.items())  # As the index is, which then changes from left to right.
    if db.dialect.name == "postgresql":
        # As two lists: row by row it would take many times as long.
        named = ["project", "testset", "added", "hash", "data"]
        lists = (func.unnest(literal(list(one), ARRAY(BYTEA))) for one in zip(*ordered, strict=True))
        rows = select(literal(project), literal(testset), literal(added, BigInteger), *lists)
        db.execute(_kept(postgresql.insert(table).from_select(named, rows), added))
        return
    common = {"project": project, "testset": testset, "added": added}
    db.execute(_kept(sqlite.insert(table), added), [{**common, "hash": name, "data": data} for name, data in ordered])


def _kept(insert: Any, added: int) -> Any:
    if added:
        return insert.on_conflict_do_nothing()
    key = ["project", "testset", "hash"]
    return insert.on_conflict_do_update(index_elements=key, set_={"added": 0}, where=table.c.added != 0)


def metas(db: Connection, project: str, testset: str, rows: Sequence[bytes]) -> dict[bytes, Any]:
    """What came with these rows, by packed id; of those that have any."""
    found = looked_up(db, meta_table, "row", "meta", project, testset, rows)
    return {bytes(row.row): row.meta for row in found}


def add_metas(db: Connection, project: str, testset: str, given: Mapping[bytes, Any], *, added: int = 0) -> None:
    """Keep what came with rows, in place of what came before."""
    if not given:
        return
    insert: Any = postgresql.insert(meta_table) if db.dialect.name == "postgresql" else sqlite.insert(meta_table)
    key = ["project", "testset", "row"]
    put = insert.on_conflict_do_update(index_elements=key, set_={"meta": insert.excluded.meta})
    rows = [
        {"project": project, "testset": testset, "row": row, "added": added, "meta": meta}
        for row, meta in sorted(given.items())
    ]
    db.execute(put, rows)
