"""Keys: which key is used, where it is sent, and that it appears nowhere else."""

import logging
from pathlib import Path

import pytest

from palaver.testing import client
from tests.jobchat.scenarios import ChatFactory

CALLERS_KEY = "sk-ant-of-the-caller-0123456789"


def search_files(folder: Path, text: str) -> tuple[list[str], list[str]]:
    """Return the names of all files, and of those that contain the text."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files], [file.name for file in files if text.encode() in file.read_bytes()]


async def test_the_callers_key_is_used_for_their_request_only(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([{"text": "Yes."}] * 2)

    async with client(workflow) as http:
        (await http.post("/services/job_chat", json={"content": "zzz", "api_key": CALLERS_KEY})).raise_for_status()
        (await http.post("/services/job_chat", json={"content": "zzz", "api_key": " "})).raise_for_status()

    assert [request.key for request in fake.requests] == [CALLERS_KEY, "sk-ant-the-servers-own-key"]


async def test_request_without_any_key_is_rejected_with_401(create_chat: ChatFactory) -> None:
    workflow, fake = create_chat([], key=None)

    async with client(workflow) as http:
        answer = await http.post("/services/job_chat", json={"content": "zzz"})
        status = (await http.get("/status")).json()

    assert answer.status_code == 401
    assert answer.json()["type"] == "UNAUTHORIZED"
    assert answer.json()["message"] == "No API key for the model. Send api_key, or configure a key on the server."
    assert fake.requests == []
    assert status["anthropic"] == "not configured"
    assert status["docs_index"] == "working"


async def test_rejected_key_is_reported_with_its_source(create_chat: ChatFactory) -> None:
    refused = {"error": {"status": 401, "type": "authentication_error", "message": f"invalid x-api-key {CALLERS_KEY}"}}
    workflow, _ = create_chat([refused, refused])

    async with client(workflow) as http:
        theirs = (await http.post("/services/job_chat", json={"content": "zzz", "api_key": CALLERS_KEY})).json()
        ours = (await http.post("/services/job_chat", json={"content": "zzz"})).json()

    assert (theirs["code"], theirs["type"], theirs["details"]["key"]) == (401, "AUTH_ERROR", "request")
    assert (ours["code"], ours["type"], ours["details"]["key"]) == (401, "AUTH_ERROR", "server")


async def test_key_does_not_appear_in_responses_logs_events_or_the_database(
    create_chat: ChatFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    repeated = {"error": {"status": 400, "type": "invalid_request_error", "message": f"What is {CALLERS_KEY}?"}}
    in_stream = {"text": "Half", "then_error": {"type": "api_error", "message": f"{CALLERS_KEY} is no good"}}
    workflow, fake = create_chat([{"text": "Yes."}, repeated, in_stream, {"text": "Yes."}])
    payload = {"content": "zzz", "api_key": CALLERS_KEY, "context": {"expression": "a();"}, "suggest_code": True}
    async with client(workflow, db=str(tmp_path / "palaver.db")) as http:
        bodies = [
            (await http.post(f"/services/job_chat{path}", json=payload)).text for path in ("", "", "/stream", "/stream")
        ]
        runs = (await http.get("/api/runs")).json()
        for run in runs["data"]:
            bodies += [(await http.get(f"/api/runs/{run['id']}{suffix}")).text for suffix in ("", "/events")]
        bodies.append((await http.get("/metrics")).text)

    assert [request.key for request in fake.requests] == [CALLERS_KEY] * 4
    assert len(runs["data"]) == 4
    assert not [text for text in bodies if CALLERS_KEY in text]
    assert CALLERS_KEY not in caplog.text
    names, files_with_key = search_files(tmp_path, CALLERS_KEY)
    assert "palaver.db" in names
    assert files_with_key == []
