"""Pages contain every row once, in order; a cursor is valid for one list only."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, insert, select

from palaver.errors import InvalidValue
from palaver.storage.database import Database
from palaver.storage.pagination import Order, Page, Window, fetch_page
from palaver.storage.tables import boards, metadata

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SORT_COLUMNS = (boards.c.updated_at, boards.c.id)


def fill(db: Connection, ids: str, project: str = "default", *, minutes: int = 1) -> None:
    for index, name in enumerate(ids):
        at = NOON + timedelta(minutes=index // minutes)
        row = {"project": project, "id": name, "name": name, "mode": "chat", "body": {}, "version": 1, "created_at": at}
        db.execute(insert(boards).values(row | {"updated_at": at}))


def page_of_names(
    db: Connection, window: Window, *, project: str = "default", search: str = "", order: Order = "newest"
) -> Page:
    query = select(boards.c.name).where(boards.c.project == project)
    filters = {"search": search}
    return fetch_page(
        db, query, lambda row: row.name, project=project, by=SORT_COLUMNS, window=window, filters=filters, order=order
    )


async def test_pages_give_every_row_once_newest_first(database: Database) -> None:
    await database.write(fill, "abcdefg", minutes=3)
    await database.write(fill, "xyz", "other")

    first = await database.read(page_of_names, Window(3))
    second = await database.read(page_of_names, Window(3, first.next))
    third = await database.read(page_of_names, Window(3, second.next))

    assert [first.data, second.data, third.data] == [["g", "f", "e"], ["d", "c", "b"], ["a"]]
    assert third.next is None


async def test_pages_can_be_ordered_oldest_first(database: Database) -> None:
    await database.write(fill, "abc")

    first = await database.read(page_of_names, Window(2), order="oldest")
    second = await database.read(page_of_names, Window(2, first.next), order="oldest")

    assert (first.data, second) == (["a", "b"], Page(["c"], None))


async def test_rows_added_between_pages_cause_no_repeats(database: Database) -> None:
    await database.write(fill, "abcd")
    first = await database.read(page_of_names, Window(2))
    await database.write(fill, "efgh")

    second = await database.read(page_of_names, Window(9, first.next))

    assert first.data == ["d", "c"]
    assert [name for name in second.data if name in "abcd"] == ["b", "a"]


async def test_full_last_page_has_no_next_cursor(database: Database) -> None:
    await database.write(fill, "ab")

    assert await database.read(page_of_names, Window(2)) == Page(["b", "a"], None)


async def test_map_converts_the_rows_of_a_page() -> None:
    assert Page([1, 2], "c").map(str) == Page(["1", "2"], "c")


async def test_cursor_is_valid_only_for_the_list_it_came_from(database: Database) -> None:
    await database.write(fill, "abc")
    await database.write(fill, "abc", "other")
    cursor = (await database.read(page_of_names, Window(1))).next
    window = Window(1, cursor)

    others: list[dict[str, Any]] = [{"project": "other"}, {"search": "x"}, {"order": "oldest"}]
    for other in others:
        with pytest.raises(InvalidValue, match="Invalid cursor") as caught:
            await database.read(page_of_names, window, **other)
        assert caught.value.pointer == "?after"
    assert (await database.read(page_of_names, window)).data == ["b"]


@pytest.fixture(scope="module")
def db():
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with engine.begin() as connection:
        fill(connection, "abcdefghij", minutes=4)
        yield connection
    engine.dispose()


@given(st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_arbitrary_text_is_rejected_as_a_cursor(db: Connection, text: str) -> None:
    with pytest.raises(InvalidValue, match="Invalid cursor"):
        page_of_names(db, Window(2, text))


@given(st.data())
def test_cursor_with_a_changed_character_is_rejected(db: Connection, data: st.DataObject) -> None:
    cursor = page_of_names(db, Window(3)).next
    assert cursor is not None
    index = data.draw(st.integers(0, len(cursor) - 2))  # The last character may hold unused bits.
    other = data.draw(st.sampled_from("AZaz09-_").filter(lambda letter: letter != cursor[index]))

    with pytest.raises(InvalidValue, match="Invalid cursor"):
        page_of_names(db, Window(2, cursor[:index] + other + cursor[index + 1 :]))


@pytest.mark.parametrize("key", [["x", "a"], [1, 2], [1], [1, "a", 1], [1 << 70, "a"], [1 << 62, "a"], [1, "a\0"]])
def test_forged_cursor_with_invalid_values_is_rejected(
    db: Connection, key: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    from palaver.storage import pagination

    monkeypatch.setattr(pagination, "_checksum", lambda key, bound: b"x" * 12)
    forged = base64.urlsafe_b64encode(b"x" * 12 + msgspec.json.encode(key)).decode().rstrip("=")

    with pytest.raises(InvalidValue, match="Invalid cursor"):
        page_of_names(db, Window(2, forged))


@given(st.integers(1, 12))
def test_pages_of_any_size_contain_the_complete_list(db: Connection, size: int) -> None:
    seen: list[str] = []
    cursor: str | None = None
    while True:
        one = page_of_names(db, Window(size, cursor))
        seen += one.data
        cursor = one.next
        if cursor is None:
            break

    assert seen == list("jihgfedcba")
