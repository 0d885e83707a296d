"""/api/traces and /api/spans: lists, filters, trees, records and statistics of spans received over OTLP."""

from typing import Any

import httpx
import msgspec
import pytest

from palaver.core.extraction import CELL, preview_messages
from palaver.core.messages import Message
from palaver.server.api import traces as spans_api
from tests.server.keyed_server import KeyedServer, keyed_server
from tests.server.traced_server import chat_span, send_spans, span, span_id, trace_id, traced_server

T, ROOT = trace_id("t"), span_id("root")


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row["name"] for row in answer.json()["data"]]


def json_round_trip(value: Any) -> Any:
    """The value after a JSON round trip."""
    return msgspec.json.decode(msgspec.json.encode(value))


def agent_spans() -> list[Any]:
    """A trace of an agent that calls a model and a tool, and another trace."""
    return [
        span("root", 0, seconds=5, gen_ai__operation__name="invoke_agent", session__id="s-1"),
        chat_span("call", "Weather?", "Sunny.", 1, parent="root"),
        span("tool", 2, parent="root", gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather"),
        span("orphan", 3, parent="nobody"),
        chat_span("alone", "Hi", "Hello.", 4, trace="u", http__route="/chat"),
    ]


async def test_a_list_has_a_row_for_each_trace_newest_first() -> None:
    async with traced_server(*agent_spans()) as server:
        page = (await server.http.get("/api/traces")).json()

    assert page["next"] is None
    first, second = page["data"]
    start = first.pop("start")
    assert start.endswith("Z")
    assert len(start) == 27  # With microseconds, so that timestamps sort as text.
    assert first == {
        "trace_id": trace_id("u"),
        "span_id": span_id("alone"),
        "parent_id": None,
        "name": "alone",
        "kind": "llm",
        "status": "ok",
        "duration_ms": 1000.0,
        "workflow": None,
        "session": None,
        "user": None,
        "model": "gpt-4o",
        "provider": None,
        "service": "shop",
        "run_id": None,
        "input_tokens": 3,
        "output_tokens": 2,
        "cost": None,
        "in": json_round_trip(preview_messages([Message.user("Hi")], "input", CELL)),
        "out": json_round_trip(preview_messages([Message.assistant("Hello.")], "output", CELL)),
        "spans": 1,
        "errors": 0,
    }
    assert (second["name"], second["spans"], second["input_tokens"], second["session"]) == ("root", 4, 3, "s-1")


async def test_pages_follow_each_other_while_new_spans_arrive() -> None:
    async with traced_server(*(span(str(n), n, trace=f"t{n}") for n in range(5))) as server:
        first = await server.http.get("/api/traces?limit=2")
        await send_spans(server.http, span("new", 9, trace="new"))
        second = await server.http.post("/api/traces/query", json={"limit": 2, "after": first.json()["next"]})
        third = await server.http.get("/api/traces", params={"limit": 2, "after": second.json()["next"]})

        assert [*names(first), *names(second), *names(third)] == ["4", "3", "2", "1", "0"]
        assert third.json()["next"] is None


@pytest.mark.parametrize("path", ["/api/traces/query", "/api/spans/query"])
async def test_a_damaged_cursor_is_refused(path: str) -> None:
    async with traced_server() as server:
        answer = await server.http.post(path, json={"after": "x"})

        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["alone", "orphan", "tool", "call", "root"]),
        ({"filter": {"field": "kind", "op": "eq", "value": "llm"}}, ["alone", "call"]),
        ({"filter": {"attribute": "http.route", "op": "exists"}}, ["alone"]),
        (
            {
                "filter": {
                    "or": [
                        {"field": "duration_ms", "op": "gt", "value": 2000},
                        {"and": [{"field": "tool.name", "op": "eq", "value": "weather"}]},
                    ]
                }
            },
            ["tool", "root"],
        ),
        ({"search": '"sunny"'}, ["call"]),
        ({"search": "sunny OR hello"}, []),
        ({"filter": {"field": "name", "op": "contains", "value": "%"}}, []),
        ({"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}, []),
    ],
)
async def test_spans_are_filtered_and_searched(query: dict[str, Any], expected: list[str]) -> None:
    async with traced_server(*agent_spans()) as server:
        assert names(await server.http.post("/api/spans/query", json=query)) == expected


async def test_traces_are_filtered_by_their_root_span_in_the_body_and_in_the_url() -> None:
    by_filter = '{"field": "kind", "op": "eq", "value": "llm"}'
    async with traced_server(*agent_spans()) as server:
        in_body = await server.http.post(
            "/api/traces/query", json={"filter": {"field": "kind", "op": "eq", "value": "llm"}}
        )
        in_url = await server.http.get("/api/traces", params={"filter": by_filter, "from": "2020-01-01T00:00:00"})
        by_words = await server.http.get("/api/traces", params={"search": "hello"})

        assert names(in_body) == names(in_url) == names(by_words) == ["alone"]


