"""/api/threads: conversations over HTTP."""

from datetime import UTC, datetime
from typing import Any

import httpx
from litestar import Litestar

from palaver.core.boards import BoardColumn, BoardRow, Cell, Grid
from palaver.core.messages import Message
from palaver.server.api.threads import PartialReply
from palaver.storage import boards, files, runs
from palaver.storage.boards import Board
from palaver.storage.database import Database
from palaver.storage.files import StoredFile
from palaver.storage.threads import repository as kept
from tests.server.thread_app import (
    TALK,
    app,
    create_thread,
    database,
    http,
    ids,
    message_item,
    partial_replies,
    problem,
    stranger,
)
from tests.storage.thread_factory import NOW, run_row

__all__ = ["app", "database", "http", "stranger"]  # Fixtures.


# Threads


async def test_a_created_thread_can_be_read(http: httpx.AsyncClient) -> None:
    body = {
        "workflow": "tutor",
        "variant": "short:3",
        "parameters": {"t": 1},
        "inputs": {"subject": "physics"},
        "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    }
    answer = await http.post("/api/threads", json=body)
    thread = answer.json()
    fetched = await http.get(answer.headers["location"])

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/threads/{thread['id']}"
    assert thread["id"].startswith("conv_")
    assert thread["in"]["text"] == "Why is the sky blue?"
    assert {name: thread[name] for name in thread if name not in ("id", "in", "out", "created_at", "updated_at")} == {
        "title": "Why is the sky blue?",
        "title_by": "auto",
        "workflow": "tutor",
        "variant": "short:3",
        "parameters": {"t": 1},
        "inputs": {"subject": "physics"},
        "metadata": {},
        "head": thread["head"],
        "run": None,
        "pinned": False,
        "origin": "playground",
        "board": None,
        "messages": 1,
    }
    assert fetched.json() == thread
    assert fetched.headers["etag"] == answer.headers["etag"]
    again = await http.get(answer.headers["location"], headers={"if-none-match": fetched.headers["etag"]})
    assert again.status_code == 304


async def test_an_invalid_thread_is_rejected_and_not_stored(http: httpx.AsyncClient) -> None:
    async def refused(**body: Any) -> tuple[int, str, str | None]:
        return problem(await http.post("/api/threads", json={"workflow": "tutor", **body}))

    many = [{"role": "user", "content": "x"}] * 2001
    result = [{"role": "tool", "tool_call_id": "c9", "content": "x"}]
    long = [{"role": "user", "parts": [{"type": "text", "text": "x"}] * 4}]
    file = [{"role": "user", "parts": [{"type": "file", "media_type": "image/png", "file_id": "file_x"}]}]

    assert await refused(workflow="other") == (404, "workflow_not_found", None)
    assert await refused(workflow=None) == (400, "invalid_type", "/workflow")
    assert await refused(title="x" * 201) == (422, "invalid_value", "/title")
    assert await refused(variant="a:b:c") == (422, "invalid_parameter", "/variant")
    assert await refused(variant="other@short") == (422, "invalid_value", "/variant")
    assert await refused(parameters={"a": "x" * 300_000}) == (413, "too_large", "/parameters")
    assert await refused(messages="hello") == (422, "invalid_messages", "/messages")
    assert await refused(messages=many) == (422, "invalid_value", "/messages")
    assert await refused(messages=result) == (400, "unknown_call", "/messages/0")
    assert await refused(messages=long) == (422, "invalid_value", "/messages/0")
    assert await refused(messages=file) == (404, "not_found", "/messages/0/parts/0/file_id")
    assert await refused(cell={"board": "brd_x", "row": "r", "column": "c"}) == (404, "not_found", None)
    assert (await http.get("/api/threads")).json() == {"data": [], "next": None}


async def test_a_thread_may_be_the_cell_of_a_board(http: httpx.AsyncClient, database: Database) -> None:
    grid = Grid(columns=(BoardColumn(id="c1", workflow="tutor"),), rows=(BoardRow(id="r1"),))
    board = Board(id="brd_1", grid=grid, created_at=NOW, updated_at=NOW)
    await database.write(boards.create_board, "default", board)

    thread = await create_thread(http, cell={"board": "brd_1", "row": "r1", "column": "c1"})

    assert thread["board"] == "brd_1"
    assert await database.read(boards.list_cells, "default", "brd_1") == (
        Cell(row="r1", column="c1", thread=thread["id"]),
    )
    (await http.delete(f"/api/threads/{thread['id']}")).raise_for_status()
    assert await database.read(boards.list_cells, "default", "brd_1") == (Cell(row="r1", column="c1"),)


async def test_a_file_in_a_message_is_marked_as_used(http: httpx.AsyncClient, database: Database) -> None:
    fields: Any = {"media_type": "image/png", "filename": "sky.png", "bytes": 1, "sha256": "9f", "created_at": NOW}
    await database.write(
        files.insert_file, StoredFile(project="default", id="file_1", **fields), [b"x"], max_total_bytes=10
    )
    part = {"type": "file", "media_type": "image/png", "file_id": "file_1"}
    thread = (await create_thread(http, messages=[]))["id"]

    response = await http.post(
        f"/api/threads/{thread}/messages", json={"messages": [{"role": "user", "parts": [part]}]}
    )

    file = await database.read(files.get_file, "default", "file_1")
    assert response.json()["messages"][0]["parts"] == [{**part, "filename": "sky.png"}]
    assert file is not None
    assert file.used


async def test_a_repeated_request_with_the_same_idempotency_key_creates_one_thread(http: httpx.AsyncClient) -> None:
    headers = {"idempotency-key": "once"}
    first = await http.post("/api/threads", json={"workflow": "tutor"}, headers=headers)
    second = await http.post("/api/threads", json={"workflow": "tutor"}, headers=headers)

    assert second.json() == first.json()
    assert second.headers["idempotency-replayed"] == "true"
    assert len((await http.get("/api/threads")).json()["data"]) == 1


async def test_threads_are_listed_in_pages_and_searched_by_message_text_and_title(http: httpx.AsyncClient) -> None:
    names = [(await create_thread(http, title=f"number {n}"))["id"] for n in range(3)]
    first = (await http.get("/api/threads", params={"limit": 2})).json()
    second = (await http.get("/api/threads", params={"limit": 2, "after": first["next"]})).json()
    searched = (await http.get("/api/threads", params={"search": "SKY"})).json()
    titled = (await http.get("/api/threads", params={"search": "number 1"})).json()

    assert [row["id"] for row in (*first["data"], *second["data"])] == names[::-1]
    assert "parameters" not in first["data"][0]
    assert "match" not in first["data"][0]
    assert [row["match"] for row in searched["data"]] == [{"message": "u1", "text": "Why is the sky blue?"}] * 3
    assert [row["match"] for row in titled["data"]] == [{"message": None, "text": "number 1"}]
    bad = await http.get("/api/threads", params={"after": first["next"], "search": "sky"})
    assert problem(bad) == (400, "invalid_value", "?after")
    assert problem(await http.get("/api/threads", params={"limit": 0})) == (400, "invalid_value", "?limit")


async def test_the_thread_list_can_be_filtered(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http))["id"]
    (await http.patch(f"/api/threads/{thread}", json={"pinned": True})).raise_for_status()

    async def count(**query: Any) -> int:
        return len((await http.get("/api/threads", params=query)).json()["data"])

    assert await count(pinned="true") == 1
    assert await count(pinned="false") == 0
    assert await count(workflow="tutor", origin="playground") == 1
    assert await count(workflow="other") == 0
    assert await count(origin="api") == 0


