"""A trace, or the conversation of a session, as one HTML file."""

import re
from typing import Any

import httpx
import msgspec
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from palaver.server.api import html_export
from palaver.server.api.html_export import PAGE_POLICY
from tests.server.api.test_thread_files import ATTACKS, ParsedPage
from tests.server.keyed_server import keyed_server
from tests.server.traced_server import chat_span, send_spans, span, span_id, trace_id, traced_server

T = trace_id("t")


def parse_page(answer: httpx.Response) -> ParsedPage:
    assert answer.status_code == 200, answer.text
    page = ParsedPage()
    page.feed(answer.text)
    return page


def embedded_data(answer: httpx.Response, name: str) -> Any:
    script = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', answer.text, re.DOTALL)
    assert script is not None
    assert "<" not in script[1]
    return msgspec.json.decode(script[1])


def trace_with_text(text: str = "Hi") -> list[Span]:
    quoted = msgspec.json.encode(text).decode()[1:-1]
    broken = span(
        "tool",
        3,
        parent="root",
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name=text,
        gen_ai__tool__call__result=text,
    )
    broken.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=text))
    broken.events.append(Span.Event(name=text, attributes=[]))
    broken.links.append(Span.Link(trace_id=bytes.fromhex(T), span_id=bytes.fromhex(span_id("root"))))
    root = span("root", 0, seconds=5, gen_ai__operation__name="invoke_agent", session__id=f"s{text}e", **{text: text})
    root.name = text
    call = chat_span("call", quoted, quoted, 1, parent="root", user__id=text, gen_ai__usage__cost=0.5)
    return [root, call, broken, span("orphan", 4, parent="nobody")]


@pytest.mark.parametrize("attack", ATTACKS)
async def test_hostile_trace_content_is_inert_in_the_html_pages(attack: str) -> None:
    async with traced_server(*trace_with_text(attack)) as server:
        answer = await server.http.get(f"/api/traces/{T.upper()}/export.html")
        session_page = await server.http.get("/api/sessions/thread.html", params={"session": f"s{attack}e"})
        lines = (await server.http.get("/api/traces/export", params={"trace": T})).content.split(b"\n")

    for page, name in ((answer, f"trace-{T}.html"), (session_page, "session.html")):
        parsed = parse_page(page)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert page.headers["content-security-policy"] == f"{PAGE_POLICY}; sandbox"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert ("meta", "content", PAGE_POLICY) in parsed.attributes
        assert set(parsed.tags) <= {
            "html", "head", "meta", "title", "style", "body", "h1", "h2", "article", "p", "pre", "details", "summary",
            "span", "div", "svg", "rect", "script",
        }  # fmt: skip
        assert parsed.tags.count("script") == 1
        assert ("script", "type", "application/json") in parsed.attributes
        assert {name for _, name, _ in parsed.attributes} <= {
            "lang", "charset", "http-equiv", "content", "name", "class", "dir", "type", "id", "viewbox",
            "preserveaspectratio", "aria-hidden", "x", "width", "height",
        }  # fmt: skip
        if attack.isprintable():
            assert attack in parsed.text
    records = sorted((msgspec.json.decode(line) for line in lines if line), key=lambda record: record["start"])
    assert sorted(embedded_data(answer, "spans"), key=lambda record: record["start"]) == records


async def test_a_page_shows_the_conversation_and_the_tree_of_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_export, "SPAN_BATCH_SIZE", 2)
    async with traced_server(*trace_with_text("Why?")) as server:
        answer = await server.http.get(f"/api/traces/{T}/export.html")

    page = answer.text
    assert page.startswith("<!doctype html>\n")
    assert page.endswith("</body></html>\n")
    assert '<article class="user"><h2>user</h2>\n<p dir="auto">Why?</p>\n</article>' in page
    assert '<article class="tool"><h2>tool</h2><pre>Why?()</pre>\n<pre>error: Why?</pre></article>' in page
    order = re.findall(
        r'<summary><span(?: class="(d\d)")?>([^<]*)(?: <span class="note">\((\w+)\)</span>)?</span>', page
    )
    assert order == [("", "Why?", ""), ("d1", "call", ""), ("d1", "tool", ""), ("", "orphan", "orphan")]
    assert '<rect x="20.00" width="20.00" height="1"/>' in page
    assert 'class="span error"' in page
    assert "usage: 3 input tokens, 2 output tokens\ncost: $0.5" in page
    assert [record["name"] for record in embedded_data(answer, "spans")] == ["Why?", "call", "tool", "orphan"]