@pytest.mark.parametrize(
    ("query", "status", "path"),
    [
        ({"filter": {"field": "nothing", "op": "eq", "value": 1}}, 422, "/filter/field"),
        ({"filter": {"field": "kind", "op": "eq", "value": 1}}, 422, "/filter/value"),
        ({"filter": {"and": [{"field": "kind", "op": "no"}]}}, 422, "/filter/and/0/op"),
        ({"limit": 0}, 422, "/limit"),
        ({"limit": 201}, 422, "/limit"),
        ({"from": "yesterday"}, 422, "/from"),
        ({"search": 1}, 400, "/search"),
    ],
)
async def test_an_invalid_query_is_rejected_with_its_path(query: dict[str, Any], status: int, path: str) -> None:
    async with traced_server() as server:
        answer = await server.http.post("/api/traces/query", json=query)

        assert (answer.status_code, answer.json()["error"]["path"]) == (status, path)


@pytest.mark.parametrize(
    "query", ["from=yesterday", "to=x", "limit=0", "filter={", "filter=[]", 'filter={"field":"x","op":"eq","value":1}']
)
async def test_an_invalid_query_string_is_rejected(query: str) -> None:
    async with traced_server() as server:
        answer = await server.http.get(f"/api/traces?{query}")

        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")


async def test_a_trace_summary_has_its_root_and_totals() -> None:
    async with traced_server(*agent_spans()) as server:
        summary = (await server.http.get(f"/api/traces/{T.upper()}")).json()

    root = summary.pop("root")
    assert (root["name"], root["trace_id"]) == ("root", T)
    assert summary == {
        "trace_id": T,
        "spans": 4,
        "errors": 0,
        "kinds": {"agent": 1, "llm": 1, "tool": 1, "unknown": 1},
        "input_tokens": 3,
        "output_tokens": 2,
        "cost": None,
        "sessions": ["s-1"],
    }


async def test_a_tree_is_read_level_by_level() -> None:
    async with traced_server(*agent_spans()) as server:
        top = (await server.http.get(f"/api/traces/{T}/tree")).json()["data"]
        first = (await server.http.get(f"/api/traces/{T}/tree?parent={ROOT.upper()}&limit=1")).json()
        rest = await server.http.get(f"/api/traces/{T}/tree", params={"parent": ROOT, "after": first["next"]})

        assert [(row["name"], row["children"], row["descendants"], row["notes"]) for row in top] == [
            ("root", 2, 2, []),
            ("orphan", 0, 0, ["orphan"]),
        ]
        assert ([row["name"] for row in first["data"]], names(rest)) == (["call"], ["tool"])


async def test_a_skeleton_has_all_spans_in_pages() -> None:
    async with traced_server(*agent_spans()) as server:
        first = (await server.http.get(f"/api/traces/{T}/skeleton?limit=3")).json()
        rest = (await server.http.get(f"/api/traces/{T}/skeleton?after={first['next']}")).json()

        assert [bone["name"] for bone in (*first["data"], *rest["data"])] == ["root", "call", "tool", "orphan"]
        shown = {"span_id", "parent_id", "name", "kind", "status", "start", "duration_ms", "tokens"}
        assert set(first["data"][0]) == shown
        assert [bone["tokens"] for bone in (*first["data"], *rest["data"])] == [None, 5, None, None]
        assert (await server.http.get(f"/api/traces/{T}/skeleton?limit=5001")).status_code == 400


async def test_a_span_record_has_its_messages_usage_and_attributes() -> None:
    async with traced_server(*agent_spans()) as server:
        answer = await server.http.get(f"/api/spans/{T}/{span_id('call').upper()}")
        again = await server.http.get(
            f"/api/spans/{T}/{span_id('call')}", headers={"if-none-match": answer.headers["etag"]}
        )

    record = answer.json()
    assert again.status_code == 304
    assert len(record["start"]) == 27
    assert record["messages_in"] == [{"role": "user", "parts": [{"type": "text", "text": "Weather?"}]}]
    assert record["messages_out"] == [{"role": "assistant", "parts": [{"type": "text", "text": "Sunny."}]}]
    assert record["usage"] == {"input_tokens": 3, "output_tokens": 2}
    assert (record["kind"], record["model"], record["service"]) == ("llm", "gpt-4o", "shop")
    assert record["attributes"]["gen_ai.request.model"] == "gpt-4o"
    assert "cut" not in record


async def test_long_attributes_are_truncated_and_can_be_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_api, "PIECE_CHARS", 50_000)
    long = "ä" * 100_000
    async with traced_server(span("a", long=long, short="x", nested=[{"deep": long}], yes=True)) as server:
        record = (await server.http.get(f"/api/spans/{T}/{span_id('a')}")).json()
        text, offset = "", 0
        while offset is not None:
            piece = (await server.http.get(f"/api/spans/{T}/{span_id('a')}?part=attributes&offset={offset}")).json()
            assert (piece["part"], piece["offset"], piece["total"]) == (
                "attributes",
                offset,
                record["cut"]["attributes"],
            )
            text, offset = text + piece["text"], piece["next"]
        absent = (await server.http.get(f"/api/spans/{T}/{span_id('a')}?part=tools&offset=0")).json()

    short = "ä" * spans_api.MAX_SHORTENED_TEXT_CHARS
    assert record["attributes"] == {"long": short, "short": "x", "nested": [{"deep": short}], "yes": True}
    assert httpx.Response(200, text=text).json() == {
        "long": long,
        "short": "x",
        "nested": [{"deep": long}],
        "yes": True,
    }
    assert absent == {"part": "tools", "offset": 0, "total": 2, "text": "[]", "next": None}


