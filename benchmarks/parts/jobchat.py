"""Job Chat: its overhead over the model's time, many concurrent chats, and an interpreter per request to compare.

The model is `palaver-jobchat fake-model`, a separate process that serves Anthropic's protocol to the real client.
"""

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

import msgspec

from benchmarks import machine, servers
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.figures import Figure, at_most
from benchmarks.servers import Server

_CHATS = 200
_DELTAS = 100
_JOB = "".join(f"get('/patients/{number}', {{ query: {{ page: {number} }} }});\n" for number in range(100))
_PAYLOAD: dict[str, Any] = {
    "content": "How do I go on when one of these requests fails?",
    "context": {"expression": _JOB, "adaptor": "http@6.5.4"},
    "suggest_code": True,
}
_INSTANT_ANSWER: dict[str, Any] = {"text": "It is like this. ", "usage": {"input_tokens": 10}}
_PACED_ANSWER: dict[str, Any] = {"text": "word " * _DELTAS, "chunks": _DELTAS, "delay": 0.02}
_MODEL_REQUEST: dict[str, Any] = {
    "model": "m",
    "max_tokens": 1024,
    "stream": True,
    "messages": [{"role": "user", "content": _JOB}],
}
_WORDS = "state operation data function list value record field request job path fails log error query page".split()
_INTERPRETER_CODE = f"""
import anthropic
client = anthropic.Anthropic(api_key="k")
with client.messages.stream(model="m", max_tokens=1024, messages=[{{"role": "user", "content": {_JOB!r}}}]) as stream:
    assert stream.get_final_text()
"""


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    pieces = context.choose(full=5_000, quick=300)
    index = _build_index(context, pieces)
    requests = context.choose(full=100, quick=10)
    with _run_job_chat(context, [_INSTANT_ANSWER] * (4 * requests + 60), index) as (server, port):
        yield from asyncio.run(_measure_sequential(server, port, requests, pieces))
        interpreter, memory = _measure_interpreters(context, port, times=context.choose(full=7, quick=2))
    chats = context.choose(full=_CHATS, quick=20)
    with _run_job_chat(context, [_PACED_ANSWER] * (2 * chats + 1), index) as (server, port):
        yield from asyncio.run(_measure_concurrent(server, port, chats))
    yield Figure(
        name="for comparison: one interpreter per request",
        value=interpreter,
        unit="ms",
        how=f"median time of a new Python process that imports anthropic and calls the same model; each uses "
        f"{memory:,.0f} KB",
    )


async def _measure_sequential(server: Server, model_port: int, times: int, pieces: int) -> list[Figure]:
    for _ in range(20):
        await _post(server.port, "/services/job_chat/stream", _PAYLOAD)
    first = [(await _post(server.port, "/services/job_chat/stream", _PAYLOAD)).first for _ in range(times)]
    complete = [(await _post(server.port, "/services/job_chat", _PAYLOAD)).last for _ in range(times)]
    direct = [(await _post(model_port, "/v1/messages", _MODEL_REQUEST)).last for _ in range(times)]
    return [
        Figure(
            name="Job Chat: time to the first event",
            value=_p95(first),
            unit="ms",
            goal=at_most(50),
            how=f"p95 of {times} sequential streams; median {median(first):.1f} ms",
        ),
        Figure(
            name="Job Chat: overhead per request",
            value=_p95(complete) - median(direct),
            unit="ms",
            goal=at_most(20),
            how=f"p95 of {times} requests with a job of {len(_JOB) / 1000:.0f} KB, an adaptor and a search in "
            f"{pieces:,} sections of documentation, less {median(direct):.1f} ms for the model; "
            f"median {median(complete) - median(direct):.1f} ms",
        ),
    ]


async def _measure_concurrent(server: Server, model_port: int, chats: int) -> list[Figure]:
    await _post(server.port, "/services/job_chat/stream", _PAYLOAD)
    before = machine.memory(server.pid).resident
    direct = await asyncio.gather(*(_post(model_port, "/v1/messages", _MODEL_REQUEST) for _ in range(chats)))
    since = time.perf_counter()
    running = [asyncio.create_task(_post(server.port, "/services/job_chat/stream", _PAYLOAD)) for _ in range(chats)]
    await asyncio.sleep(1.5)
    during = machine.memory(server.pid).resident
    answers = await asyncio.gather(*running)
    seconds = time.perf_counter() - since
    if not all(
        answer.body.count(b'"text_delta"') == _DELTAS and b"event: complete\n" in answer.body for answer in answers
    ):
        raise MeasurementError("a delta was lost")
    model_time = median([answer.last for answer in direct])
    lag = _p95([answer.last for answer in answers]) - model_time
    return [
        Figure(
            name=f"Job Chat: {chats} concurrent chats",
            value=seconds,
            unit="s",
            goal=at_most(4),
            how=f"total time; {_DELTAS} deltas each, 20 ms apart (the model alone takes {model_time / 1e3:.2f} s)",
        ),
        Figure(
            name="Job Chat: delay of the last delta",
            value=lag,
            unit="ms",
            how="p95 of these chats, less the median of as many streams directly from the model; includes the time "
            "before the first delta",
        ),
        Figure(
            name="Job Chat: memory per chat",
            value=(during - before) / chats,
            unit="KB",
            goal=at_most(200),
            how=f"growth of resident memory with {chats} active chats, divided by their number",
        ),
    ]


