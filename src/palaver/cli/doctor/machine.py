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
    """Check whether the port is free, and else which server uses it."""
    host, port = settings.host, settings.port
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if port == 0:
        yield ok("port", "Any free port is taken, as port = 0 says.")
        return
    if not 0 < port < 65536:
        yield problem("port", f"There is no port {port}.", "Set port to one from 1 to 65535, or to 0 for any.")
        return
    fault = _bind_error(host, port)
    if fault is None:
        yield ok("port", f"{address} is free.")
        return
    match fault.errno:
        case errno.EADDRINUSE:
            yield _check_taken_port(host, port, address)
        case errno.EACCES:
            advice = "Take one above 1023 (--port), and let a proxy have the low ones."
            yield problem("port", f"{address} is not ours to listen on: it needs more rights.", advice)
        case errno.EADDRNOTAVAIL:
            yield problem("port", f"This machine has no address {host}.", "Set host to one of its own, or 127.0.0.1.")
        case _:
            reason = fault.strerror or str(fault)
            yield problem(
                "port", f"Nobody can listen on {address}: {printable(reason)}.", "Set host and port otherwise."
            )


def _bind_error(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if os.name == "posix":  # As a server does. On Windows the option lets two servers share a port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error
    return None


def _check_taken_port(host: str, port: int, address: str) -> Check:
    version = _palaver_version_at(_LOOPBACK_OF_ANY.get(host, host), port)
    if isinstance(version, str):
        return ok(
            "port", f"A Palaver {printable(version, 40)} answers on {address}.", "A second one wants another --port."
        )
    return problem("port", f"{address} is taken by another program.", "Stop that, or give --port.")


def _palaver_version_at(host: str, port: int) -> str | None:
    """Return the version of the Palaver server that answers there, or None."""
    name = f"[{host}]" if ":" in host else host
    request = f"GET /livez HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode()
    received = b""
    with suppress(OSError), socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S) as connection:
        connection.sendall(request)
        while len(received) < 65_536 and (chunk := connection.recv(4096)):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    document: Any = json.parse_or_text(body.decode("utf-8", "replace"))
    match document:
        case {"version": str(version)} if b"\r\nx-api-version:" in head.lower():
            return version
        case _:
            return None


_EARLIEST_PLAUSIBLE = datetime(2025, 1, 1, tzinfo=UTC)
"""Before the first release."""
_MAX_JUMP_S, _MAX_SKEW_S, _MAX_DATABASE_SKEW_S = 1.0, 1.0, 10.0
_MAX_FUTURE = timedelta(minutes=1)
_SET_CLOCK_HINT = "Set it by NTP (timedatectl set-ntp true, or your system's way)."


class ClockReading(NamedTuple):
    """Both clocks at one moment."""

    wall: datetime
    monotonic: float


def check_clock(first: ClockReading, last: ClockReading, report: DatabaseReport | None) -> Iterator[Check]:
    """Compare clock readings before and after the other checks, and with the database's clock."""
    moved = (last.wall - first.wall).total_seconds() - (last.monotonic - first.monotonic)
    if last.wall < _EARLIEST_PLAUSIBLE:
        message = f"The clock says {last.wall:%Y-%m-%d}: keys never end, and what is kept has wrong times."
        yield problem("clock", message, _SET_CLOCK_HINT)
    elif last.monotonic < first.monotonic:
        yield problem("clock", "The monotonic clock went back: no time limit holds.", "The machine below it is broken.")
    elif abs(moved) > _MAX_JUMP_S:
        direction = "ahead" if moved > 0 else "back"
        message = f"The clock was set {direction} by {abs(moved):.1f} s while we looked."
        yield warning("clock", message, _SET_CLOCK_HINT)
    else:
        yield ok("clock", f"It is {last.wall:%Y-%m-%d %H:%M:%S} UTC, and the clock goes evenly.")
    if report is not None and report.clock_offset_s is not None:
        yield _check_database_clock(report.clock_offset_s)
    if report is not None and report.newest_at is not None and report.newest_at - last.wall > _MAX_FUTURE:
        message = f"The newest row is from {report.newest_at:%Y-%m-%d %H:%M:%S} UTC, which is to come."
        yield warning("clock", message, f"A clock was set back, or another machine's is ahead. {_SET_CLOCK_HINT}")


def _check_database_clock(ahead: float) -> Check:
    message = f"The database's clock is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}."
    if abs(ahead) > _MAX_DATABASE_SKEW_S:
        return problem("clock", message, f"Processes take each other for dead. {_SET_CLOCK_HINT}")
    if abs(ahead) > _MAX_SKEW_S:
        return warning("clock", message, _SET_CLOCK_HINT)
    return ok("clock", f"The database's clock agrees: {abs(ahead) * 1000:.0f} ms apart.")


_OTHERS_READ, _OTHERS_WRITE = 0o044, 0o022


def check_file_modes(
    settings: Settings, sources: dict[str, Source], *, folder: Path, database: Path | None
) -> Iterator[Check]:
    """Check for files that other users can read or change."""
    if os.name != "posix":  # pragma: no cover - modes mean little on other systems
        return
    checks = [*_check_database_modes(database), *_check_settings_modes(settings, sources, folder / "palaver.toml")]
    yield from checks or [ok("files", "What is kept and what is set is this user's alone.")]


def _check_database_modes(path: Path | None) -> Iterator[Check]:
    if path is None or not path.exists():
        return
    for exposure in permission_warnings(path):
        message, _, advice = exposure.partition(": ")
        yield problem("files", f"{message}.", advice)
    for copy in sorted(path.parent.glob(f"{path.name}.*.backup")):
        if _file_mode(copy) & _OTHERS_READ:
            yield _readable_problem(copy, "a copy of the database")


def _check_settings_modes(settings: Settings, sources: dict[str, Source], path: Path) -> Iterator[Check]:
    if not path.is_file():
        return
    secret_names = [name for name in _secret_settings(settings) if sources[name] == "file"]
    if secret_names and _file_mode(path) & _OTHERS_READ:
        yield _readable_problem(path, f"which has secrets in {', '.join(secret_names)}")
    if _file_mode(path) & _OTHERS_WRITE:
        yield problem(
            "files", f"Others can change {path}, and so what a server does.", f"chmod go-w {path} stops that."
        )


def _secret_settings(settings: Settings) -> Iterator[str]:
    """Yield settings that hold secrets."""
    from palaver.storage.paths import redact_url

    if redact_url(settings.db) != settings.db:
        yield "db"
    if settings.otlp_headers:
        yield "otlp_headers"
    values = [value for connection in settings.connections.values() for value in connection.headers.values()]
    if any(not value.startswith("env:") for value in values):
        yield "connections"


def check_key_file(path: Path) -> Iterator[Check]:
    if os.name == "posix" and _file_mode(path) & _OTHERS_READ:
        yield _readable_problem(path, "which has a key in it")


def _readable_problem(path: Path, description: str) -> Check:
    return problem("files", f"Others can read {path}, {description}.", f"chmod 600 {path} makes it yours alone.")


def _file_mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
