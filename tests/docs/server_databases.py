"""Check that the servers on a page use the databases in which the page creates keys, and would start with them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from palaver.errors import SettingsError
from palaver.server.exposure import check_exposure
from palaver.server.settings import Settings, read_settings
from palaver.server.supervisor import check_worker_count
from palaver.storage.database import printable_location
from palaver.storage.paths import default_path
from tests.docs import commands
from tests.docs.shell import ShellCall

_SERVERS = ("palaver serve", "palaver worker")
_CREATE_KEY = "palaver key create"


def check_servers(blocks: Iterable[tuple[str, Iterable[ShellCall]]], folder: Path) -> Iterator[str]:
    """Yield what is wrong with the servers in the blocks of a page, each with its label, in order."""
    keyed_databases: set[str] = set()
    for label, calls in blocks:
        key_databases: set[str] = set()
        server_databases: set[str] = set()
        for path, settings in _settings_of(calls, folder):
            database = printable_location(settings.db or str(default_path()))
            if path == _CREATE_KEY:
                key_databases.add(database)
                keyed_databases.add(database)
                continue
            server_databases.add(database)
            if path == "palaver serve":
                yield from _refusals(label, settings, database, has_key=database in keyed_databases)
        if key_databases and server_databases and len(key_databases | server_databases) > 1:
            yield f"{label}: keys are created in {sorted(key_databases)}, servers use {sorted(server_databases)}"


def _settings_of(calls: Iterable[ShellCall], folder: Path) -> Iterator[tuple[str, Settings]]:
    """Yield the command path and the settings of each call that creates a key or starts a server."""
    for call in calls:
        if call.program not in commands.PROGRAMS or call.arguments == ("--version",):
            continue
        values = (*call.arguments, *call.environment.values())
        path, flags = commands.parse(call.program, call.arguments)
        if path in (*_SERVERS, _CREATE_KEY) and not any("…" in value for value in values):
            settings, _ = read_settings(flags=flags, env=call.environment, folder=folder)
            yield path, settings


def _refusals(label: str, settings: Settings, database: str, *, has_key: bool) -> Iterator[str]:
    try:
        check_exposure(settings, has_key=has_key, database=database)
        if settings.workers > 1:
            check_worker_count(settings, database)
    except SettingsError as error:
        yield f"{label}: {error.message}"
