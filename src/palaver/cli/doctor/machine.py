"""Checks of this machine: the port, the clock and file modes."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from palaver.cli.doctor.check import Check, ok, problem, warning
from palaver.core import json
from palaver.outbound import printable
from palaver.server.settings import Settings, Source
from palaver.storage.diagnostics import DatabaseReport
from palaver.storage.paths import permission_warnings

_CONNECT_TIMEOUT_S = 2.0
_LOOPBACK_OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what is looked for, not where we listen


def check_port(settings: Settings) -> Iterator[Check]:
    """One line."""
    host, port = settings.host, settings.port
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if port == 0:
        yield ok("port", "Any free port is taken, as port = 0 says.")
        return
    if not 0 < port < 65536:
        yield problem("port", f"There is no port {port}.", "Set port to one from 1 to 65535, or to 0 for any.")
        return
    fault = _bind_error(host, port)
    if fault is None:
        yield ok("port", f"{place} is free.")
        return
    match fault.errno:
        case errno.EADDRINUSE:
            yield _check_taken_port(host, port, place)
        case errno.EACCES:
            do = "Take one above 1023 (--port), and let a proxy have the low ones."
            yield problem("port", f"{place} is not ours to listen on: it needs more rights.", do)
        case errno.EADDRNOTAVAIL:
            yield problem("port", f"This machine has no address {host}.", "Set host to one of its own, or 127.0.0.1.")
        case _:
            why = fault.strerror or str(fault)
            yield problem("port", f"Nobody can listen on {place}: {printable(why)}.", "Set host and port otherwise.")


def _bind_error(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trying:
            if os.name == "posix":  # As a server does. Elsewhere the option means that a port may be had by two.
                trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trying.bind((host, port))
    except OSError as error:
        return error
    return None


def _check_taken_port(host: str, port: int, place: str) -> Check:
    said = _palaver_version_at(_LOOPBACK_OF_ANY.get(host, host), port)
    if isinstance(said, str):
        return ok("port", f"A Palaver {printable(said, 40)} answers on {place}.", "A second one wants another --port.")
    return problem("port", f"{place} is taken by another program.", "Stop that, or give --port.")


def _palaver_version_at(host: str, port: int) -> str | None:
    """The version of the Palaver that answers there; None if it is somebody else."""
    name = f"[{host}]" if ":" in host else host
    request = f"GET /livez HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode()
    received = b""
    with suppress(OSError), socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S) as line:
        line.sendall(request)
        while len(received) < 65_536 and (piece := line.recv(4096)):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    told: Any = json.parse_or_text(body.decode("utf-8", "replace"))
    match told:
        case {"version": str(version)} if b"\r\nx-api-version:" in head.lower():
            return version
        case _:
            return None


_EARLIEST_PLAUSIBLE = datetime(2025, 1, 1, tzinfo=UTC)
"""Before there was any Palaver."""
_MAX_JUMP_S, _MAX_SKEW_S, _MAX_DATABASE_SKEW_S = 1.0, 1.0, 10.0
_MAX_FUTURE = timedelta(minutes=1)
_SET_CLOCK_HINT = "Set it by NTP (timedatectl set-ntp true, or your system's way)."


class ClockReading(NamedTuple):
    """A look at both clocks at once."""

    wall: datetime
    monotonic: float


def check_clock(first: ClockReading, last: ClockReading, look: DatabaseReport | None) -> Iterator[Check]:
    """Of two looks, one before and one after the other checks; and what the database says of its own clock."""
    moved = (last.wall - first.wall).total_seconds() - (last.monotonic - first.monotonic)
    if last.wall < _EARLIEST_PLAUSIBLE:
        says = f"The clock says {last.wall:%Y-%m-%d}: keys never end, and what is kept has wrong times."
        yield problem("clock", says, _SET_CLOCK_HINT)
    elif last.monotonic < first.monotonic:
        yield problem("clock", "The monotonic clock went back: no time limit holds.", "The machine below it is broken.")
    elif abs(moved) > _MAX_JUMP_S:
        way = "ahead" if moved > 0 else "back"
        says = f"The clock was set {way} by {abs(moved):.1f} s while we looked."
        yield warning("clock", says, _SET_CLOCK_HINT)
    else:
        yield ok("clock", f"It is {last.wall:%Y-%m-%d %H:%M:%S} UTC, and the clock goes evenly.")
    if look is not None and look.ahead is not None:
        yield _check_database_clock(look.ahead)
    if look is not None and look.newest is not None and look.newest - last.wall > _MAX_FUTURE:
        says = f"The newest row is from {look.newest:%Y-%m-%d %H:%M:%S} UTC, which is to come."
        yield warning("clock", says, f"A clock was set back, or another machine's is ahead. {_SET_CLOCK_HINT}")


def _check_database_clock(ahead: float) -> Check:
    says = f"The database's clock is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}."
    if abs(ahead) > _MAX_DATABASE_SKEW_S:
        return problem("clock", says, f"Processes take each other for dead. {_SET_CLOCK_HINT}")
    if abs(ahead) > _MAX_SKEW_S:
        return warning("clock", says, _SET_CLOCK_HINT)
    return ok("clock", f"The database's clock agrees: {abs(ahead) * 1000:.0f} ms apart.")


_OTHERS_READ, _OTHERS_WRITE = 0o044, 0o022


def check_file_modes(
    settings: Settings, sources: dict[str, Source], *, folder: Path, database: Path | None
) -> Iterator[Check]:
    """A line for each file that others can read or change; one that says so where there is none."""
    if os.name != "posix":  # pragma: no cover - elsewhere modes mean little
        return
    found = [*_check_database_modes(database), *_check_settings_modes(settings, sources, folder / "palaver.toml")]
    yield from found or [ok("files", "What is kept and what is set is this user's alone.")]


def _check_database_modes(path: Path | None) -> Iterator[Check]:
    if path is None or not path.exists():
        return
    for line in permission_warnings(path):
        says, _, do = line.partition(": ")
        yield problem("files", f"{says}.", do)
    for copy in sorted(path.parent.glob(f"{path.name}.*.backup")):
        if _file_mode(copy) & _OTHERS_READ:
            yield _readable_problem(copy, "a copy of the database")


def _check_settings_modes(settings: Settings, sources: dict[str, Source], path: Path) -> Iterator[Check]:
    if not path.is_file():
        return
    held = [name for name in _secret_settings(settings) if sources[name] == "file"]
    if held and _file_mode(path) & _OTHERS_READ:
        yield _readable_problem(path, f"which has secrets in {', '.join(held)}")
    if _file_mode(path) & _OTHERS_WRITE:
        yield problem(
            "files", f"Others can change {path}, and so what a server does.", f"chmod go-w {path} stops that."
        )


def _secret_settings(settings: Settings) -> Iterator[str]:
    """Settings that hold one."""
    from palaver.storage.paths import redact_url

    if redact_url(settings.db) != settings.db:
        yield "db"
    if settings.otlp_headers:
        yield "otlp_headers"
    told = [value for one in settings.connections.values() for value in one.headers.values()]
    if any(not value.startswith("env:") for value in told):
        yield "connections"


def check_key_file(path: Path) -> Iterator[Check]:
    """The file that a key was read from."""
    if os.name == "posix" and _file_mode(path) & _OTHERS_READ:
        yield _readable_problem(path, "which has a key in it")


def _readable_problem(path: Path, what: str) -> Check:
    return problem("files", f"Others can read {path}, {what}.", f"chmod 600 {path} makes it yours alone.")


def _file_mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
