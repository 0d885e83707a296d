"""What the operating system knows: cores, memory and processor time of a process, limits."""

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from benchmarks.context import MeasurementError

_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

SERVER_CORE = _CORES[0] if len(_CORES) > 1 else None
"""Where servers run; None where processes cannot be kept apart."""
LOAD_CORE = _CORES[1] if len(_CORES) > 1 else None
"""Where the load comes from."""
_SETTLE_INTERVAL_S = 0.3


class Memory(msgspec.Struct, frozen=True):
    """Memory of a process, in KiB."""

    resident: int
    proportional: int
    """Pages that several processes share count in part."""


@contextmanager
def pin_to_core(core: int | None) -> Iterator[None]:
    """What is started inside stays on this core."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def memory(pid: int) -> Memory:
    """What a process holds now."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError as error:
        raise MeasurementError(f"the memory of a process cannot be read here ({error})") from None
    sizes = {name: int(size.split()[0]) for name, _, size in (line.partition(":") for line in lines)}
    return Memory(resident=sizes["Rss"], proportional=sizes["Pss"])


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used so far, its own and the kernel's for it; 0 where nobody tells."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """A process and those that it began, and those that they did; only itself where nobody tells."""
    parents = dict(_parent_pids())
    found = [pid]
    for one in found:  # It grows while it is gone through.
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _parent_pids() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # It ended just now.
            yield int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])


def wait_until_idle(pid: int) -> None:
    """Wait until a process has done what it had to do, and its processor time stands still."""
    before, now = -1.0, processor_seconds(pid)
    while now > before:
        time.sleep(_SETTLE_INTERVAL_S)
        before, now = now, processor_seconds(pid)


def busy_seconds() -> float:
    """Time for which the servers' and the load's core have worked so far, for anybody; 0 where nobody tells."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    cores = {f"cpu{core}" for core in (SERVER_CORE, LOAD_CORE)}
    fields = [line.split() for line in lines if line.split(" ", 1)[0] in cores]
    # user, nice, system, (idle, iowait,) irq, softirq, steal
    ticks = sum(int(core[field]) for core in fields for field in (1, 2, 3, 6, 7, 8))
    return ticks / os.sysconf("SC_CLK_TCK")


def raise_file_limit(most: int) -> None:
    """Let this process, and those that it starts, open that many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < most:
        if hard != resource.RLIM_INFINITY and hard < most:
            raise MeasurementError(f"{most} open files are needed and {hard} are allowed (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def free_port() -> int:
    """A port that nobody listens on, as of now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
