"""/api/workflows: the list, one workflow in full, and refreshing connected workflows."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest

from palaver import chat, workflow
from palaver.core.descriptions import Description
from palaver.discovery.registry import Registry
from palaver.errors import NotDiscovered
from palaver.frameworks import remote
from palaver.frameworks.remote import RemoteService, RemoteWorkflow
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.server.snippets import example_inputs
from palaver.testing import in_process_transport
from tests.server.keyed_server import keyed_server


@chat(turns="queue", on_disconnect="finish")
def tutor(messages: list[Any], subject: str) -> str:
    """Explains a Subject."""
    return subject


@workflow
def shout(text: str) -> str:
    """Makes it loud."""
    return text.upper()


class FakeRemote:
    """A remote service; `says` is its description, or None while it is unreachable."""

    def __init__(self, says: str | None) -> None:
        self.says = says
        self.asked = 0
        unknown = Description(name="far", flags={"is_chat": False}, remote=True)
        service = self.service()
        self.workflow = RemoteWorkflow(
            service, placeholder=unknown, url="http://far", discover=self.look, headers={}, timeout=1
        )

    async def look(self) -> RemoteService | None:
        self.asked += 1
        if self.says == "nonsense":
            raise NotDiscovered("It does not say what it is.")
        return self.service()

    def service(self) -> RemoteService | None:
        if self.says is None:
            return None
        described = Description(name="far", description=self.says, flags={"is_chat": True}, remote=True)
        return RemoteService(
            url="http://far/invoke", dialect="invoke", description=described, evidence={"url": "http://far"}
        )


@asynccontextmanager
async def workflow_client(*more: RemoteWorkflow, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    server = Server(Registry([tutor, shout, *more]), Settings(**settings))
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost:8642") as http:
        yield http
    await server.close()


async def names(http: httpx.AsyncClient, **query: Any) -> list[str]:
    answer = await http.get("/api/workflows", params=query)
    assert answer.status_code == 200, answer.text
    return [row["name"] for row in answer.json()["data"]]


# The list


async def test_the_list_has_neither_schemas_nor_snippets() -> None:
    async with workflow_client() as http:
        listed = (await http.get("/api/workflows")).json()

    assert listed["data"][1] == {
        "name": "tutor",
        "description": "Explains a Subject.",
        "origin": "served",
        "state": "ready",
        "problem": None,
        "default": False,
        "is_chat": True,
        "is_chat_source": "declared",
        "flags": {"is_chat": True},
        "streams": True,
        "turns": "queue",
        "on_disconnect": "finish",
        "checked_at": None,
    }
    assert listed["next"] is None


async def test_the_list_is_filtered() -> None:
    async with workflow_client(FakeRemote(None).workflow) as http:
        assert await names(http) == ["far", "shout", "tutor"]
        assert await names(http, origin="connected") == ["far"]
        assert await names(http, origin="served", is_chat="false") == ["shout"]
        assert await names(http, is_chat="true") == ["tutor"]
        assert await names(http, state="unreachable") == ["far"]
        assert await names(http, state="ready") == ["shout", "tutor"]
        assert await names(http, search="a sUBject") == ["tutor"]
        assert await names(http, search="HOUT") == ["shout"]
        assert await names(http, search="%") == []


@pytest.mark.parametrize("query", [{"origin": "moon"}, {"is_chat": "perhaps"}, {"state": "happy"}, {"limit": 0}])
async def test_an_invalid_filter_is_rejected(query: dict[str, Any]) -> None:
    async with workflow_client() as http:
        answer = await http.get("/api/workflows", params=query)

    (name,) = query
    assert (answer.status_code, answer.json()["error"]["path"]) == (400, f"?{name}")


async def test_the_list_is_paginated_and_rejects_cursors_of_other_queries() -> None:
    async with workflow_client(FakeRemote("Hi").workflow) as http:
        first = (await http.get("/api/workflows", params={"limit": 2})).json()
        second = (await http.get("/api/workflows", params={"limit": 2, "after": first["next"]})).json()
        others = await http.get("/api/workflows", params={"limit": 2, "after": first["next"], "is_chat": "true"})
        damaged = await http.get("/api/workflows", params={"after": f"{first['next']}x"})

    assert [[row["name"] for row in page["data"]] for page in (first, second)] == [["far", "shout"], ["tutor"]]
    assert second["next"] is None
    for answer in (others, damaged):
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")


# One workflow


async def test_a_workflow_shows_its_routes_and_snippets_under_the_root_path() -> None:
    async with workflow_client(root_path="/below") as http:
        shown = (await http.get("/below/api/workflows/shout")).json()

    base = "http://localhost:8642/below/shout"
    assert shown["routes"] == {
        "invoke": f"{base}/invoke",
        "responses": f"{base}/v1/responses",
        "invocations": f"{base}/invocations",
        "chat_completions": f"{base}/v1/chat/completions",
        "ui_stream": f"{base}/api/chat",
        "services": "http://localhost:8642/below/services/shout",
    }
    assert [(variant["name"], variant["head"]) for variant in shown["variants"]] == [("default", 1)]
    assert shown["schemas"]["inputs"]["required"] == ["text"]
    assert (shown["turns"], shown["on_disconnect"], shown["evidence"]) == ("reject", None, None)
    assert [(snippet["client"], snippet["language"]) for snippet in shown["snippets"]] == [
        ("curl", "bash"),
        ("openai-python", "python"),
        ("openai-node", "javascript"),
        ("ai-sdk", "javascript"),
        ("langchain", "python"),
    ]
    assert shown["snippets"][0]["code"] == (
        f"curl {base}/invoke \\\n  -H 'content-type: application/json' \\\n"
        """  -d '{"inputs":{"text":"Some text."}}'\n"""
    )


async def test_a_matching_etag_is_answered_with_304() -> None:
    async with workflow_client() as http:
        first = await http.get("/api/workflows/tutor")
        again = await http.get("/api/workflows/tutor", headers={"if-none-match": first.headers["etag"]})

    assert (first.status_code, again.status_code) == (200, 304)


async def test_an_unknown_workflow_is_not_found() -> None:
    async with workflow_client() as http:
        answers = [await http.get("/api/workflows/nobody"), await http.post("/api/workflows/nobody/refresh")]

    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "workflow_not_found")


async def test_snippets_name_a_variable_instead_of_the_api_key() -> None:
    async with keyed_server() as server:
        _, headers = await server.create_key()
        shown = (await server.http.get("/api/workflows/echo", headers=headers)).json()

    secret = headers["authorization"].removeprefix("Bearer ")
    for snippet in shown["snippets"]:
        assert "PALAVER_KEY" in snippet["code"]
        assert secret not in snippet["code"]


async def test_a_hostile_host_header_is_quoted_in_snippets() -> None:
    async with workflow_client(allowed_hosts=("a'b;c",)) as http:
        answer = await http.get("/api/workflows/shout", headers={"host": "a'b;c"})

    assert answer.status_code == 200, answer.text
    assert answer.json()["snippets"][0]["code"].startswith("""curl 'http://a'"'"'b;c/shout/invoke' \\\n""")


# Refresh


async def test_refreshing_a_served_workflow_changes_nothing() -> None:
    async with workflow_client() as http:
        shown = (await http.get("/api/workflows/shout")).json()
        again = await http.post("/api/workflows/shout/refresh")

    assert (again.status_code, again.json()) == (200, shown)


async def test_a_connected_workflow_is_probed_at_most_once_per_refresh_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    far = FakeRemote(None)
    async with workflow_client(far.workflow) as http:
        away = (await http.get("/api/workflows/far")).json()
        far.says = "I am back."
        back = (await http.post("/api/workflows/far/refresh")).json()
        far.says = "And more."
        same = (await http.post("/api/workflows/far/refresh")).json()
        monkeypatch.setattr(remote, "REFRESH_INTERVAL_S", 0)
        later = (await http.post("/api/workflows/far/refresh")).json()

    assert (away["state"], away["evidence"], away["is_chat"]) == ("unreachable", None, False)
    assert (back["state"], back["evidence"], back["is_chat"]) == ("ready", {"url": "http://far"}, True)
    assert back["description"] == same["description"] == "I am back."
    assert later["description"] == "And more."
    assert far.asked == 2
    assert datetime.fromisoformat(away["checked_at"]) < datetime.fromisoformat(back["checked_at"])


@pytest.mark.parametrize(
    ("says", "state", "problem"),
    [(None, "unreachable", None), ("nonsense", "unavailable", "It does not say what it is.")],
)
async def test_the_last_description_remains_while_the_service_cannot_be_called(
    says: str | None, state: str, problem: str | None
) -> None:
    far = FakeRemote("I am here.")
    async with workflow_client(far.workflow) as http:
        far.says = says
        away = await http.post("/api/workflows/far/refresh")

    shown = away.json()
    assert away.status_code == 200
    assert (shown["state"], shown["problem"]) == (state, problem)
    assert (shown["description"], shown["is_chat"]) == ("I am here.", True)


# Examples


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {}),
        ({"additionalProperties": True}, {"text": "Hello!"}),
        ({"examples": [{"subject": "physics", "messages": []}, {}], "required": ["x"]}, {"subject": "physics"}),
        ({"examples": ["no object"]}, {}),
        ({"required": "x", "properties": []}, {}),
        ({"required": ["messages", "x", 3], "properties": {}}, {"x": "Some text."}),
    ],
)
def test_example_inputs_are_the_first_example_or_the_required_properties(
    schema: Mapping[str, Any], expected: dict[str, Any]
) -> None:
    assert example_inputs(schema) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "string"}, "Some text."),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "number"}, 1),
        ({"type": "boolean"}, True),
        ({"type": "array"}, []),
        ({"type": "null"}, None),
        ({"type": ["integer", "null"]}, 1),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "boolean"}}}, {"a": True}),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
        ({"enum": ["red", "blue"]}, "red"),
        ({"const": 7}, 7),
        ({"type": "string", "examples": ["It rains."]}, "It rains."),
        ({"type": "string", "default": "x"}, "x"),
        ({"$ref": "#/$defs/Flag"}, True),
        ({"$ref": "https://elsewhere"}, "Some text."),
        ({"$ref": "#/$defs/Self"}, {"self": None}),
        ("no schema", "Some text."),
    ],
)
def test_a_required_input_has_a_value_of_its_type(kind: Any, value: Any) -> None:
    defs = {
        "Flag": {"type": "boolean"},
        "Self": {"type": "object", "required": ["self"], "properties": {"self": {"$ref": "#/$defs/Self"}}},
    }

    assert example_inputs({"required": ["x"], "properties": {"x": kind}, "$defs": defs}) == {"x": value}
