"""Is the port free that a server would listen on; and if not, who answers there?"""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from palaver.cli.doctoring.checks import Check, ok, problem
from palaver.core import json
from palaver.outbound import printable
from palaver.server.settings import Settings

_SECONDS = 2.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what is looked for, not where we listen


def check(settings: Settings) -> Iterator[Check]:
    """One line."""
    host, port = settings.host, settings.port
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if port == 0:
        yield ok("port", "Any free port is taken, as port = 0 says.")
        return
    if not 0 < port < 65536:
        yield problem("port", f"There is no port {port}.", "Set port to one from 1 to 65535, or to 0 for any.")
        return
    fault = _fault(host, port)
    if fault is None:
        yield ok("port", f"{place} is free.")
        return
    match fault.errno:
        case errno.EADDRINUSE:
            yield _taken(host, port, place)
        case errno.EACCES:
            do = "Take one above 1023 (--port), and let a proxy have the low ones."
            yield problem("port", f"{place} is not ours to listen on: it needs more rights.", do)
        case errno.EADDRNOTAVAIL:
            yield problem("port", f"This machine has no address {host}.", "Set host to one of its own, or 127.0.0.1.")
        case _:
            why = fault.strerror or str(fault)
            yield problem("port", f"Nobody can listen on {place}: {printable(why)}.", "Set host and port otherwise.")


def _fault(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trying:
            if os.name == "posix":  # As a server does. Elsewhere the option means that a port may be had by two.
                trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trying.bind((host, port))
    except OSError as error:
        return error
    return None


def _taken(host: str, port: int, place: str) -> Check:
    said = _who(_ANY.get(host, host), port)
    if isinstance(said, str):
        return ok("port", f"A Palaver {printable(said, 40)} answers on {place}.", "A second one wants another --port.")
    return problem("port", f"{place} is taken by another program.", "Stop that, or give --port.")


def _who(host: str, port: int) -> str | None:
    """The version of the Palaver that answers there; None if it is somebody else."""
    name = f"[{host}]" if ":" in host else host
    request = f"GET /livez HTTP/1.1\r\nHost: {name}:{port}\r\nConnection: close\r\n\r\n".encode()
    received = b""
    with suppress(OSError), socket.create_connection((host, port), timeout=_SECONDS) as line:
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
