"""Redaction before storage: rules of palaver.toml and of a workflow's author, on every database."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from palaver import Message, chat, workflow
from palaver.discovery.registry import Registry
from palaver.errors import InvalidOption, SettingsError
from palaver.server.app import Server
from palaver.server.settings import Settings, read_settings
from palaver.storage.database import Database, open_database
from palaver.testing import in_process_transport
from palaver.traces.prices import Price
from palaver.workflows.workflow import Workflow
from tests.server.traced_server import chat_span as called
from tests.server.traced_server import send_spans, span, trace_id

MASK = "‹redacted›"


@chat(redact=[{"path": "messages_in.*.text"}, {"detector": "phone", "action": "drop"}])
async def private(messages: list[Message]) -> str:
    """Repeats the message and adds a phone number."""
    return f"{messages[-1].text} +1 202 555 0143"


@workflow(name="plain")
def plain(patient: dict[str, str], note: str = "") -> dict[str, str]:
    """Returns its inputs."""
    return {"of": patient["name"], "note": note}


@asynccontextmanager
async def running_server(
    database: Database, *workflows: Workflow, **settings: Any
) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    server = Server(Registry(workflows or (private, plain)), Settings(**settings), database=database)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        yield server, http
    await server.close()


async def read_spans(server: Server, http: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Return all stored spans in full."""
    await server.runtime.telemetry.flush()
    rows = (await http.post("/api/spans/query", json={})).json()["data"]
    responses = [await http.get(f"/api/spans/{row['trace_id']}/{row['span_id']}") for row in rows]
    return [one.json() for one in responses]


async def test_server_rules_apply_to_received_spans_and_to_runs(database: Database) -> None:
    rules = ({"path": "inputs.patient.name"}, {"detector": ["email"]})
    async with running_server(database, redact=rules) as (server, http):
        body = {"inputs": {"patient": {"name": "Ada Lovelace", "ward": "B"}, "note": "to ada@example.org"}}
        response = await http.post("/plain/invoke", json=body)
        sent = await send_spans(
            http, span("a", input__value='{"patient": {"name": "Ada Lovelace"}}', to="ada@example.org")
        )
        spans = await read_spans(server, http)
        listed = (await http.get("/api/traces")).text

    assert response.json() == {"of": "Ada Lovelace", "note": "to ada@example.org"}
    assert sent.status_code == 200
    own = next(one for one in spans if one["workflow"] == "plain")
    assert own["inputs"] == {"patient": {"name": MASK, "ward": "B"}, "note": f"to {MASK}"}
    assert own["outputs"] == {"of": MASK, "note": f"to {MASK}"}
    assert "Ada Lovelace" not in f"{spans} {listed}"
    assert "ada@example" not in f"{spans} {listed}"
    assert {"path": "inputs.patient.name", "by": "inputs.patient.name", "count": 1} in own["redactions"]


async def test_rules_of_a_workflow_apply_only_to_its_own_runs(database: Database) -> None:
    async with running_server(database) as (server, http):
        messages = [{"role": "user", "content": "My name is Ada-Lovelace"}]
        response = await http.post("/private/invoke", json={"messages": messages})
        (
            await http.post("/plain/invoke", json={"inputs": {"patient": {"name": "Ada"}, "note": "+1 202 555 0143"}})
        ).raise_for_status()
        spans = await read_spans(server, http)

    assert "Ada-Lovelace +1 202 555 0143" in response.text
    by_workflow = {one["workflow"]: one for one in spans}
    assert by_workflow["private"]["messages_in"][0]["parts"] == [{"type": "text", "text": MASK}]
    assert "Ada-Lovelace" not in str(by_workflow["private"]["attributes"])
    assert "202" not in str(by_workflow["private"]["messages_out"])
    assert by_workflow["plain"]["inputs"] == {"patient": {"name": "Ada"}, "note": "+1 202 555 0143"}


async def test_a_hash_is_equal_in_every_process_and_different_in_every_project(postgres_url: str) -> None:
    rules = ({"path": "user", "action": "hash"},)
    databases = [open_database(postgres_url), open_database(postgres_url)]
    users: list[str] = []
    for number, database in enumerate(databases):
        async with running_server(database, redact=rules) as (server, http):
            await send_spans(http, span("a", trace=f"{number}", user__id="ada"))
            await server.runtime.telemetry.writer.flush()
            row = (await http.get(f"/api/traces/{trace_id(f'{number}')}")).json()
            users.append(row["root"]["user"])
            redactors = [
                server.runtime.redaction.server_redactors.for_project(project) for project in ("default", "other")
            ]
            values = [redactor.redact_value("ada", "user")[0] for redactor in redactors]
            assert values[0] == users[0]
            assert values[1] != users[0]

    assert users[0] == users[1]
    assert users[0].startswith("‹")
    assert users[0] != MASK


def test_a_hash_rule_masks_until_its_key_is_loaded() -> None:
    server = Server(Registry([plain]), Settings(redact=({"path": "user", "action": "hash"},)))

    assert server.runtime.redaction.server_redactors.for_project("default").redact_value("ada", "user")[0] == MASK