async def test_long_values_are_truncated_in_the_page_and_complete_in_its_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(html_export, "MAX_TEXT_CHARS", 10)
    async with traced_server(span("root", long="0123456789abc")) as server:
        answer = await server.http.get(f"/api/traces/{T}/export.html")

    assert 'long = 0123456789<span class="note">… and 3 more characters</span>' in answer.text
    assert embedded_data(answer, "spans")[0]["attributes"]["long"] == "0123456789abc"


async def test_a_session_page_shows_its_branches_and_is_truncated_when_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def turn(name: str, at: float, *texts: str) -> Span:
        messages = [
            {"role": "user" if position % 2 == 0 else "assistant", "parts": [{"type": "text", "content": text}]}
            for position, text in enumerate(texts)
        ]
        attributes = {
            "gen_ai__input__messages": msgspec.json.encode(messages[:-1]).decode(),
            "gen_ai__output__messages": msgspec.json.encode(messages[-1:]).decode(),
        }
        return chat_span(name, "", "", at, trace=name, session__id="a b", **attributes)

    turns = [
        turn("one", 0, "Hi", "Hello."),
        turn("two", 1, "Hi", "Hello.", "And?", "Well."),
        turn("three", 2, "Hi", "Hello.", "But?", "No."),
    ]
    async with traced_server(*turns) as server:
        answer = await server.http.get("/api/sessions/thread.html", params={"session": "a b"})
        monkeypatch.setattr(html_export, "MAX_SESSION_BYTES", 1)
        monkeypatch.setattr(html_export, "_TRACE_BATCH_SIZE", 1)
        truncated = await server.http.get("/api/sessions/thread.html", params={"session": "a b"})

    assert re.findall(r'<p dir="auto">(.*?)</p>', answer.text) == ["Hi", "Hello.", "And?", "Well.", "But?", "No."]
    assert '<h2 class="part">Branch 2, forked from branch 1 after step 2</h2>' in answer.text
    assert '<h1 dir="auto">Session a b</h1>' in answer.text
    assert [len(tab["steps"]) for tab in embedded_data(answer, "session")["tabs"]] == [4, 2]
    assert "This session is too long for one file" not in answer.text
    assert re.findall(r'<p dir="auto">(.*?)</p>', truncated.text) == ["Hi", "Hello."]
    assert "This session is too long for one file" in truncated.text


async def test_another_projects_page_is_the_same_404_as_an_unknown_one() -> None:
    async with keyed_server() as server:
        _, theirs = await server.create_key(project="theirs")
        _, ours = await server.create_key(project="ours")
        await send_spans(server.http, chat_span("a", "Hi", "Ho", session__id="s"), header=theirs)
        for path in (f"/api/traces/{T}/export.html", "/api/sessions/thread.html?session=s"):
            visible = await server.http.get(path, headers=theirs)
            hidden = await server.http.get(path, headers=ours)
            unauthenticated = await server.http.get(path)
            assert (visible.status_code, hidden.status_code, unauthenticated.status_code) == (200, 404, 401)
            assert hidden.headers["content-type"].startswith("application/")


async def test_postgresql_and_sqlite_render_the_same_page(postgres_url: str) -> None:
    async with traced_server(*trace_with_text()) as sqlite, keyed_server(url=postgres_url) as postgres:
        await send_spans(postgres.http, *trace_with_text())
        path = f"/api/traces/{T}/export.html"
        assert (await sqlite.http.get(path)).text == (await postgres.http.get(path)).text
