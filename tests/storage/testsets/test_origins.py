"""Test set rows that were copied from labelled data are found."""

from typing import Any

from sqlalchemy import insert

from palaver.storage.database import Database
from palaver.storage.erasure import find_copied_rows
from palaver.storage.spans.retention import Label
from palaver.storage.tables import runs
from palaver.storage.testsets import rows as testset_rows
from tests.storage.span_factory import insert_rows, span_row, trace_id
from tests.storage.thread_factory import run_row

CONVERSATION = {"source": {"kind": "conversation", "id": "conv_1", "upto": None}}
TRACE = {"source": {"kind": "trace", "trace_id": trace_id("t"), "span_id": None}}


async def test_copied_rows_are_found_by_the_labels_of_their_source(database: Database) -> None:
    metas: dict[bytes, Any] = {
        b"\0" * 15 + b"\1": CONVERSATION,
        b"\0" * 15 + b"\2": TRACE,
        b"\0" * 15 + b"\3": {"source": {"kind": "conversation", "id": "conv_2", "upto": None}},
        b"\0" * 15 + b"\4": {"__id__": "7c1e"},
    }
    await database.write(testset_rows.insert_metas, "default", "ts_1", metas)
    theirs = run_row("run_1", "conv_1", user="ann", session="s-1")
    await database.write(lambda db: db.execute(insert(runs), [theirs]))
    await insert_rows(database, span_row("root", project="default", user="ann"))

    def reference(last: str) -> dict[str, str]:
        return {"kind": "row", "id": f"row_{'0' * 25}{last}", "testset": "ts_1"}

    labels: list[tuple[Label, str]] = [("user", "ann"), ("session", "s-1"), ("session", "conv_2"), ("user", "bob")]
    result = {(label, value): await database.read(find_copied_rows, "default", label, value) for label, value in labels}
    assert result == {
        ("user", "ann"): [reference("1"), reference("2")],
        ("session", "s-1"): [reference("1")],
        ("session", "conv_2"): [reference("3")],
        ("user", "bob"): [],
    }
    assert await database.read(find_copied_rows, "other", "user", "ann") == []
