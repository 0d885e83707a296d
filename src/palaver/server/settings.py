"""Settings: read once, from flags, then `PALAVER_*` variables, then palaver.toml in the working folder."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from palaver.core import history_validation, json
from palaver.core.runs import RecordMode, RetentionPolicy, RunLimits
from palaver.discovery.config import ConnectionSettings
from palaver.errors import SettingsError
from palaver.evaluation.providers import config as provider_config
from palaver.evaluation.providers.config import Provider
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits
from palaver.traces.prices import Price

VERSION = version("palaver")
Source = Literal["flag", "env", "file", "default"]
KIB, MIB = 1024, 1024 * 1024
FILE_ONLY_SETTINGS = frozenset({"connections", "projects", "providers", "redact", "prices"})
"""Settings that only a file can hold."""
NonNegativeInt = Annotated[int, msgspec.Meta(ge=0)]


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is otherwise in one project than in the others."""

    trace_retention_days: NonNegativeInt | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set. The variable of `max_body` is `PALAVER_MAX_BODY`."""

    host: str = "127.0.0.1"
    """The address to listen on; without keys, loopback only."""
    port: int = 8642
    """The port to listen on; 0 picks a free one."""
    default: str | None = None
    """The workflow that also answers at the root."""
    root_path: str = ""
    """A prefix that a proxy in front of us adds to every path."""
    db: str = ""
    """The database: a path, sqlite:///path or postgresql://host/name; empty: palaver.db in the user's data folder."""
    workers: int = 1
    """How many processes serve; more than one need PostgreSQL."""
    debug: bool = False
    """Tell callers what went wrong inside a workflow."""
    tour: bool = False
    """Offer the guided tour of the demo in the page; `palaver demo` does."""
    threads: int = 32
    """How many sync workflows may run at once."""
    allowed_hosts: tuple[str, ...] = ()
    """Host headers to accept on a loopback bind, beside localhost."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of pages that may call us."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For`, `-Proto` and `-Host` are believed."""
    allow_private_urls: bool = False
    """Let URLs that come over HTTP lead to this machine, to private networks and to any port."""
    connections: Mapping[str, ConnectionSettings] = {}
    """Services elsewhere, by the name they have here; in palaver.toml only: `[connections.tutor]`."""
    max_body: int = 8 * MIB
    """Bytes of a JSON body; beyond: 413."""
    max_url: int = 8 * KIB
    """Bytes of a path and its query; beyond: 414."""
    max_headers: int = 32 * KIB
    """Bytes of all headers together, of which there may be 100; beyond: 431."""
    max_json_depth: int = json.MAX_DEPTH
    """Levels of nesting; beyond: 400."""
    max_json_keys: int = json.MAX_KEYS
    """Keys of one object; beyond: 400."""
    max_json_items: int = json.MAX_ITEMS
    """Items of one list; beyond: 400."""
    max_string: int = json.MAX_STRING_BYTES
    """Characters of one string; beyond: 413."""
    max_messages: int = history_validation.DEFAULT_HISTORY_LIMITS.messages
    """Messages of one call; beyond: 400."""
    max_parts: int = history_validation.DEFAULT_HISTORY_LIMITS.parts
    """Parts of one message; beyond: 400."""
    max_files: int = history_validation.DEFAULT_HISTORY_LIMITS.files
    """Files of one call; beyond: 413."""
    max_file: int = history_validation.DEFAULT_HISTORY_LIMITS.file
    """Bytes of one file, decoded; beyond: 413."""
    files_max: int = 10 * 1024 * MIB
    """Bytes of all files of a project; beyond: 507."""
    otlp_max_body: int = 16 * MIB
    """Bytes of spans that one request sends over OTLP; beyond: 413."""
    otlp_max_unpacked: int = 64 * MIB
    """The same once gzip is undone; beyond: 413."""
    otlp_max_ratio: int = 100
    """How many times larger gzip may make it, from a mebibyte on; beyond: 413."""
    otlp_endpoint: str = ""
    """Where the spans of runs are sent on to, over OTLP: http://collector:4318/v1/traces; empty: nowhere."""
    otlp_headers: str = ""
    """What goes with them, a secret: `name=value,other=value`, percent-encoded."""
    otlp_protocol: Literal["http/protobuf", "http/json"] = "http/protobuf"
    """The form in which they are sent."""
    testset_max_rows: int = DEFAULT_LIMITS.rows
    """Rows of a test set; beyond: 413."""
    testset_max_columns: int = DEFAULT_LIMITS.columns
    """Columns of a test set; beyond: 413."""
    testset_max_row: int = DEFAULT_LIMITS.row_bytes
    """Bytes of one row of a test set, as JSON; beyond: 413."""
    testset_max_file: int = DEFAULT_LIMITS.file_bytes
    """Bytes of a file that is imported into a test set; beyond: 413."""
    query_seconds: float = 10
    """How long a question to the traces may take; beyond: 503."""
    run_seconds: float = 600
    """How long a run may take, unless its author says otherwise."""
    run_events: int = 200_000
    """How many events a run may give."""
    run_bytes: int = 64 * MIB
    """How much a run may say."""
    rate_per_minute: int = 600
    """Requests a minute for each key, in each process; 0: any number; beyond: 429."""
    max_runs: int = 32
    """Runs at once for each key; 0: any number; beyond: 429."""
    max_streams: int = 64
    """Streams at once for each key; 0: any number; beyond: 429."""
    max_streams_total: int = 8_192
    """Calls answered at once; beyond: 503."""
    run_days: float = 30
    """How long runs are kept that belong to no conversation and are no stored response; 0: for ever."""
    background_runs: int = 16
    """Runs in the background at once, in each process."""
    eval_max_cells: int = 1_000_000
    """Cells of one evaluation: rows × variants × repeats; beyond: 422."""
    eval_max_cost: float = 0
    """What one evaluation may spend, in US dollars; 0: any amount; beyond: it ends as failed."""
    eval_judge: str = ""
    """Whom evaluations ask to judge where nobody is named: `provider/model`, or a workflow."""
    eval_models: str = "models"
    """The folder of models for semantic_similarity: `local:name` is a model2vec model in a folder of that name."""
    providers: Mapping[str, Provider] = {}
    """Whom judges and vectors are asked of; in palaver.toml only: `[providers.openai]`."""
    max_queued: int = 8
    """Turns that wait in one conversation; beyond: 429."""
    orphan_seconds: float = 300
    """How long a run that its reader left may go on with nobody reading."""
    obfuscate: bool = False
    """Fill up the deltas of streams, in protocols with a field for it, so that their sizes tell nothing."""
    record: RecordMode = "full"
    """What is kept of runs at most: full, metadata or off; then no response is stored, either."""
    trace_content: RecordMode = "full"
    """What spans of runs hold at most: full, metadata (no messages, inputs, outputs or values) or off (no spans)."""
    trace_retention_days: NonNegativeInt = 30
    """How many days spans are kept; 0: for ever."""
    trace_max_bytes: NonNegativeInt = 0
    """Bytes of all spans together, about; beyond, the oldest days go, but never the last; 0: any number."""
    projects: Mapping[str, ProjectSettings] = {}
    """What is otherwise in one project; in palaver.toml only: `[projects.shop]` with its own `trace_retention_days`."""
    redact: tuple[Mapping[str, Any], ...] = ()
    """What is removed before it is stored, beside secrets; in palaver.toml only: `[[redact]]`."""
    prices: Mapping[str, Price] = {}
    """What models cost, in US dollars per million tokens; in palaver.toml only: `[prices."gpt-4o*"]`."""
    heartbeat_seconds: float = 5
    """How often each process on one database says that it is alive; silent for five times as long, it is dead."""
    header_seconds: float = 10
    """How long the head of a request may take."""
    body_seconds: float = 30
    """How long a body may stop coming."""
    stream_stall: float = 60
    """Seconds after which a reader that takes nothing is left."""
    ws_max: int = MIB
    """Bytes of one message on a WebSocket, of a service's `max_body`; beyond: it is closed with 1009."""
    ws_ping: float = 20
    """Seconds after which a WebSocket is pinged; after as many without an answer it is closed with 1011."""
    shutdown_seconds: float = 30
    """How long runs may go on after the signal to stop."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return _is_loopback(self.host)

    @property
    def span_retention(self) -> RetentionPolicy:
        days_by_name = {name: project.trace_retention_days for name, project in self.projects.items()}
        project_days = {name: days for name, days in days_by_name.items() if days is not None}
        return RetentionPolicy(days=self.trace_retention_days, days_by_project=project_days, bytes=self.trace_max_bytes)

    @property
    def testset_limits(self) -> TestsetLimits:
        return TestsetLimits(
            rows=self.testset_max_rows,
            columns=self.testset_max_columns,
            row_bytes=self.testset_max_row,
            file_bytes=self.testset_max_file,
        )

    @property
    def run_limits(self) -> RunLimits:
        return RunLimits(seconds=self.run_seconds, events=self.run_events, bytes=self.run_bytes)

    @property
    def history_limits(self) -> history_validation.HistoryLimits:
        return history_validation.HistoryLimits(
            messages=self.max_messages, parts=self.max_parts, files=self.max_files, file=self.max_file
        )

    @property
    def json_limits(self) -> json.JsonLimits:
        return json.JsonLimits(
            depth=self.max_json_depth, keys=self.max_json_keys, items=self.max_json_items, string=self.max_string
        )


SETTING_NAMES = sorted(field.name for field in msgspec.structs.fields(Settings))
_APPLICATION_TABLES = frozenset({"jobchat"})
"""Tables of palaver.toml that applications read."""
_REMOVAL_HINT = "Remove it; docs/settings.md lists what there is."


@cache
def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_settings(
    *, flags: Mapping[str, Any] | None = None, env: Mapping[str, str], folder: Path
) -> tuple[Settings, dict[str, Source]]:
    """Return the settings, and where each came from. A flag that is None was not passed."""
    file = _read_file(folder / "palaver.toml")
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for field in msgspec.structs.fields(Settings):
        variable = f"PALAVER_{field.name.upper()}"
        value = (flags or {}).get(field.name)
        if value is not None:
            values[field.name], sources[field.name] = value, "flag"
        elif variable in env and field.name not in FILE_ONLY_SETTINGS:
            values[field.name], sources[field.name] = _convert(env[variable], field.type, variable), "env"
        elif field.name in file:
            values[field.name], sources[field.name] = _convert(file[field.name], field.type, field.name), "file"
        else:
            sources[field.name] = "default"
    settings = Settings(**values)
    _check_redaction_rules(settings)
    provider_config.check_providers(settings.providers)
    if not 0 <= settings.port <= 65535:
        raise SettingsError(f"Setting port: {settings.port} is none. Ports go to 65535, and 0 picks a free one.")
    if settings.workers < 1:
        raise SettingsError("Setting workers: at least one process has to serve.")
    if settings.debug and not settings.is_loopback:
        raise SettingsError("--debug shows what goes wrong inside: it is refused on a host that others can reach.")
    return settings, sources


def unknown_names(folder: Path) -> dict[str, str]:
    """Return the unknown names in palaver.toml, each with a hint."""
    unknown = [
        name
        for name in _read_file(folder / "palaver.toml")
        if name not in SETTING_NAMES and name not in _APPLICATION_TABLES
    ]
    return {name: f"Write {matches[0]}." if (matches := closest_names(name)) else _REMOVAL_HINT for name in unknown}


def closest_names(name: str) -> list[str]:
    """Return the most similar name of a setting, if any is similar."""
    from difflib import get_close_matches  # Imported only when needed.

    return get_close_matches(name.lower().replace("-", "_"), SETTING_NAMES, 1, 0.75)


def _check_redaction_rules(settings: Settings) -> None:
    if settings.redact:
        from palaver.traces.redaction import parse_rules  # A slow import, and few servers have rules.

        parse_rules(settings.redact)


def _convert(value: Any, target_type: Any, name: str) -> Any:
    if target_type == tuple[str, ...] and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, target_type, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"Setting {name}: {error}.") from None


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path.name} cannot be read: {error}.") from None
