"""Export and import of threads: JSON lines that round-trip, test cases, and an inert HTML page."""

import re
from html.parser import HTMLParser
from typing import Any

import httpx
import msgspec
import pytest

from palaver.core.messages import Data, File, Message, Reasoning, Refusal, Text, ToolCall, ToolResult
from palaver.server.api.html_export import PAGE_POLICY
from palaver.storage.database import Database
from palaver.storage.threads import repository as kept
from palaver.storage.threads.repository import ThreadChanges
from tests.server.thread_app import app, create_thread, database, http, message_item, problem, stranger
from tests.storage.thread_factory import NOW

__all__ = ["app", "database", "http", "stranger"]  # Fixtures.

NDJSON_HEADERS = {"content-type": "application/x-ndjson"}


async def test_exported_threads_round_trip_through_import(http: httpx.AsyncClient, stranger: httpx.AsyncClient) -> None:
    for number in range(3):
        await create_thread(http, title=f"number {number}")
    thread_id = (await http.get("/api/threads?search=number 1")).json()["data"][0]["id"]

    exported = await http.get("/api/threads/export")
    imported = await stranger.post("/api/threads/import", content=exported.content, headers=NDJSON_HEADERS)
    again = await stranger.post("/api/threads/import", content=exported.content, headers=NDJSON_HEADERS)

    assert exported.headers["content-type"].startswith("application/x-ndjson")
    assert exported.headers["content-disposition"] == 'attachment; filename="threads.jsonl"'
    assert (await stranger.get("/api/threads/export")).content == exported.content
    report = imported.json()
    assert (report["created"], report["unchanged"], len(report["threads"]), report["faults"]) == (3, 0, 3, [])
    assert again.json() == {"created": 0, "unchanged": 3, "threads": [], "faults": []}
    single = await http.get(f"/api/threads/{thread_id}/export")
    assert single.headers["content-disposition"] == f'attachment; filename="{thread_id}.jsonl"'
    assert single.content in exported.content
    assert (await http.get("/api/threads/export?search=number 1")).content == single.content


async def test_an_export_of_many_threads_has_them_all(http: httpx.AsyncClient) -> None:
    for _ in range(52):
        await create_thread(http, messages=[])

    exported = await http.get("/api/threads/export")

    assert len({msgspec.json.decode(line)["id"] for line in exported.content.splitlines()}) == 52


async def test_an_import_file_with_invalid_lines_creates_nothing(http: httpx.AsyncClient) -> None:
    await create_thread(http)
    good = (await http.get("/api/threads/export")).content.strip().replace(b"u1", b"u9")
    body = b"\n".join([good, b"", b"{", b'{"palaver": "thread/1"}', good.replace(b"thread/1", b"thread/2")])

    answer = await http.post("/api/threads/import", content=body, headers=NDJSON_HEADERS)

    report = answer.json()
    assert answer.status_code == 200
    assert (report["created"], report["threads"]) == (0, [])
    assert [(fault["line"], fault["code"], fault.get("path")) for fault in report["faults"]] == [
        (3, "invalid_json", None),
        (4, "invalid_body", "/id"),
        (5, "invalid_value", "/palaver"),
    ]
    assert len((await http.get("/api/threads")).json()["data"]) == 1
    wrong = await http.post("/api/threads/import", json={})
    assert problem(wrong) == (415, "unsupported_media_type", None)


async def test_branches_are_exported_as_test_cases(http: httpx.AsyncClient) -> None:
    thread = (await create_thread(http, inputs={"subject": "x"}))["id"]
    edit = {"messages": [message_item("user", "Or?", "v1")], "replaces": "u1"}
    (await http.post(f"/api/threads/{thread}/messages", json=edit)).raise_for_status()

    def texts(answer: httpx.Response) -> list[Any]:
        cases = [msgspec.json.decode(line) for line in answer.content.splitlines()]
        assert all(case["inputs"] == {"subject": "x"} for case in cases)
        return [[message["content"] for message in case["messages"]] for case in cases]

    url = f"/api/threads/{thread}/export?format=messages"
    assert texts(await http.get(url)) == [["Or?"]]
    assert texts(await http.get(f"{url}&branches=all")) == [["Why is the sky blue?", "Because."], ["Or?"]]
    assert texts(await http.get("/api/threads/export?format=messages")) == [["Or?"]]
    assert problem(await http.get("/api/threads/export?format=html")) == (400, "invalid_value", "?format")
    assert problem(await http.get(f"/api/threads/{thread}/export?format=pdf")) == (400, "invalid_value", "?format")