async def test_a_patch_changes_only_the_fields_it_names(http: httpx.AsyncClient) -> None:
    before = await create_thread(http, inputs={"a": 1}, parameters={"b": 2}, variant="v:1")
    url = f"/api/threads/{before['id']}"

    changed = await http.patch(
        url, json={"title": "Sky", "pinned": True, "inputs": None, "variant": None, "parameters": {"c": 3}}
    )
    cleared = await http.patch(url, json={"title": "", "pinned": None, "parameters": None})
    nothing = await http.patch(url, json={"unknown": 1})

    expected = {"title": "Sky", "title_by": "user", "pinned": True, "inputs": {}, "variant": None}
    assert changed.json() == before | expected | {"parameters": {"c": 3}}
    assert cleared.json() == before | {"inputs": {}, "variant": None, "parameters": {}}
    assert nothing.json() == cleared.json()
    assert problem(await http.patch(url, json={"workflow": "other"})) == (404, "workflow_not_found", None)
    assert (await http.patch(url, json={"workflow": None})).json()["workflow"] is None


async def test_a_change_or_deletion_with_a_stale_if_match_is_rejected(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http))["id"]
    tag = (await http.get(f"/api/threads/{thread}")).headers["etag"]
    changed = await http.patch(f"/api/threads/{thread}", json={"pinned": True}, headers={"if-match": tag})
    stale = await http.patch(f"/api/threads/{thread}", json={"pinned": False}, headers={"if-match": tag})
    stale_delete = await http.delete(f"/api/threads/{thread}", headers={"if-match": tag})

    assert changed.status_code == 200
    assert problem(stale) == problem(stale_delete) == (412, "stale_base", None)
    assert stale.json()["error"]["details"] == {"etag": changed.headers["etag"]}


