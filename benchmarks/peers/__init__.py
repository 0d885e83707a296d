"""Peers: other people's servers, installed in virtual environments of their own and measured beside ours."""

import sqlite3
import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from benchmarks import machine, servers
from benchmarks.context import BenchmarkContext, MeasurementError
from benchmarks.servers import Server

MLFLOW_EVENTS = 202
"""200 deltas, the item when it is done, and the end."""

_ROOT = Path(__file__).parents[2]
_ENVIRONMENTS = _ROOT / ".venv"  # They go with the environment that measures.
_UVICORN = "--loop uvloop --http httptools --no-access-log --log-level warning".split()


def install_peer(name: Literal["peers", "phoenix"] = "peers") -> Path:
    """The Python of the environment of that name, made now if need be, with exactly what its lock says."""
    lock, home = _ROOT / "requirements" / f"{name}.txt", _ENVIRONMENTS / name
    python, stamp = home / "bin" / "python", home / "installed"
    if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
        return python
    venv.create(home, clear=True, with_pip=True)
    # The lock names all of them; left to find out by itself, pip stumbles over extras that have no lines of their own.
    command = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--no-deps",
    ]
    done = subprocess.run([*command, "-r", lock], check=False, capture_output=True, text=True, timeout=1_200)
    if done.returncode:
        raise MeasurementError(f"the {name} environment cannot be made: {done.stderr.strip().splitlines()[-1:]}")
    stamp.write_bytes(lock.read_bytes())
    return python


@contextmanager
def run_mlflow(stand: BenchmarkContext, python: Path, *, traces: bool = False) -> Iterator[Server]:
    """MLflow's AgentServer with the same trivial agent, its tracing off, or on as it is by default."""
    kept = {"MLFLOW_TRACKING_URI": f"sqlite:///{stand.folder / 'mlflow.db'}"} if traces else {"NO_TRACES": "1"}
    port = machine.free_port()
    command = [str(python), "-W", "ignore", "-m", "uvicorn", "mlflow_agent:app", "--port", str(port), *_UVICORN]
    command += ["--app-dir", str(Path(__file__).parent)]
    with servers.run_server(stand, "mlflow", command, port, kept) as server:
        yield server


@contextmanager
def run_phoenix(stand: BenchmarkContext, python: Path) -> Iterator[tuple[Server, Path]]:
    """Arize Phoenix with an SQLite file of its own, which is told as well. It asks nobody outside of this machine."""
    folder, port = stand.folder / "phoenix", machine.free_port()
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(machine.free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    }
    command = [str(python), "-W", "ignore", "-m", "phoenix.server.main", "serve"]
    with servers.run_server(
        stand, "phoenix", command, port, settings, health="/healthz", patience=120, core=None
    ) as server:
        yield server, folder / "phoenix.db"


def count_phoenix_spans(place: Path) -> int:
    """How many spans its file has."""
    db = sqlite3.connect(f"file:{place}?mode=ro", uri=True, timeout=30)
    try:
        return db.execute("SELECT count(*) FROM spans").fetchone()[0]
    finally:
        db.close()