class ChatAnswer(msgspec.Struct, frozen=True):
    """An answer, with milliseconds to its first event and to its end."""

    first: float
    last: float
    body: bytes


async def _post(port: int, path: str, payload: dict[str, Any]) -> ChatAnswer:
    body = msgspec.json.encode(payload)
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\nx-api-key: k\r\n"
    head += f"anthropic-version: 2023-06-01\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    since = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(head.encode() + body)
    response_head = await reader.readuntil(b"\r\n\r\n")
    is_chunked = b"transfer-encoding: chunked" in response_head.lower()
    content, first = bytearray(), 0.0
    while piece := await reader.read(65536):
        first = first or time.perf_counter() - since
        content += piece
        if is_chunked and content.endswith(b"\r\n0\r\n\r\n"):
            break
    last = time.perf_counter() - since
    writer.close()
    if b" 200 " not in response_head.partition(b"\r\n")[0] or b"event: error" in content:
        raise MeasurementError(f"{path} answered {response_head[:60]!r} {content[:200]!r}")
    return ChatAnswer(first * 1e3, last * 1e3, bytes(content))


def _measure_interpreters(context: BenchmarkContext, model_port: int, times: int) -> tuple[float, float]:
    """Milliseconds and peak KB of an interpreter."""
    milliseconds: list[float] = []
    environment = {**context.environment, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model_port}"}
    for _ in range(times):
        since = time.perf_counter()
        subprocess.run([sys.executable, "-c", _INTERPRETER_CODE], env=environment, check=True, stdin=subprocess.DEVNULL)
        milliseconds.append((time.perf_counter() - since) * 1e3)
    return median(milliseconds[1:]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


@contextmanager
def _run_job_chat(context: BenchmarkContext, script: list[dict[str, Any]], index: Path) -> Iterator[tuple[Server, int]]:
    """Run Job Chat with a model that plays this script; the block runs on the other core."""
    with (
        _run_model(context, script) as port,
        _run_server(context, port, index) as server,
        machine.pin_to_core(machine.LOAD_CORE),
    ):
        yield server, port


@contextmanager
def _run_model(context: BenchmarkContext, script: list[dict[str, Any]]) -> Iterator[int]:
    """Run a model that plays this script; yields its port."""
    file = context.folder / "script.json"
    file.write_bytes(msgspec.json.encode(script))
    with machine.pin_to_core(machine.LOAD_CORE):
        process = subprocess.Popen(
            [*_command("palaver-jobchat"), "fake-model", str(file)],
            env=context.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        if not line:
            raise MeasurementError("the fake model did not start")
        yield int(line.rpartition(":")[2])
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _run_server(context: BenchmarkContext, model_port: int, index: Path) -> Iterator[Server]:
    port = machine.free_port()
    command = [*_command("palaver"), "serve", "palaver_jobchat:app", "--port", str(port)]
    command += ["--db", str(context.folder / f"{port}.db")]
    environment = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model_port}",
        "ANTHROPIC_API_KEY": "sk-ant-benchmark",
        "PALAVER_JOBCHAT_ONLINE": "0",
        "PALAVER_JOBCHAT_INDEX": str(index),
        "PALAVER_JOBCHAT_CACHE": str(context.folder / "cache"),
    }
    with servers.run_server(context, "job chat", command, port, environment) as server:
        yield server


def _build_index(context: BenchmarkContext, pieces: int) -> Path:
    """Build an index of `pieces` pieces. As in natural language, few words are common and most are rare."""
    rng = Random(7)
    words = [*_WORDS, *(f"word{number}" for number in range(4_000))]
    weights = [1 / (rank + 20) for rank in range(len(words))]
    folder, file = context.folder / "docs", context.folder / "docs.db"
    folder.mkdir()
    for number in range(pieces // 10):
        sections = (f"## Section {section}\n\n{' '.join(rng.choices(words, weights, k=90))}" for section in range(10))
        (folder / f"page{number}.md").write_text(f"# Page {number}\n\n" + "\n\n".join(sections))
    subprocess.run(
        [*_command("palaver-jobchat"), "index", str(folder), "-o", str(file)],
        env=context.environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return file


def _command(name: str) -> list[str]:
    return [str(Path(sys.executable).with_name(name))]


def _p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1]