async def test_a_thread_is_deleted_unless_a_run_is_active_in_it(http: httpx.AsyncClient, database: Database) -> None:
    thread = (await create_thread(http))["id"]
    await database.write(kept.claim_thread, "default", thread, "run_1")
    refused = await http.delete(f"/api/threads/{thread}")
    await database.write(kept.release_thread, "default", thread, "run_1")
    deleted = await http.delete(f"/api/threads/{thread}")

    assert problem(refused) == (409, "still_running", None)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert problem(await http.get(f"/api/threads/{thread}")) == (404, "thread_not_found", None)


async def test_another_projects_thread_is_answered_like_an_unknown_one(
    http: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    thread = (await create_thread(http))["id"]
    requests = [
        ("GET", "", None),
        ("PATCH", "", {"pinned": True}),
        ("DELETE", "", None),
        ("GET", "/messages", None),
        ("POST", "/messages", {"messages": TALK}),
        ("DELETE", "/messages/u1", None),
        ("GET", "/tree", None),
        ("POST", "/duplicate", {}),
        ("GET", "/export", None),
        ("GET", "/export?format=html", None),
    ]
    for method, suffix, body in requests:
        theirs = await stranger.request(method, f"/api/threads/{thread}{suffix}", json=body)
        unknown = await stranger.request(method, f"/api/threads/{thread[:-1]}0{suffix}", json=body)

        assert problem(theirs) == problem(unknown) == (404, "thread_not_found", None), (method, suffix)
        assert theirs.content == unknown.content.replace(f"{thread[:-1]}0".encode(), thread.encode())
    assert (await stranger.get("/api/threads")).json()["data"] == []
    assert (await stranger.get("/api/threads/export")).content == b""
    assert await ids(http, thread) == ["u1", "a1"]


# Messages


async def test_a_message_in_another_dialect_is_appended_below_the_head(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http))["id"]
    answer = await http.post(f"/api/threads/{thread}/messages", json={"messages": {"role": "user", "content": "And?"}})
    (node,) = answer.json()["messages"]

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/threads/{thread}/messages?at={node['id']}"
    assert node == {
        "id": node["id"],
        "parent": "a1",
        "role": "user",
        "parts": [{"type": "text", "text": "And?"}],
        "name": None,
        "metadata": {},
        "origin": "client",
        "run": None,
        "status": "done",
        "error": None,
        "siblings": [node["id"]],
        "feedback": {"up": 0, "down": 0, "mine": None},
        "usage": None,
        "seconds": None,
        "created_at": node["created_at"],
    }
    assert (await http.get(f"/api/threads/{thread}")).json()["head"] == node["id"]
    assert (await http.get(answer.headers["location"])).json()["data"][-1] == node