# The HTML page

ATTACKS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "\u2028\u2029\u202e",
    "<base href=//evil>",
    "<meta http-equiv=refresh content=0;url=//evil>",
]


class ParsedPage(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def _hostile_messages(attack: str) -> list[Message]:
    png = "iVBORw0KGgo="
    parts = (
        Text(attack),
        Reasoning(attack),
        Refusal(attack),
        ToolCall("c1", attack, attack),
        Data(attack, {attack: attack}),
        File(attack, url=attack, filename=attack),
        File("image/png", data='"onerror=alert(1)'),
        File("image/svg+xml", data=png),
        File("image/png", url="https://evil/x.png"),
        File("image/png", data=png, filename=attack),
        File("image/gif", url=f"data:image/gif;base64,{png}"),
        File("image/png", url="data:image/svg+xml;base64,PHN2Zz4="),
    )
    result = ToolResult("c1", {attack: [attack]}, is_error=True)
    return [
        Message("user", (Text(attack),), name=attack, metadata={attack: attack}),
        Message("assistant", parts),
        Message("tool", (result, ToolResult("c1", attack))),
    ]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_hostile_message_content_is_inert_in_the_html_page(
    http: httpx.AsyncClient, database: Database, attack: str
) -> None:
    thread = (await create_thread(http, messages=[]))["id"]
    await database.write(
        kept.update_thread, "default", thread, ThreadChanges(title=attack[:200], metadata={attack: attack})
    )
    await database.write(
        kept.append_messages, "default", thread, None, _hostile_messages(attack), origin="client", at=NOW
    )

    answer = await http.get(f"/api/threads/{thread}/export?format=html")
    page = ParsedPage()
    page.feed(answer.text)

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{thread}.html"'
    assert answer.headers["content-security-policy"] == f"{PAGE_POLICY}; sandbox"
    assert ("meta", "content", PAGE_POLICY) in page.attributes
    assert set(page.tags) == {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "article", "p", "em", "pre", "details",
        "summary", "img", "script",
    }  # fmt: skip
    assert page.tags.count("script") == 1
    assert {(tag, name) for tag, name, _ in page.attributes} == {
        ("html", "lang"), ("meta", "charset"), ("meta", "http-equiv"), ("meta", "content"), ("meta", "name"),
        ("h1", "dir"), ("p", "dir"), ("p", "class"), ("article", "class"), ("img", "alt"), ("img", "src"),
        ("script", "type"), ("script", "id"),
    }  # fmt: skip
    assert {value for tag, name, value in page.attributes if (tag, name) == ("img", "src")} == {
        "data:image/png;base64,iVBORw0KGgo=",
        "data:image/gif;base64,iVBORw0KGgo=",
    }
    assert ("script", "type", "application/json") in page.attributes
    assert "default-src 'none'" in PAGE_POLICY
    data = re.search(r'<script type="application/json" id="thread">(.*?)</script>', answer.text, re.DOTALL)
    assert data is not None
    assert "<" not in data[1]
    line = (await http.get(f"/api/threads/{thread}/export")).json()
    assert msgspec.json.decode(data[1]) == line
    if attack.isprintable():
        assert attack in page.text


async def test_the_html_page_shows_the_current_branch_and_stopped_messages(
    http: httpx.AsyncClient, database: Database
) -> None:
    thread = (await create_thread(http))["id"]
    messages = [Message.assistant("Half of")]
    await database.write(
        kept.append_run_output,
        "default",
        thread,
        run="run_1",
        answers="a1",
        messages=messages,
        status="partial",
        at=NOW,
    )

    page = (await http.get(f"/api/threads/{thread}/export?format=html")).text

    assert "<title>Why is the sky blue?</title>" in page
    assert '<article class="user"><h2>user</h2>\n<p dir="auto">Why is the sky blue?</p>' in page
    assert "<h2>assistant · stopped</h2>" in page
