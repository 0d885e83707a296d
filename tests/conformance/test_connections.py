"""Real servers that connect to one another over HTTP, through restarts and several processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.cli.test_worker import running_worker
from tests.server_process import WORKFLOWS, ServerProcess, server_process

ECHO_ONLY = "from palaver.testing import echo\n"


def client(server: ServerProcess, key: str | None = None) -> httpx.Client:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=server.url, trust_env=False, timeout=60, headers=headers)


def wait_for(probe: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while not (value := probe()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def ask_model(server: ServerProcess, model: str, text: str, key: str = "none") -> str:
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, timeout=60) as openai_client,
        openai_client.responses.stream(model=model, input=text) as stream,
    ):
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert stream.get_final_response().output_text == "".join(deltas)
    return "".join(deltas)


def make_folders(tmp_path: Path) -> tuple[Path, Path]:
    result = tmp_path / "far", tmp_path / "near"
    for folder in result:
        folder.mkdir()
    return result


def test_a_connection_to_another_server_survives_a_restart_and_can_be_removed(tmp_path: Path) -> None:
    remote_folder, local_folder = make_folders(tmp_path)
    db = str(local_folder / "palaver.db")
    with server_process(remote_folder, WORKFLOWS) as remote:
        with server_process(local_folder, ECHO_ONLY, db=db) as local, client(local) as http:
            refused = http.post("/api/connections", json={"url": f"{remote.url}/scripted", "name": "far"})
        with server_process(local_folder, ECHO_ONLY, "--allow-private-urls", db=db) as local, client(local) as http:
            dry_run = http.post("/api/connections", json={"url": f"{remote.url}/scripted", "dry_run": True})
            result = http.post("/api/connections", json={"url": f"{remote.url}/scripted", "name": "far"})
            first = ask_model(local, "far", "one two three")
            thread = http.post("/api/threads", json={"workflow": "far"}).json()["id"]
            local.stop()
        with server_process(local_folder, ECHO_ONLY, "--allow-private-urls", db=db) as local, client(local) as http:
            second = ask_model(local, "far", "four five")
            root = http.post("/invoke", json={"inputs": {"a": 1}}).json()
            delete_status = http.delete("/api/connections/far").status_code
            workflow = http.get(f"/api/threads/{thread}").json()["workflow"]
            turn = http.post(f"/api/threads/{thread}/turns", json={"messages": []})
            with pytest.raises(openai.NotFoundError):
                ask_model(local, "far", "six")

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "url_refused")
    assert (dry_run.status_code, dry_run.json()["name"], result.status_code) == (200, "scripted", 201)
    assert (first, second, root) == ("one two three", "four five", {"a": 1})
    assert (delete_status, workflow) == (204, "far")
    assert (turn.status_code, turn.json()["error"]["code"]) == (404, "workflow_not_found")


def test_a_connection_in_the_settings_reads_its_secret_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote_folder, local_folder = make_folders(tmp_path)
    db = str(remote_folder / "palaver.db")
    key = new_key(db, "default", "invoke")
    with (
        server_process(remote_folder, WORKFLOWS, db=db) as remote,
        server_process(local_folder, ECHO_ONLY, "--allow-private-urls") as local,
    ):
        with client(local) as http:
            refused = http.post("/api/connections", json={"url": f"{remote.url}/scripted", "name": "tutor"})
            lines = refused.json()["error"]["details"]["settings"]
        local.stop()
        (local_folder / "palaver.toml").write_text(lines, encoding="utf-8")
        monkeypatch.setenv("TUTOR_KEY", f"Bearer {key}")
        with server_process(local_folder, ECHO_ONLY) as local, client(local) as http:
            wait_for(lambda: http.get("/api/workflows/tutor").json()["state"] == "ready")
            text = ask_model(local, "tutor", "Hello there")
            texts = [http.get(path).text for path in ("/api/connections", "/api/settings", "/api/workflows/tutor")]
            deletion = http.delete("/api/connections/tutor")
            log_text = "\n".join(local.lines)

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "discovery_refused")
    assert text == "Hello there"
    assert not any(key in one for one in (*texts, log_text))
    assert "tutor  remote" in log_text
    assert (deletion.status_code, "palaver.toml" in deletion.text) == (405, True)


def test_two_processes_and_a_worker_share_connections(tmp_path: Path, postgres_url: str) -> None:
    remote_folder, local_folder = make_folders(tmp_path)
    key, other = new_key(postgres_url, "default", "admin"), new_key(postgres_url, "team-a", "admin")
    private = {"db": postgres_url, "allow_private_urls": "1"}
    with (
        server_process(remote_folder, WORKFLOWS) as remote,
        server_process(local_folder, ECHO_ONLY, background_runs="0", **private) as local,
        server_process(local_folder, ECHO_ONLY, background_runs="0", **private) as second_server,
        running_worker(local_folder, postgres_url, "--allow-private-urls"),
        client(local, key) as http,
        client(second_server, key) as second,
        client(second_server, other) as other_project,
    ):
        body = {"url": f"{remote.url}/scripted", "name": "far"}
        refused = other_project.post("/api/connections", json=body)
        result = http.post("/api/connections", json=body)
        wait_for(lambda: second.get("/api/workflows/far").status_code == 200)
        visible_names = [row["name"] for row in other_project.get("/api/connections").json()["data"]]
        texts = [
            ask_model(second_server, "far", "through the other", key),
            ask_model(second_server, "far", "theirs", other),
        ]
        response_id = second.post("/v1/responses", json={"model": "far", "input": "later", "background": True}).json()[
            "id"
        ]
        wait_for(
            lambda: http.get(f"/v1/responses/{response_id}").json()["status"] == "completed"
        )  # The worker took it.
        delete_status = second.delete("/api/connections/far").status_code
        wait_for(lambda: http.get("/api/workflows/far").status_code == 404)

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")
    assert (result.status_code, visible_names, delete_status) == (201, ["far"], 204)
    assert texts == ["through the other", "theirs"]


def new_key(db: str, project: str, scope: str) -> str:
    command = [sys.executable, "-m", "palaver.cli", "key", "create", "--scope", scope, "--project", project]
    result = subprocess.run(command, env={**os.environ, "PALAVER_DB": db}, capture_output=True, text=True, check=True)
    return result.stdout.strip()
