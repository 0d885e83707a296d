"""Looking up many rows of a set by their keys, by the index and nothing else.

Asked with a list, PostgreSQL may read all of a set and throw away what is not in the list: of a set that just came in
it believes that it is small. So there each key is looked up by itself, in one question.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table, func, literal, select, true
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA

_AT_ONCE = 400


def looked_up(
    db: Connection, table: Table, key: str, value: str, project: str, testset: str, keys: Sequence[bytes]
) -> Iterator[Any]:
    """The key and the value of each row of the set that has one of these keys."""
    wanted = list(dict.fromkeys(keys))
    asked = select(table.c[key], table.c[value]).where(table.c.project == project, table.c.testset == testset)
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        if db.dialect.name == "postgresql":
            named = func.unnest(literal(some, ARRAY(BYTEA))).table_valued("key").render_derived()
            one = asked.where(table.c[key] == named.c.key).limit(1).lateral()
            yield from db.execute(select(one.c[key], one.c[value]).select_from(named.join(one, true())))
        else:
            yield from db.execute(asked.where(table.c[key].in_(some)))
