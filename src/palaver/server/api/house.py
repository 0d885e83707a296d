"""/api/about, /api/settings and /api/erase: what is asked of the house as a whole."""

import platform
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Literal

import msgspec
from litestar import Response, get, post

from palaver.discovery.config import mask_connections
from palaver.errors import InvalidValue
from palaver.server.api.conventions import Asked, answer, caller_of, read_body, takes, utc_now
from palaver.server.api.dependencies import ApiController
from palaver.server.otlp_exporter import mask_headers
from palaver.server.settings import Settings, Source
from palaver.storage import erasure, queue
from palaver.storage import erasure as testset_origins
from palaver.storage.database import Database
from palaver.storage.migrations import upgrade
from palaver.storage.paths import redact_url
from palaver.storage.spans.retention import Label

_EXTRAS = {"langchain": "langgraph", "openai-agents": "agents", "pydantic-ai": "pydantic_ai", "pydantic": "pydantic"}
_SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "db": redact_url,
    "connections": mask_connections,
    "redact": len,
    "otlp_headers": mask_headers,
}
"""Settings that may hold a password, or are long, and how they are shown."""


class Setting(msgspec.Struct, frozen=True):
    """One of them, and where it was written."""

    name: str
    value: Any
    source: Source


class Listed(msgspec.Struct, frozen=True):
    """All of them."""

    data: list[Setting]


class Erase(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """Whose traces are to go: a user's, or a session's. Nothing is erased unless `dry_run` is false."""

    user: str | None = None
    session: str | None = None
    dry_run: bool = True


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What carries the label, and was erased unless this was a rehearsal."""

    threads: int
    runs: int
    responses: int
    files: int = 0
    spans: int = 0
    feedback: int
    running: int
    """Runs that have not ended, and stay."""
    kept: list[dict[str, str]] = []
    """Copies that were made of it, which are not touched."""
    dry_run: bool


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is running here."""

    version: str
    python: str
    database: Literal["sqlite", "postgresql"]
    schema: str
    """The form of the database."""
    processes: int
    """Those that serve from this database, we among them."""
    workers: int
    extras: list[str]
    """Frameworks whose agents can be served here."""
    uptime_seconds: float
    limits: dict[str, float]


class SystemController(ApiController):
    path = "/api"

    database: Database
    settings: Settings
    version: str
    setting_sources: Mapping[str, Source]
    started_at: float

    @get("/about", operation_id="about", summary="Version, database, processes and limits")
    async def about(self) -> About:
        known = await self.database.read(queue.list_processes)
        limits = {
            f.name: getattr(self.settings, f.name) for f in msgspec.structs.fields(Settings) if f.type in (int, float)
        }
        return About(
            version=self.version,
            python=platform.python_version(),
            database=self.database.kind,
            schema=upgrade.SCHEMA_VERSION,
            processes=max(1, sum(one.kind == "server" for one in known)),
            workers=sum(one.kind == "worker" for one in known),
            extras=[name for name, module in _EXTRAS.items() if find_spec(module) is not None],
            uptime_seconds=round(time.monotonic() - self.started_at, 3),
            limits=limits,
        )

    @get("/settings", operation_id="list_settings", summary="Every setting, and where it was written")
    async def list_settings(self) -> Listed:
        return Listed(
            [_setting(self.settings, field.name, self.setting_sources) for field in msgspec.structs.fields(Settings)]
        )

    @post(
        "/erase",
        operation_id="erase",
        summary="Erase all that carries a user's or a session's label; without dry_run: false it only counts",
        operation_class=takes(Erase),
        status_code=200,
    )
    async def erase(self, request: Asked) -> Response[Erased]:
        _, asked = await read_body(request, self.settings, Erase)
        label, value = _label(asked)
        project = caller_of(request).project
        found = await self.database.read(erasure.count_labelled_data, project, label, value)
        kept = await self.database.read(testset_origins.find_copied_rows, project, label, value)
        if not asked.dry_run:
            while await self.database.write(erasure.erase_labelled_data, project, label, value, utc_now()):
                pass
        return answer(request, Erased(**msgspec.structs.asdict(found), kept=kept, dry_run=asked.dry_run))


def _label(asked: Erase) -> tuple[Label, str]:
    match asked.user, asked.session:
        case [str(user), None] if user:
            return "user", user
        case [None, str(session)] if session:
            return "session", session
        case _:
            raise InvalidValue("Name a user or a session, one of them.", pointer="/user")


def _setting(settings: Settings, name: str, sources: Mapping[str, Source]) -> Setting:
    shown = _SHOWN.get(name, lambda value: value)
    return Setting(name, shown(getattr(settings, name)), sources.get(name, "default"))