async def test_attributes_that_are_too_many_are_returned_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_api, "MAX_SHORTENED_PART_BYTES", 70_000)
    many: dict[str, Any] = {f"name.{n}": "x" * 100 for n in range(1_000)}
    async with traced_server(span("a", **many)) as server:
        record = (await server.http.get(f"/api/spans/{T}/{span_id('a')}")).json()

        assert record["attributes"] == {}
        assert record["cut"]["attributes"] > 100_000


@pytest.mark.parametrize(
    "path",
    [
        "/api/traces/{t}",
        "/api/traces/{t}/tree",
        "/api/traces/{t}/skeleton",
        "/api/traces/{t}/conversation",
        "/api/traces/export?trace={t}",
        "/api/spans/{t}/{s}",
        "/api/spans/{t}/{s}?part=attributes",
        "/api/sessions/s-1/thread",
        "/api/sessions/thread?session=s-1",
    ],
)
async def test_another_projects_trace_is_the_same_404_as_an_unknown_one(path: str) -> None:
    async with keyed_server() as full, keyed_server() as empty:
        _, mine = await full.create_key(project="mine")
        await send_spans(full.http, *agent_spans(), header=mine)
        answers: list[httpx.Response] = []
        for server in (full, empty):
            _, theirs = await server.create_key(project="theirs")
            answers.append(await server.http.get(path.format(t=T, s=ROOT), headers=theirs))

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].content == answers[1].content


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("x", (404, "not_found")),
        ("0" * 32, (404, "not_found")),
        ("a" * 500, (404, "not_found")),
        ("%25", (400, "invalid_value")),
        ("..%2f", (400, "invalid_value")),
        ("'; DROP TABLE spans; --", (400, "invalid_value")),
    ],
)
async def test_an_invalid_trace_or_span_id_is_rejected(name: str, refusal: tuple[int, str]) -> None:
    async with traced_server(*agent_spans()) as server:
        answers = [
            await server.http.get(f"/api/traces/{name}"),
            await server.http.get(f"/api/spans/{T}/{name}"),
            await server.http.get(f"/api/spans/{name}/{ROOT}"),
        ]

        assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [refusal] * 3


async def test_traces_and_sessions_need_only_the_scope_read() -> None:
    async with keyed_server() as server:
        _, reads = await server.create_key("read")
        _, invokes = await server.create_key("invoke")
        requests = {
            ("POST", "/api/traces/query"),
            ("POST", "/api/spans/query"),
            ("GET", "/api/traces"),
            ("GET", "/api/sessions"),
        }
        for method, path in requests:
            body: dict[str, Any] = {"json": {}} if method == "POST" else {}
            allowed = await server.http.request(method, path, headers=reads, **body)
            denied = await server.http.request(method, path, headers=invokes, **body)
            assert (allowed.status_code, denied.status_code) == (200, 403)
        thread_response = await server.http.post(f"/api/traces/{T}/thread", json={}, headers=reads)
        assert thread_response.status_code == 404


async def test_statistics_are_grouped_by_kind_and_limited_in_time() -> None:
    async with traced_server(*agent_spans()) as server:
        by_kind = (await server.http.get("/api/traces/stats?by=day&group=kind")).json()["data"]
        since_2020 = (await server.http.get("/api/traces/stats", params={"from": "2020-01-01T00:00:00Z"})).json()[
            "data"
        ]

        assert {row["group"]: (row["traces"], row["p50_ms"], row["input_tokens"]) for row in by_kind} == {
            "agent": (1, 5000.0, 3),
            "llm": (1, 1000.0, 3),
        }
        assert sum(row["traces"] for row in since_2020) == 2
        assert (await server.http.get("/api/traces/stats?group=nothing")).status_code == 400


async def test_a_query_timeout_names_the_attribute_without_an_index() -> None:
    async with traced_server(*agent_spans(), query_seconds=0) as server:
        await _send_many_spans(server)
        slow = await server.http.post(
            "/api/spans/query", json={"filter": {"attribute": "http.route", "op": "contains", "value": "x"}}
        )

    assert (slow.status_code, slow.headers["retry-after"]) == (503, "1")
    assert slow.json()["error"] == {
        "code": "query_timeout",
        "message": "Query timed out after 0 s. Narrow the time range. No index covers http.route.",
    }


async def _send_many_spans(backend: KeyedServer) -> None:
    """Send enough spans for SQLite to check the time limit."""
    for first in range(0, 1_500, 500):
        await send_spans(backend.http, *(span(f"m{first + n}", n / 1000, trace="many") for n in range(500)))
