"""The deployment guides work as written, with real servers, PostgreSQL and nginx."""

import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests import nginx
from tests.docs.machines import Deployment
from tests.docs.pages import DOCS, ROOT
from tests.docs.walkthrough import read_blocks
from tests.postgres import Postgres, Unavailable

ONE_MACHINE, SEVERAL_MACHINES = "guides/deploy-on-one-machine.md", "guides/deploy-on-several-machines.md"
BACKUP = "guides/backup.md"
DEPLOY_FILES = {
    (ONE_MACHINE, "/etc/systemd/system/palaver.service"): "palaver.service",
    (ONE_MACHINE, "/etc/nginx/conf.d/palaver.conf"): "nginx.conf",
    (SEVERAL_MACHINES, "/etc/systemd/system/palaver.service"): "palaver.service",
    (SEVERAL_MACHINES, "/etc/systemd/system/palaver-worker.service"): "palaver-worker.service",
    (SEVERAL_MACHINES, "/etc/nginx/conf.d/palaver.conf"): "nginx-three-machines.conf",
}


@pytest.fixture(autouse=True)
def nginx_program(request: pytest.FixtureRequest) -> None:
    """Skip tests that follow a page where nginx is missing."""
    if "tmp_path" in request.fixturenames:
        try:
            nginx.program()
        except nginx.Unavailable as error:
            pytest.skip(str(error))


@pytest.fixture
def database_server() -> Iterator[Postgres]:
    """A PostgreSQL server in which only the superuser postgres may log in, as on Debian."""
    try:
        server = Postgres(superuser="postgres")
    except Unavailable as error:
        pytest.skip(str(error))
    with server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            [path] = connection.execute("SHOW hba_file").fetchone() or [""]
            Path(path).write_text("host all postgres 127.0.0.1/32 scram-sha-256\n", "utf-8")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.mark.parametrize(("page", "path"), DEPLOY_FILES)
def test_files_on_a_page_are_those_in_the_repository(page: str, path: str) -> None:
    [block] = [block for block in read_blocks((DOCS / page).read_text("utf-8")) if block.value == path]

    assert block.source == (ROOT / "deploy" / DEPLOY_FILES[page, path]).read_text("utf-8")


def test_one_machine_is_set_up_and_its_database_is_backed_up_and_restored(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        deployment.follow(ONE_MACHINE)
        deployment.follow(BACKUP, machines=["server"])

        with deployment.client() as http:
            assert http.get("/api/keys").status_code == 200


def test_three_machines_share_a_database_and_survive_the_end_of_one(tmp_path: Path, database_server: Postgres) -> None:
    with Deployment(tmp_path, database_server) as deployment:
        deployment.follow(SEVERAL_MACHINES)

        assert re.findall(r"^\d+$", deployment.terminal_output, re.MULTILINE) == [str(n) for n in range(1, 61)]
        assert count_through_a_killed_server(deployment) == [str(number) for number in range(1, 61)]
        assert statuses_during_a_restart(deployment) == {200}
        deployment.follow(BACKUP, machines=["database", "a", "b", "c"])
        for name in ("a", "b", "c"):
            with deployment.client(name) as http:
                wait_until_ready(http)
        with deployment.client() as http:
            names = [key["name"] for key in http.get("/api/keys").json()["data"]]
        assert sorted(names) == ["admin", "my-program"]


def count_through_a_killed_server(deployment: Deployment) -> list[str]:
    """Return the numbers that a client gets whose server is killed, and that continues through nginx."""
    call = {"model": "count", "input": "60", "background": True, "stream": True}
    text, response_id, last = "", "", -1
    with deployment.client("a") as http, suppress(httpx.TransportError):
        for event in read_events(http, "POST", "/v1/responses", json=call):
            response_id, last = event.get("response", {}).get("id", response_id), event["sequence_number"]
            text += event.get("delta", "")
            if text.endswith("\n5\n"):
                deployment.machine("a").systemctl(["kill", "--signal=KILL", "palaver"], "here")
    assert "60" not in text
    with deployment.client() as http:
        resumed = {"stream": "true", "starting_after": str(last)}
        text += "".join(
            event.get("delta", "") for event in read_events(http, "GET", f"/v1/responses/{response_id}", params=resumed)
        )
    deployment.machine("a").systemctl(["start", "palaver"], "here")
    return re.findall(r"^\d+$", text, re.MULTILINE)


def read_events(http: httpx.Client, method: str, path: str, **options: Any) -> Iterator[dict[str, Any]]:
    with http.stream(method, path, **options) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def statuses_during_a_restart(deployment: Deployment) -> set[int]:
    """Return the statuses of calls through nginx while a server is restarted."""
    is_restarted = threading.Event()

    def call() -> set[int]:
        statuses: set[int] = set()
        with deployment.client() as http:
            while not is_restarted.wait(0.05):  # Below the rate limit of a key.
                body = {"messages": [{"role": "user", "content": "0"}]}
                statuses.add(http.post("/count/invoke", json=body).status_code)
        return statuses

    with ThreadPoolExecutor() as threads:
        statuses = threads.submit(call)
        deployment.machine("b").systemctl(["restart", "palaver"], "here")
        with deployment.client("b") as http:
            wait_until_ready(http)
        is_restarted.set()
        return statuses.result()


def wait_until_ready(http: httpx.Client) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            if http.get("/ready").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the server did not start")
