"""S8.1 and S8.3, traces of runs: secrets in questions, tool arguments or answers are not stored."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from palaver import Message, chat, workflow
from palaver.core.events import ToolEnded, ToolStarted
from palaver.core.messages import ToolResult, Usage
from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.storage.spans.tables import span_bodies, spans
from palaver.storage.spans.writes import decompress_body
from palaver.testing import in_process_transport
from tests.security.marked_secrets import PASSWORD, PROVIDER
from tests.server.test_run_redaction import dump_rows

MESSAGE = f"my key is {PROVIDER} and I log in at https://ann:{PASSWORD}@example.org with Bearer MARKEDbearer0123456789"


@chat(name="talker")
async def agent(messages: list[Message]) -> AsyncIterator[Any]:
    """Repeat the message as tool arguments, as tool result and as text."""
    text = messages[-1].text
    yield ToolStarted(call_id="c1", name="search")
    yield ToolEnded(arguments=msgspec.json.encode({"q": text, "headers": {"authorization": "MARKED-odd"}}).decode())
    yield ToolResult(call_id="c1", output={"found": text, "api_key": "MARKED-odd"})
    for word in text.split(" "):
        yield f"{word} "
    yield Usage(input_tokens=1, output_tokens=1)


@workflow(name="plain")
def plain(text: str, password: str) -> dict[str, str]:
    """Return the inputs."""
    return {"text": text, "password": password}


REDACTION_RULES: dict[str, Any] = {"traces": (), "runs": ({"detector": "iban", "scope": ["runs"]},)}


@pytest.mark.parametrize("scope", REDACTION_RULES)
async def test_secrets_in_the_content_of_a_run_are_not_stored_in_traces(
    database: Database, scope: str
) -> None:  # S8.1, S8.3
    server = Server(Registry([agent, plain]), Settings(redact=REDACTION_RULES[scope]), database=database)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as http:
        header = {"x-secret": PROVIDER, "cookie": f"other={PROVIDER}", "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
        messages = [{"role": "user", "content": MESSAGE}]
        live = await http.post("/talker/invoke", json={"messages": messages}, headers=header)
        (
            await http.post(
                "/plain/invoke", json={"inputs": {"text": MESSAGE, "password": "MARKED-odd"}}, headers=header
            )
        ).raise_for_status()
        (
            await http.post("/talker/v1/responses", json={"input": MESSAGE, "user": "u", "metadata": {"k": PROVIDER}})
        ).raise_for_status()
        await server.runtime.telemetry.flush()
        await server.runtime.recorder.flush()
        exported = [(await http.get(f"/api/traces/export?format={form}")).text for form in ("jsonl", "otlp")]
        pages = [(await http.get(path)).text for path in ("/api/traces", "/api/sessions")]
        stored = await database.read(
            lambda db: [decompress_body(row.body).decode() for row in db.execute(span_bodies.select())]
        )
        rows = await database.read(lambda db: [str(row) for row in db.execute(spans.select())])
        dump = await database.read(dump_rows)
    await server.close()

    assert "MARKEDprovider" in live.text  # Live streams are not changed.
    assert len(stored) == 5
    assert [text for text in (*exported, *pages, *stored, *rows) if "MARKED" in text] == []
    assert ("MARKED" in dump) == (scope == "traces")  # Runs are stored unchanged, unless a rule names them.
