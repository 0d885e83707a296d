"""Cores, memory and processor time of processes, file limits and ports."""

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
"""The core of the servers; None if there is only one."""
LOAD_CORE = _CORES[1] if len(_CORES) > 1 else None
"""The core of the load generator."""
_SETTLE_INTERVAL_S = 0.3


class Memory(msgspec.Struct, frozen=True):
    """Memory of a process, in KiB."""

    resident: int
    proportional: int
    """Pages shared by several processes count in part (PSS)."""


@contextmanager
def pin_to_core(core: int | None) -> Iterator[None]:
    """Pin processes that are started inside the block to this core."""
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
    """Return the current memory use of a process."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError as error:
        raise MeasurementError(f"the memory of a process cannot be read here ({error})") from None
    sizes = {name: int(size.split()[0]) for name, _, size in (line.partition(":") for line in lines)}
    return Memory(resident=sizes["Rss"], proportional=sizes["Pss"])


def processor_seconds(pid: int) -> float:
    """Return the user and system time of a process so far; 0 if unknown."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """Return a process and its descendants; only itself if /proc is missing."""
    parents = dict(_parent_pids())
    pids = [pid]
    for current in pids:  # The list grows during the loop.
        pids += [child for child, parent in parents.items() if parent == current]
    return pids


def _parent_pids() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # The process has just ended.
            yield int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])


def wait_until_idle(pid: int) -> None:
    """Wait until the processor time of a process stops growing."""
    before, now = -1.0, processor_seconds(pid)
    while now > before:
        time.sleep(_SETTLE_INTERVAL_S)
        before, now = now, processor_seconds(pid)


def busy_seconds() -> float:
    """Return the busy time so far of the servers' and the load's core, by any process; 0 if unknown."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    cores = {f"cpu{core}" for core in (SERVER_CORE, LOAD_CORE)}
    fields = [line.split() for line in lines if line.split(" ", 1)[0] in cores]
    # user, nice, system, (idle, iowait,) irq, softirq, steal
    ticks = sum(int(core[field]) for core in fields for field in (1, 2, 3, 6, 7, 8))
    return ticks / os.sysconf("SC_CLK_TCK")


def raise_file_limit(count: int) -> None:
    """Raise the limit of open files of this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise MeasurementError(f"{count} open files are needed and {hard} are allowed (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
