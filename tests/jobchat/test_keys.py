"""Keys: whose is used, who is asked with it, and that it is found nowhere else."""

import logging
from pathlib import Path

import pytest

from palaver.testing import client
from tests.jobchat.scenarios import ChatFactory

OWN = "sk-ant-of-the-caller-0123456789"


def holders(folder: Path, text: str) -> tuple[list[str], list[str]]:
    """The names of all files, and of those that hold the text."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files], [file.name for file in files if text.encode() in file.read_bytes()]


async def test_the_callers_key_is_used_for_their_request_only(chatting: ChatFactory) -> None:
    workflow, fake = chatting([{"text": "Yes."}] * 2)

    async with client(workflow) as http:
        (await http.post("/services/job_chat", json={"content": "zzz", "api_key": OWN})).raise_for_status()
        (await http.post("/services/job_chat", json={"content": "zzz", "api_key": " "})).raise_for_status()

    assert [request.key for request in fake.requests] == [OWN, "sk-ant-the-servers-own-key"]


async def test_without_any_key_there_is_no_answer(chatting: ChatFactory) -> None:
    workflow, fake = chatting([], key=None)

    async with client(workflow) as http:
        answer = await http.post("/services/job_chat", json={"content": "zzz"})
        status = (await http.get("/status")).json()

    assert answer.status_code == 401
    assert answer.json()["type"] == "UNAUTHORIZED"
    assert answer.json()["message"] == "No model key: send api_key or configure one."
    assert fake.requests == []
    assert status["anthropic"] == "not configured"
    assert status["docs_index"] == "working"


async def test_a_refused_key_is_told_with_whose_it_was(chatting: ChatFactory) -> None:
    refused = {"error": {"status": 401, "type": "authentication_error", "message": f"invalid x-api-key {OWN}"}}
    workflow, _ = chatting([refused, refused])

    async with client(workflow) as http:
        theirs = (await http.post("/services/job_chat", json={"content": "zzz", "api_key": OWN})).json()
        ours = (await http.post("/services/job_chat", json={"content": "zzz"})).json()

    assert (theirs["code"], theirs["type"], theirs["details"]["key"]) == (401, "AUTH_ERROR", "request")
    assert (ours["code"], ours["type"], ours["details"]["key"]) == (401, "AUTH_ERROR", "server")


async def test_a_key_is_in_no_answer_log_event_or_database(
    chatting: ChatFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    repeated = {"error": {"status": 400, "type": "invalid_request_error", "message": f"What is {OWN}?"}}
    in_stream = {"text": "Half", "then_error": {"type": "api_error", "message": f"{OWN} is no good"}}
    workflow, fake = chatting([{"text": "Yes."}, repeated, in_stream, {"text": "Yes."}])
    payload = {"content": "zzz", "api_key": OWN, "context": {"expression": "a();"}, "suggest_code": True}
    async with client(workflow, db=str(tmp_path / "palaver.db")) as http:
        told = [
            (await http.post(f"/services/job_chat{path}", json=payload)).text for path in ("", "", "/stream", "/stream")
        ]
        runs = (await http.get("/api/runs")).json()
        for run in runs["data"]:
            told += [(await http.get(f"/api/runs/{run['id']}{rest}")).text for rest in ("", "/events")]
        told.append((await http.get("/metrics")).text)

    assert [request.key for request in fake.requests] == [OWN] * 4
    assert len(runs["data"]) == 4
    assert not [text for text in told if OWN in text]
    assert OWN not in caplog.text
    names, holding = holders(tmp_path, OWN)
    assert "palaver.db" in names
    assert holding == []