async def test_an_edit_adds_a_sibling_and_the_head_moves_between_branches(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http))["id"]
    url = f"/api/threads/{thread}"
    response = await http.post(
        f"{url}/messages", json={"messages": [message_item("user", "Better?", "u1b")], "replaces": "u1"}
    )
    assert response.json()["messages"][0]["siblings"] == ["u1", "u1b"]

    moved = await http.patch(url, json={"head": {"through": "u1"}})
    exact = await http.patch(url, json={"head": "u1b"})

    assert (moved.json()["head"], exact.json()["head"]) == ("a1", "u1b")
    assert await ids(http, thread, at="a1") == ["u1", "a1"]
    assert (await http.patch(url, json={"head": None})).json()["head"] is None
    assert await ids(http, thread) == []
    first = await http.post(f"{url}/messages", json={"messages": [message_item("user", "Anew", "v")], "parent": None})
    assert first.json()["messages"][0]["parent"] is None
    at_head = await http.post(f"{url}/messages", json={"messages": [message_item("user", "x", "w")], "parent": "head"})
    assert at_head.json()["messages"][0]["parent"] == "v"


async def test_invalid_messages_and_unknown_parents_are_rejected(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http))["id"]

    async def refused(**body: Any) -> tuple[int, str, str | None]:
        request_body = {"messages": [{"role": "user", "content": "x"}]} | body
        return problem(await http.post(f"/api/threads/{thread}/messages", json=request_body))

    result = [{"role": "tool", "tool_call_id": "c9", "content": "x"}]
    assert await refused(messages=[]) == (422, "invalid_value", "/messages")
    assert await refused(messages=[{"role": "user", "content": "x"}] * 101) == (422, "invalid_value", "/messages")
    assert await refused(parent="nobody") == (404, "item_not_found", "/parent")
    assert await refused(parent="\0") == (404, "item_not_found", "/parent")
    assert await refused(replaces="nobody") == (404, "item_not_found", "/replaces")
    assert await refused(replaces="u1", parent="a1") == (400, "conflicting_fields", "/parent")
    assert await refused(messages=result) == (400, "unknown_call", "/messages")
    assert problem(await http.get(f"/api/threads/{thread}/messages?at=nobody")) == (404, "item_not_found", None)
    assert problem(await http.patch(f"/api/threads/{thread}", json={"head": "nobody"})) == (
        404,
        "item_not_found",
        "/head",
    )


async def test_a_tool_result_must_answer_an_open_call_of_the_branch(http: httpx.AsyncClient) -> None:
    call = {"role": "assistant", "parts": [{"type": "tool-call", "call_id": "c1", "name": "f", "arguments": "{}"}]}
    thread = (await create_thread(http, messages=[TALK[0], call]))["id"]
    result = {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "42"}]}

    first = await http.post(f"/api/threads/{thread}/messages", json=result)
    second = await http.post(f"/api/threads/{thread}/messages", json=result)

    assert first.status_code == 201
    assert problem(second) == (400, "unknown_call", "/messages")


async def test_a_branch_is_paginated_from_its_end(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http, messages=[message_item("user", str(n), f"n{n}") for n in range(5)]))["id"]
    first = (await http.get(f"/api/threads/{thread}/messages?limit=2")).json()
    second = (await http.get(f"/api/threads/{thread}/messages?limit=2&after={first['next']}")).json()

    assert [[node["id"] for node in page["data"]] for page in (first, second)] == [["n3", "n4"], ["n1", "n2"]]


async def test_a_message_is_deleted_with_or_without_its_descendants(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http, messages=[message_item("user", str(n), f"n{n}") for n in range(4)]))["id"]
    single = await http.delete(f"/api/threads/{thread}/messages/n1?below=keep")
    assert await ids(http, thread) == ["n0", "n2", "n3"]
    subtree = await http.delete(f"/api/threads/{thread}/messages/n2")
    assert await ids(http, thread) == ["n0"]

    assert (single.status_code, subtree.status_code) == (204, 204)
    assert problem(await http.delete(f"/api/threads/{thread}/messages/n2")) == (404, "item_not_found", None)
    odd = await http.delete(f"/api/threads/{thread}/messages/n0?below=odd")
    assert problem(odd) == (400, "invalid_value", "?below")


