"""Who else of this machine can read what is kept, or change what is set."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from palaver.cli.doctoring.checks import Check, ok, problem
from palaver.server.settings import Settings, Source
from palaver.storage.paths import permission_warnings

_OTHERS_READ, _OTHERS_WRITE = 0o044, 0o022


def check(settings: Settings, sources: dict[str, Source], *, folder: Path, database: Path | None) -> Iterator[Check]:
    """A line for each file that others can read or change; one that says so where there is none."""
    if os.name != "posix":  # pragma: no cover - elsewhere modes mean little
        return
    found = [*_of_database(database), *_of_settings(settings, sources, folder / "palaver.toml")]
    yield from found or [ok("files", "What is kept and what is set is this user's alone.")]


def _of_database(path: Path | None) -> Iterator[Check]:
    if path is None or not path.exists():
        return
    for line in permission_warnings(path):
        says, _, do = line.partition(": ")
        yield problem("files", f"{says}.", do)
    for copy in sorted(path.parent.glob(f"{path.name}.*.backup")):
        if _mode(copy) & _OTHERS_READ:
            yield _closed(copy, "a copy of the database")


def _of_settings(settings: Settings, sources: dict[str, Source], path: Path) -> Iterator[Check]:
    if not path.is_file():
        return
    held = [name for name in _secrets(settings) if sources[name] == "file"]
    if held and _mode(path) & _OTHERS_READ:
        yield _closed(path, f"which has secrets in {', '.join(held)}")
    if _mode(path) & _OTHERS_WRITE:
        yield problem(
            "files", f"Others can change {path}, and so what a server does.", f"chmod go-w {path} stops that."
        )


def _secrets(settings: Settings) -> Iterator[str]:
    """Settings that hold one."""
    from palaver.storage.paths import redact_url

    if redact_url(settings.db) != settings.db:
        yield "db"
    if settings.otlp_headers:
        yield "otlp_headers"
    told = [value for one in settings.connections.values() for value in one.headers.values()]
    if any(not value.startswith("env:") for value in told):
        yield "connections"


def of_key(path: Path) -> Iterator[Check]:
    """The file that a key was read from."""
    if os.name == "posix" and _mode(path) & _OTHERS_READ:
        yield _closed(path, "which has a key in it")


def _closed(path: Path, what: str) -> Check:
    return problem("files", f"Others can read {path}, {what}.", f"chmod 600 {path} makes it yours alone.")


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
