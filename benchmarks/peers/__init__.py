"""Peers: other people's servers, installed in a virtual environment of their own and measured beside ours."""

import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import machine, servers
from benchmarks.servers import Server
from benchmarks.stand import CannotMeasure, Stand

MLFLOW_EVENTS = 202
"""200 deltas, the item when it is done, and the end."""

_ROOT = Path(__file__).parents[2]
_LOCK = _ROOT / "requirements" / "peers.txt"
_HOME = _ROOT / ".venv" / "peers"  # Goes with the environment that measures.
_UVICORN = "--loop uvloop --http httptools --no-access-log --log-level warning".split()


def installed() -> Path:
    """The Python of the peers' environment, made now if need be, with exactly what the lock says."""
    python, stamp = _HOME / "bin" / "python", _HOME / "installed"
    if stamp.exists() and stamp.read_bytes() == _LOCK.read_bytes():
        return python
    venv.create(_HOME, clear=True, with_pip=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    done = subprocess.run([*command, "-r", _LOCK], check=False, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise CannotMeasure(f"the peers cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    stamp.write_bytes(_LOCK.read_bytes())
    return python


@contextmanager
def mlflow(stand: Stand, python: Path, *, traces: bool = False) -> Iterator[Server]:
    """MLflow's AgentServer with the same trivial agent, its tracing off, or on as it is by default."""
    kept = {"MLFLOW_TRACKING_URI": f"sqlite:///{stand.folder / 'mlflow.db'}"} if traces else {"NO_TRACES": "1"}
    port = machine.free_port()
    command = [str(python), "-W", "ignore", "-m", "uvicorn", "mlflow_agent:app", "--port", str(port), *_UVICORN]
    command += ["--app-dir", str(Path(__file__).parent)]
    with servers.running(stand, "mlflow", command, port, **kept) as server:
        yield server
