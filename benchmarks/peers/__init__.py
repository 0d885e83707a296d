"""Other projects' servers for comparison, installed in separate virtual environments."""

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
"""200 deltas, the finished item, and the end."""

_ROOT = Path(__file__).parents[2]
_VENV = _ROOT / ".venv"
_UVICORN = "--loop uvloop --http httptools --no-access-log --log-level warning".split()


def install_peer(name: Literal["peers", "phoenix"] = "peers") -> Path:
    """Return the Python of the environment `name`, after installing its lock file if needed."""
    lock, environment = _ROOT / "requirements" / f"{name}.txt", _VENV / name
    python, stamp = environment / "bin" / "python", environment / "installed"
    if stamp.exists() and stamp.read_bytes() == lock.read_bytes():
        return python
    venv.create(environment, clear=True, with_pip=True)
    # The lock is complete; without --no-deps, pip fails on extras that have no line in it.
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
    result = subprocess.run([*command, "-r", lock], check=False, capture_output=True, text=True, timeout=1_200)
    if result.returncode:
        raise MeasurementError(f"the {name} environment cannot be made: {result.stderr.strip().splitlines()[-1:]}")
    stamp.write_bytes(lock.read_bytes())
    return python


@contextmanager
def run_mlflow(context: BenchmarkContext, python: Path, *, traces: bool = False) -> Iterator[Server]:
    """Run MLflow's AgentServer with the same trivial agent, with tracing off or on (its default)."""
    variables = {"MLFLOW_TRACKING_URI": f"sqlite:///{context.folder / 'mlflow.db'}"} if traces else {"NO_TRACES": "1"}
    port = machine.free_port()
    command = [str(python), "-W", "ignore", "-m", "uvicorn", "mlflow_agent:app", "--port", str(port), *_UVICORN]
    command += ["--app-dir", str(Path(__file__).parent)]
    with servers.run_server(context, "mlflow", command, port, variables) as server:
        yield server


@contextmanager
def run_phoenix(context: BenchmarkContext, python: Path) -> Iterator[tuple[Server, Path]]:
    """Run Arize Phoenix offline; also yields the path of its SQLite file."""
    folder, port = context.folder / "phoenix", machine.free_port()
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
        context, "phoenix", command, port, settings, health="/healthz", timeout=120, core=None
    ) as server:
        yield server, folder / "phoenix.db"


def count_phoenix_spans(path: Path) -> int:
    """Count the spans in Phoenix's file."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        return db.execute("SELECT count(*) FROM spans").fetchone()[0]
    finally:
        db.close()