async def test_the_tree_lists_all_branches_with_one_line_per_message(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http))["id"]
    (
        await http.post(
            f"/api/threads/{thread}/messages", json={"messages": [message_item("user", "b", "b1")], "replaces": "u1"}
        )
    ).raise_for_status()
    first = (await http.get(f"/api/threads/{thread}/tree?limit=2")).json()
    second = (await http.get(f"/api/threads/{thread}/tree?limit=2&after={first['next']}")).json()

    assert [*first["data"], *second["data"]] == [
        {"id": "u1", "parent": None, "role": "user", "run": None, "status": "done", "line": "Why is the sky blue?"},
        {"id": "a1", "parent": "u1", "role": "assistant", "run": None, "status": "done", "line": "Because."},
        {"id": "b1", "parent": None, "role": "user", "run": None, "status": "done", "line": "b"},
    ]


async def test_the_partial_reply_of_an_active_run_is_shown_below_its_question(
    http: httpx.AsyncClient, database: Database
) -> None:
    thread = (await create_thread(http))["id"]
    await database.write(kept.claim_thread, "default", thread, "run_1")
    first_message = Message(role="assistant", parts=(), id="s1")
    reply = [first_message, Message(role="assistant", parts=(), id="s2"), Message(role="assistant", parts=())]
    partial_replies["run_1"] = PartialReply(answers="u1", messages=reply, since=datetime(2026, 1, 1, tzinfo=UTC))

    other_branch = await ids(http, thread)
    answered = (await http.get(f"/api/threads/{thread}/messages?at=u1")).json()["data"]
    first = (await http.get(f"/api/threads/{thread}/messages?at=s1")).json()["data"]
    tree = (await http.get(f"/api/threads/{thread}/tree")).json()["data"]
    part = (await http.get(f"/api/threads/{thread}/tree?limit=1")).json()["data"]
    partial_replies.clear()

    assert other_branch == ["u1", "a1"]
    assert [(node["id"], node["status"], node["siblings"]) for node in answered] == [
        ("u1", "done", ["u1"]),
        ("s1", "streaming", ["a1", "s1"]),
        ("s2", "streaming", ["s2"]),
    ]
    assert [node["id"] for node in first] == ["u1", "s1"]
    assert [node["id"] for node in tree] == ["u1", "a1", "s1", "s2"]
    assert [node["id"] for node in part] == ["u1"]
    assert await ids(http, thread) == ["u1", "a1"]


# Copies


async def test_a_thread_is_copied_and_forked(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http, inputs={"a": 1}, variant="v:1"))["id"]
    url = f"/api/threads/{thread}"
    (
        await http.post(
            f"{url}/messages", json={"messages": [message_item("assistant", "Or not.", "a2")], "replaces": "a1"}
        )
    ).raise_for_status()

    copy = (await http.post(f"{url}/duplicate", json={})).json()
    fork = (await http.post(f"{url}/duplicate", json={"upto": "u1", "title": "Fork", "variant": None})).json()
    all_branches = (await http.post(f"{url}/duplicate", json={"branches": "all", "upto": "a1"})).json()

    assert (copy["title"], copy["title_by"], copy["head"], copy["messages"]) == (
        "Why is the sky blue?",
        "auto",
        "a2",
        2,
    )
    assert (copy["inputs"], copy["variant"], copy["workflow"]) == ({"a": 1}, "v:1", "tutor")
    assert (fork["title"], fork["title_by"], fork["head"], fork["messages"], fork["variant"]) == (
        "Fork",
        "user",
        "u1",
        1,
        None,
    )
    assert (all_branches["head"], all_branches["messages"]) == ("a1", 3)
    assert await ids(http, copy["id"]) == ["u1", "a2"]
    assert await ids(http, all_branches["id"], at="a2") == ["u1", "a2"]
    assert problem(await http.post(f"{url}/duplicate", json={"upto": "nobody"})) == (404, "item_not_found", "/upto")
    assert problem(await http.post(f"{url}/duplicate", json={"workflow": "no"})) == (404, "workflow_not_found", None)


# Feedback


