"""Many servers on one PostgreSQL: a run started through one can be read, followed and cancelled through any other."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from palaver.core.events import TERMINAL_EVENTS
from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.settings import Settings
from palaver.storage import runs
from palaver.storage.database import open_database
from palaver.testing import in_process_transport, scripted
from tests.faults.rounds import IS_FULL_RUN, round_count
from tests.server_process import server_process

UNLIMITED_SETTINGS = Settings(rate_per_minute=0, max_runs=0, max_streams=0)
TERMINAL_TYPES = ("response.completed", "response.incomplete", "response.failed")


def encode_script(*steps: Any) -> str:
    return msgspec.json.encode(steps).decode()


class Servers:
    """Servers that share only the database, and a client for each."""

    def __init__(self, servers: list[Server], clients: list[httpx.AsyncClient], seed: int) -> None:
        self.servers = servers
        self.clients = clients
        self.chance = random.Random(seed)

    def two(self) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
        one, other = self.chance.sample(self.clients, 2)
        return one, other

    async def check(self, run: str, *, status: str | None = None) -> None:
        """Check that a run has one end, in its log and in its row, on any server."""
        database = self.chance.choice(self.servers).runtime.database
        row, log = (
            await database.read(runs.get_run, "default", run),
            await database.read(runs.read_events, "default", run),
        )
        assert row is not None
        assert [event.seq for event in log] == list(range(len(log)))
        assert [index for index, event in enumerate(log) if isinstance(event, TERMINAL_EVENTS)] == [len(log) - 1]
        assert row.seq == len(log) - 1
        assert status is None or row.status == status


@asynccontextmanager
async def start_servers(url: str, count: int = 4, seed: int = 5) -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        servers = [Server(Registry([scripted]), UNLIMITED_SETTINGS, database=open_database(url)) for _ in range(count)]
        for server in servers:
            stack.push_async_callback(server.close)
            stack.push_async_callback(server.engine.drain, 0)
            await server.runtime.start()
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost", timeout=30)
            )
            for server in servers
        ]
        yield Servers(servers, clients, seed)


def _frames(text: str) -> list[Any]:
    return [msgspec.json.decode(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


@asynccontextmanager
async def start_run(http: httpx.AsyncClient, *steps: Any) -> AsyncIterator[tuple[str, "asyncio.Task[list[Any]]"]]:
    """Start streaming a stored response: its id, and a task for all frames that its reader receives."""
    body = {"model": "scripted", "input": encode_script(*steps), "stream": True, "store": True}
    async with http.stream("POST", "/v1/responses", json=body) as answer:
        lines = answer.aiter_lines()
        first = [line async for line in _read_until(lines, "data: {")][-1]

        async def read() -> list[Any]:
            return _frames("\n".join([first, *[line async for line in lines]]))

        yield _frames(first)[0]["response"]["id"], asyncio.create_task(read())


async def _read_until(lines: AsyncIterator[str], prefix: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith(prefix):
            return


# Actions; each starts, reads and ends runs through servers that it picks at random


async def _read_after_write(servers: Servers) -> str:
    first, second = servers.two()
    created = await first.post("/v1/responses", json={"model": "scripted", "input": "one two"})
    fetched = await second.get(f"/v1/responses/{created.json()['id']}")

    assert (created.status_code, fetched.json()) == (200, created.json())
    await servers.check(created.headers["x-palaver-run-id"], status="finished")
    return "finished"


async def _resume_elsewhere(servers: Servers) -> str:
    first, second = servers.two()
    words = [{"text": f"{number} "} for number in range(6)]
    pause = {"sleep": servers.chance.random() * 0.1}
    async with start_run(first, *words, pause, *words, pause, *words) as (response, frames_task):
        await asyncio.sleep(servers.chance.random() * 0.15)
        after = servers.chance.randrange(12)
        resumed = await second.get(f"/v1/responses/{response}", params={"stream": "true", "starting_after": str(after)})
        direct = await frames_task

    assert resumed.status_code == 200, resumed.text
    replayed = [frame for frame in direct if frame["sequence_number"] > after]
    assert _frames(resumed.text) == replayed
    assert replayed[-1]["type"] == "response.completed"
    return "resumed"


async def _two_cancels(servers: Servers) -> str:
    first, second = servers.two()
    third = servers.chance.choice(servers.clients)
    async with start_run(first, {"text": "Hel"}, {"sleep": 30}) as (response, frames_task):
        await asyncio.sleep(servers.chance.random() * 0.2)
        since = time.monotonic()
        both = await asyncio.gather(*(one.post(f"/v1/responses/{response}/cancel") for one in (second, third)))
        seconds = time.monotonic() - since
        direct = await frames_task

    assert [answer.status_code for answer in both] == [200, 200], [answer.text for answer in both]
    assert both[0].json() == both[1].json()
    assert both[0].json()["status"] == "cancelled"
    assert direct[-1]["type"] in TERMINAL_TYPES
    assert seconds < 20  # A watchdog; a cancel takes a few hundredths of a second, and the run would take 30.
    await servers.check(_run_id(response), status="cancelled")
    return "cancelled"


async def _cancel_against_finish(servers: Servers) -> str:
    first, second = servers.two()
    seconds = 0.02 + servers.chance.random() * 0.08
    async with start_run(first, {"text": "Hello"}, {"sleep": seconds}, {"text": "."}) as (response, frames_task):
        await asyncio.sleep(max(0.0, seconds - 0.03 + servers.chance.random() * 0.03))
        cancelled = await second.post(f"/v1/responses/{response}/cancel")
        await frames_task
    responses = [(await one.get(f"/v1/responses/{response}")).json() for one in servers.clients]

    outcome = "cancelled" if cancelled.status_code == 200 else "finished"
    assert cancelled.status_code in (200, 400), cancelled.text  # 400: it has ended, and cannot be cancelled any more.
    assert all(one == responses[0] for one in responses)
    assert responses[0]["status"] == ("cancelled" if cancelled.status_code == 200 else "completed")
    await servers.check(_run_id(response), status=outcome)
    return f"{outcome} first"


async def _two_turns(servers: Servers) -> str:
    first, second = servers.two()
    conversation = (await first.post("/v1/conversations", json={})).json()["id"]
    body = {
        "model": "scripted",
        "conversation": conversation,
        "input": encode_script({"sleep": 0.05}, {"text": "Yes."}),
    }

    both = await asyncio.gather(*(one.post("/v1/responses", json=body) for one in (first, second)))
    items = await servers.chance.choice(servers.clients).get(f"/v1/conversations/{conversation}/items?order=asc")

    codes = sorted(answer.status_code for answer in both)
    assert codes in ([200, 409], [200, 200]), [answer.text for answer in both]
    roles = [item["role"] for item in items.json()["data"]]
    assert roles == ["user", "assistant"] * codes.count(200)
    return f"turns {codes}"


async def _background_run(servers: Servers) -> str:
    first, second = servers.two()
    created = await first.post("/v1/responses", json={"model": "scripted", "input": "one two", "background": True})
    replayed = await second.get(f"/v1/responses/{created.json()['id']}", params={"stream": "true"})
    fetched = await servers.chance.choice(servers.clients).get(f"/v1/responses/{created.json()['id']}")

    assert created.json()["status"] == "queued"
    assert _frames(replayed.text)[-1]["response"] == fetched.json()
    assert fetched.json()["status"] == "completed"
    await servers.check(_run_id(created.json()["id"]), status="finished")
    return "background"


def _run_id(response: str) -> str:
    return "run_" + response.removeprefix("resp_")


ACTIONS: list[Callable[[Servers], Awaitable[str]]] = [
    _read_after_write,
    _resume_elsewhere,
    _two_cancels,
    _cancel_against_finish,
    _two_turns,
    _background_run,
]


async def test_all_readers_see_the_same_outcome_for_any_interleaving(postgres_url: str) -> None:
    outcomes: Counter[str] = Counter()
    async with start_servers(postgres_url) as servers:
        actions = [servers.chance.choice(ACTIONS) for _ in range(round_count(90, 1000))]

        async def play() -> None:
            while actions:
                outcomes[await actions.pop()(servers)] += 1

        async with asyncio.timeout(round_count(60, 900)), asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(play())

    assert sum(outcomes.values()) == round_count(90, 1000)
    assert {"finished", "resumed", "cancelled", "background"} < outcomes.keys()  # Otherwise the rounds prove little.


def _wait_until_text_is_stored(http: httpx.Client, response_id: str) -> None:
    """Read the stream through another server, which has only what is stored."""
    for _ in range(600):
        with http.stream("GET", f"/v1/responses/{response_id}", params={"stream": "true"}) as answer:
            if answer.status_code == 200:
                assert any("Hel" in line for line in answer.iter_lines() if "output_text.delta" in line)
                return
            assert answer.status_code == 404, answer.read()
        time.sleep(0.1)
    raise AssertionError(f"{response_id} was not stored")


def test_runs_of_a_killed_server_become_incomplete_soon_after(tmp_path: Path, postgres_url: str) -> None:
    beat = 5.0 if IS_FULL_RUN else 0.4
    settings = {"db": postgres_url, "heartbeat_seconds": str(beat)}
    with ExitStack() as stack:
        dying = stack.enter_context(server_process(tmp_path, **settings))
        other = stack.enter_context(server_process(tmp_path, **settings))
        http = stack.enter_context(httpx.Client(base_url=other.url, trust_env=False, timeout=60))
        dying_client = stack.enter_context(httpx.Client(base_url=dying.url, trust_env=False, timeout=60))
        body = {
            "input": encode_script({"text": "Hel"}, {"sleep": 600}),
            "stream": True,
            "store": True,
            "model": "scripted",
        }
        response_ids: list[str] = []
        open_streams: list[object] = []
        for _ in range(4):
            lines = stack.enter_context(dying_client.stream("POST", "/v1/responses", json=body)).iter_lines()
            open_streams.append(lines)  # Dropping them would disconnect.
            created = next(line for line in lines if line.startswith("data: {"))
            response_ids.append(msgspec.json.decode(created[6:])["response"]["id"])
            assert any("Hel" in line for line in lines if "output_text.delta" in line)
        for response_id in response_ids:
            _wait_until_text_is_stored(http, response_id)

        os.kill(dying.process.pid, signal.SIGKILL)
        since = time.monotonic()
        replayed = [http.get(f"/v1/responses/{one}", params={"stream": "true"}).text for one in response_ids]
        seconds = time.monotonic() - since
        responses = [http.get(f"/v1/responses/{one}").json() for one in response_ids]

    assert seconds < 7 * beat + 20  # 35 seconds at the default heartbeat, and a margin for a slow machine.
    ends = [frames[-1]["type"] if (frames := _frames(text)) else text for text in replayed]
    assert ends == ["response.incomplete"] * 4
    assert [(one["status"], one["output"][0]["content"][0]["text"]) for one in responses] == [("incomplete", "Hel")] * 4