async def test_secrets_are_redacted_without_a_rule(database: Database) -> None:
    async with running_server(database) as (server, http):
        await send_spans(
            http, called("a", "my key is sk-proj-abcdefgh12345678", "ok", http__request__header__cookie="x=1")
        )
        (stored,) = await read_spans(server, http)

    assert "sk-proj" not in str(stored)
    assert stored["attributes"]["http.request.header.cookie"] == MASK


# Invalid rules

INVALID_SETTINGS: list[tuple[str, str]] = [
    ('[[redact]]\ndetector = "email"\n[[redact]]\npath = "patient.name"', "[[redact]] rule 2: unknown field"),
    ('[[redact]]\naction = "mask"', "[[redact]] rule 1: exactly one of 'path' and 'detector' is required."),
    ('[[redact]]\npath = "inputs"\naction = "burn"', "[[redact]] rule 1: "),
    ('[redact]\npath = "inputs"', "Invalid setting 'redact' in palaver.toml: "),
    ('[prices."gpt-4o"]\noutput = 1', "Invalid setting 'prices' in palaver.toml: "),
    ('[prices."gpt-4o"]\ninput = -1', "Invalid setting 'prices' in palaver.toml: "),
    ("[projects.shop]\ntrace_retention_days = -1", "Invalid setting 'projects' in palaver.toml: "),
    ("trace_retention_days = -1", "Invalid trace_retention_days -1 in palaver.toml: "),
]


@pytest.mark.parametrize(("lines", "expected"), INVALID_SETTINGS)
def test_an_invalid_settings_table_raises_a_one_line_error(tmp_path: Path, lines: str, expected: str) -> None:
    (tmp_path / "palaver.toml").write_text(lines, encoding="utf-8")

    with pytest.raises(SettingsError) as caught:
        read_settings(env={}, folder=tmp_path)

    assert caught.value.message.startswith(expected)
    assert "\n" not in caught.value.message


def test_settings_tables_are_read_only_from_the_file(tmp_path: Path) -> None:
    lines = '[[redact]]\ndetector = "email"\n[prices."gpt-*"]\ninput = 2.5\n[projects.shop]\ntrace_retention_days = 7\n'
    (tmp_path / "palaver.toml").write_text(lines, encoding="utf-8")
    env = {"PALAVER_REDACT": "x", "PALAVER_PRICES": "x", "PALAVER_PROJECTS": "x", "PALAVER_TRACE_RETENTION_DAYS": "3"}
    settings, sources = read_settings(env=env, folder=tmp_path)

    assert settings.redact == ({"detector": "email"},)
    assert settings.prices["gpt-*"].input == 2.5
    assert (settings.span_retention.days, settings.span_retention.days_by_project) == (3, {"shop": 7})
    assert {name: sources[name] for name in ("redact", "prices", "projects")} == dict.fromkeys(
        ("redact", "prices", "projects"), "file"
    )


@pytest.mark.parametrize("rules", ["email", [1], {"detector": "email"}])
def test_rules_of_a_workflow_must_be_a_list(rules: Any) -> None:
    with pytest.raises(InvalidOption, match="redact must be a list of dicts"):
        chat(redact=rules)(lambda messages: "")


def test_an_invalid_rule_of_a_workflow_raises_when_the_server_is_created() -> None:
    @chat(name="wrong", redact=[{"detector": "email"}, {"path": "nothing"}])
    async def wrong(messages: list[Message]) -> str:
        return ""

    with pytest.raises(SettingsError) as caught:
        Server(Registry([wrong]))

    assert caught.value.message.startswith("Workflow 'wrong': redact rule 2: unknown field 'nothing'.")


async def test_the_settings_route_shows_only_the_number_of_rules(database: Database) -> None:
    async with running_server(database, redact=({"detector": "email"}, {"path": "inputs.secret-name"})) as (_, http):
        listed = (await http.get("/api/settings")).json()["data"]

    shown: Mapping[str, Any] = {row["name"]: row["value"] for row in listed}
    assert shown["redact"] == 2
    assert "secret-name" not in str(shown)


# Prices


async def test_a_cost_that_is_not_reported_is_computed_from_the_prices(database: Database) -> None:
    async with running_server(database, prices={"gpt-4o": Price(input=2.5, output=10)}) as (server, http):
        usage: dict[str, Any] = {"gen_ai__usage__input_tokens": 1_000_000, "gen_ai__usage__output_tokens": 100_000}
        unpriced: dict[str, Any] = {**usage, "gen_ai__request__model": "other"}
        await send_spans(
            http,
            called("a", "Hi", "Hello", **usage),
            called("b", "Hi", "Hello", trace="u", gen_ai__usage__cost=0.5, **usage),
            called("c", "Hi", "Hello", trace="v", **unpriced),
        )
        costs = {one["name"]: (one["cost"], one["cost_source"]) for one in await read_spans(server, http)}

    assert costs == {"a": (3.5, "computed"), "b": (0.5, "reported"), "c": (None, None)}