async def test_feedback_counts_once_per_user_and_is_shown_on_the_message(
    http: httpx.AsyncClient, stranger: httpx.AsyncClient, database: Database
) -> None:
    thread = (await create_thread(http, messages=TALK[:1]))["id"]
    await database.write(runs.insert_runs, [run_row("run_1", thread), run_row("run_2", None, trace_id="0ef1")])
    messages = [Message(role="assistant", parts=(), id="m1"), Message(role="assistant", parts=(), id="m2")]
    await database.write(
        kept.append_run_output, "default", thread, run="run_1", answers="u1", messages=messages, status="done", at=NOW
    )

    async def rate(run: str = "run_1", **body: Any) -> Any:
        answer = await http.put(f"/api/runs/{run}/feedback", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    down = await rate(rating="down", comment="no\0!", message="m2")
    up = await rate(rating="up")
    other = await rate("resp_1", rating="down", user="u-7")
    without_thread = await rate("chatcmpl-run_2", rating="up", message="any")

    assert down["comment"] == "no\ufffd!"
    assert up == {
        "run": "run_1",
        "message": "m2",
        "rating": "up",
        "comment": "",
        "user": None,
        "feedback": {"up": 1, "down": 0, "mine": "up"},
    }
    assert (other["user"], other["feedback"]) == ("u-7", {"up": 1, "down": 1, "mine": "up"})
    assert (without_thread["run"], without_thread["message"]) == ("run_2", "any")
    shown = (await http.get(f"/api/threads/{thread}/messages")).json()["data"]
    assert [node["feedback"]["up"] for node in shown] == [0, 0, 1]

    listed = (await http.get("/api/feedback")).json()["data"]
    assert [(row["run"], row["rating"], row["key"], row["user"], row["source"]) for row in listed] == [
        ("run_2", "up", "key_ab12cd34", None, {"kind": "trace", "id": "0ef1"}),
        ("run_1", "down", "key_ab12cd34", "u-7", {"kind": "conversation", "id": thread, "upto": "m2"}),
        ("run_1", "up", "key_ab12cd34", None, {"kind": "conversation", "id": thread, "upto": "m2"}),
    ]
    assert len((await http.get("/api/feedback?rating=up&workflow=tutor&from=2026-01-01T00:00:00Z")).json()["data"]) == 2
    assert (await http.get("/api/feedback?workflow=other")).json()["data"] == []
    assert problem(await http.get("/api/feedback?from=now")) == (400, "invalid_value", "?from")

    removed = await rate(rating=None)
    assert (removed["rating"], removed["feedback"]) == (None, {"up": 0, "down": 1, "mine": None})
    assert problem(await http.put("/api/runs/run_9/feedback", json={"rating": "up"})) == (404, "run_not_found", None)
    assert problem(await stranger.put("/api/runs/run_1/feedback", json={"rating": "up"}))[1] == "run_not_found"
    foreign = await http.put("/api/runs/run_1/feedback", json={"rating": "up", "message": "u1"})
    assert problem(foreign) == (404, "item_not_found", "/message")
    assert (await stranger.get("/api/feedback")).json()["data"] == []


async def test_feedback_on_a_run_without_a_thread_has_no_message(http: httpx.AsyncClient, database: Database) -> None:
    await database.write(runs.insert_runs, [run_row("run_1", None)])

    answer = await http.put("/api/runs/run_1/feedback", json={"rating": "up"})

    assert answer.json()["message"] is None
    assert (await http.get("/api/feedback")).json()["data"][0]["message"] is None


async def test_openapi_lists_the_thread_and_feedback_routes(app: Litestar) -> None:
    document = app.openapi_schema.to_schema()

    assert {path for path in document["paths"] if "threads" in path or "feedback" in path} == {
        "/api/threads",
        "/api/threads/{thread}",
        "/api/threads/{thread}/messages",
        "/api/threads/{thread}/messages/{message}",
        "/api/threads/{thread}/tree",
        "/api/threads/{thread}/duplicate",
        "/api/threads/{thread}/export",
        "/api/threads/export",
        "/api/threads/import",
        "/api/runs/{run}/feedback",
        "/api/feedback",
    }
