"""Settings: read once, from flags, then `PALAVER_*` variables, then palaver.toml in the working folder."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from palaver.core import history_validation, json
from palaver.core.runs import RecordMode, RetentionPolicy, RunLimits
from palaver.discovery.config import ConnectionSettings
from palaver.errors import SettingsError
from palaver.evaluation.providers import config as provider_config
from palaver.evaluation.providers.config import Provider
from palaver.protocols.base import ServerTools
from palaver.testsets.limits import DEFAULT_LIMITS, TestsetLimits
from palaver.traces.prices import Price

VERSION = version("palaver")
Source = Literal["flag", "env", "file", "default"]
KIB, MIB = 1024, 1024 * 1024
FILE_ONLY_SETTINGS = frozenset({"connections", "projects", "providers", "redact", "prices"})
"""Settings that only a file can hold."""
NonNegativeInt = Annotated[int, msgspec.Meta(ge=0)]


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that a project overrides."""

    trace_retention_days: NonNegativeInt | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. The environment variable of `max_body` is `PALAVER_MAX_BODY`."""

    host: str = "127.0.0.1"
    """Address to listen on. An address that other machines can reach requires an API key."""
    port: int = 8642
    """Port to listen on; 0 picks a free one."""
    default: str | None = None
    """Workflow that is also served at the root path."""
    root_path: str = ""
    """Path prefix under which a reverse proxy serves Palaver, e.g. `/palaver`."""
    db: str = ""
    """Database: a path, sqlite:///path or postgresql://host/name. Default: palaver.db in the user's data folder."""
    workers: int = 1
    """Number of server processes; more than one requires PostgreSQL."""
    debug: bool = False
    """Include the exceptions of workflows in error responses, and log debug messages."""
    tour: bool = False
    """Offer the guided tour in the web interface; `palaver demo` turns this on."""
    threads: int = 32
    """Maximum number of synchronous workflows that run at the same time in each process."""
    allowed_hosts: tuple[str, ...] = ()
    """Host headers to accept on a loopback address, in addition to localhost."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may call the server, e.g. `https://app.example.org`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose `X-Forwarded-For`, `-Proto` and `-Host` headers are trusted."""
    allow_private_urls: bool = False
    """Allow user-supplied URLs to reach localhost, private networks and any port (disables SSRF protection)."""
    connections: Mapping[str, ConnectionSettings] = {}
    """Remote services by name. Only in palaver.toml: `[connections.tutor]`."""
    max_body: int = 8 * MIB
    """Maximum size of a JSON body, in bytes (413 if exceeded)."""
    max_url: int = 8 * KIB
    """Maximum length of a path with its query, in bytes (414 if exceeded)."""
    max_headers: int = 32 * KIB
    """Maximum size of all request headers, in bytes; at most 100 headers, of at most 8 KiB each (431 if exceeded)."""
    max_json_depth: int = json.MAX_DEPTH
    """Maximum nesting depth of a JSON body (400 if exceeded)."""
    max_json_keys: int = json.MAX_KEYS
    """Maximum number of keys in a JSON object (400 if exceeded)."""
    max_json_items: int = json.MAX_ITEMS
    """Maximum number of items in a JSON array (400 if exceeded)."""
    max_string: int = json.MAX_STRING_BYTES
    """Maximum length of a string, in bytes (413 if exceeded)."""
    max_messages: int = history_validation.DEFAULT_HISTORY_LIMITS.messages
    """Maximum number of messages in a call (400 if exceeded)."""
    max_parts: int = history_validation.DEFAULT_HISTORY_LIMITS.parts
    """Maximum number of parts in a message (400 if exceeded)."""
    max_files: int = history_validation.DEFAULT_HISTORY_LIMITS.files
    """Maximum number of files in a call (413 if exceeded)."""
    max_file: int = history_validation.DEFAULT_HISTORY_LIMITS.file
    """Maximum size of a decoded file, in bytes (413 if exceeded)."""
    files_max: int = 10 * 1024 * MIB
    """Maximum total size of the files of a project, in bytes (507 if exceeded)."""
    otlp_max_body: int = 16 * MIB
    """Maximum size of an OTLP request, in bytes (413 if exceeded)."""
    otlp_max_unpacked: int = 64 * MIB
    """Maximum size of an OTLP request after decompression, in bytes (413 if exceeded)."""
    otlp_max_ratio: int = 100
    """Maximum compression ratio of an OTLP request that decompresses to more than 1 MiB (413 if exceeded)."""
    otlp_endpoint: str = ""
    """OTLP endpoint to which spans of runs are exported, e.g. http://collector:4318/v1/traces. Empty: no export."""
    otlp_headers: str = ""
    """Headers for the OTLP endpoint: `name=value,other=value`, with percent-encoded values. Never shown."""
    otlp_protocol: Literal["http/protobuf", "http/json"] = "http/protobuf"
    """Encoding of exported spans."""
    testset_max_rows: int = DEFAULT_LIMITS.rows
    """Maximum number of rows in a test set (413 if exceeded)."""
    testset_max_columns: int = DEFAULT_LIMITS.columns
    """Maximum number of columns in a test set (413 if exceeded)."""
    testset_max_row: int = DEFAULT_LIMITS.row_bytes
    """Maximum size of a test set row as JSON, in bytes (413 if exceeded)."""
    testset_max_file: int = DEFAULT_LIMITS.file_bytes
    """Maximum size of a file imported into a test set, in bytes (413 if exceeded)."""
    query_seconds: float = 10
    """Time limit of a trace query, in seconds (503 if exceeded)."""
    run_seconds: float = 600
    """Time limit of a run, in seconds, unless the workflow sets its own."""
    run_events: int = 200_000
    """Maximum number of events in a run."""
    run_bytes: int = 64 * MIB
    """Maximum output of a run, in bytes."""
    rate_per_minute: int = 600
    """Maximum number of requests per minute for each API key and process; 0 for no limit (429 if exceeded)."""
    max_runs: int = 32
    """Maximum number of concurrent runs for each API key and process; 0 for no limit (429 if exceeded)."""
    max_streams: int = 64
    """Maximum number of concurrent streams for each API key and process; 0 for no limit (429 if exceeded)."""
    max_streams_total: int = 8_192
    """Maximum number of concurrent runs in each process (503 if exceeded)."""
    run_days: float = 30
    """Days to keep runs outside threads and boards, except stored responses; 0 to keep them forever."""
    background_runs: int = 16
    """Maximum number of concurrent background runs in each process."""
    eval_max_cells: int = 1_000_000
    """Maximum number of cells in an evaluation: rows × variants × repeats (422 if exceeded)."""
    eval_max_cost: float = 0
    """Maximum cost of an evaluation, in US dollars; 0 for no limit. An evaluation that reaches it fails."""
    eval_judge: str = ""
    """Default judge of evaluations: `provider/model`, or a workflow."""
    eval_models: str = "models"
    """Folder with model2vec models for semantic_similarity. `local:name` is the model in the subfolder `name`."""
    providers: Mapping[str, Provider] = {}
    """Model providers for judges and embeddings. Only in palaver.toml: `[providers.openai]`."""
    max_queued: int = 8
    """Maximum number of queued turns in a thread or conversation (429 if exceeded)."""
    orphan_seconds: float = 300
    """Seconds that a run may continue while no client reads its output."""
    obfuscate: bool = False
    """Pad the deltas of streams to hide their sizes, in protocols that have a field for it."""
    responses_server_tools: ServerTools = "mcp_call"
    """How /v1/responses shows calls to tools that the workflow runs itself: mcp_call, function_call or omit."""
    record: RecordMode = "full"
    """Maximum detail to store for each run: full, metadata or off. Responses are stored only with full."""
    trace_content: RecordMode = "full"
    """Maximum detail of runs in spans: full, metadata (no messages, inputs, outputs or values) or off (no spans)."""
    trace_retention_days: NonNegativeInt = 30
    """Days to keep spans; 0 to keep them forever."""
    trace_max_bytes: NonNegativeInt = 0
    """Approximate size limit of all spans, in bytes; 0 for no limit. The oldest days are deleted, never the latest."""
    projects: Mapping[str, ProjectSettings] = {}
    """Per-project settings. Only in palaver.toml: `[projects.shop]` with its own `trace_retention_days`."""
    redact: tuple[Mapping[str, Any], ...] = ()
    """Rules for what to redact before storing, in addition to secrets. Only in palaver.toml: `[[redact]]`."""
    prices: Mapping[str, Price] = {}
    """Prices of models, in US dollars per million tokens. Only in palaver.toml: `[prices."gpt-4o*"]`."""
    heartbeat_seconds: float = 5
    """Seconds between heartbeats of a process; after five missed heartbeats, it is considered dead."""
    header_seconds: float = 10
    """Time limit for receiving the headers of a request, in seconds."""
    body_seconds: float = 30
    """Maximum time without data while receiving a body, in seconds (408 if exceeded)."""
    stream_stall: float = 60
    """Seconds after which a client that stops reading its stream is disconnected."""
    ws_max: int = MIB
    """Maximum size of a WebSocket message, in bytes (code 1009 if exceeded). For services, `max_body` applies."""
    ws_ping: float = 20
    """Interval between WebSocket pings, and timeout for each reply, in seconds (code 1011 if exceeded)."""
    shutdown_seconds: float = 30
    """Seconds that runs may continue after a signal to stop."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return _is_loopback(self.host)

    @property
    def is_proxied(self) -> bool:
        """Whether a reverse proxy, and so other machines, may reach a server on loopback."""
        return bool(self.allowed_hosts or self.trusted_proxies or self.root_path)

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
_SECRET_SETTINGS = FILE_ONLY_SETTINGS | {"otlp_headers"}
"""Settings whose values may contain secrets: errors don't show them."""
_APPLICATION_TABLES = frozenset({"jobchat"})
"""Tables of palaver.toml that applications read."""
_UNKNOWN_HINT = "See docs/reference/settings.md for all settings."


_MISSING_OR_UNKNOWN = re.compile(r"Object (missing required|contains unknown) field `(.*)`")
_OUT_OF_RANGE = re.compile(r"Expected `[^`]*` (>=|<=) (\S+)")
_TYPE_MISMATCH = re.compile(r"Expected `([^`]*)`, got `[^`]*`")
_TYPE_NAMES = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "array": "a list",
    "object": "a table",
}


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
            values[field.name], sources[field.name] = _convert(env[variable], field, "env"), "env"
        elif field.name in file:
            values[field.name], sources[field.name] = _convert(file[field.name], field, "file"), "file"
        else:
            sources[field.name] = "default"
    settings = Settings(**values)
    _check_redaction_rules(settings)
    provider_config.check_providers(settings.providers)
    if not 0 <= settings.port <= 65535:
        reason = "must be between 0 and 65535 (0 picks a free port)"
        raise _invalid_setting("port", settings.port, sources["port"], reason)
    if settings.workers < 1:
        raise _invalid_setting("workers", settings.workers, sources["workers"], "must be at least 1")
    if settings.debug and not settings.is_loopback:
        raise SettingsError(
            f"'debug' can't be combined with the public host {settings.host!r} because debug exposes internal errors."
            " Turn off debug or use --host 127.0.0.1."
        )
    return settings, sources


def unknown_names(folder: Path) -> dict[str, str]:
    """Return the unknown names in palaver.toml, each with a hint."""
    unknown = [
        name
        for name in _read_file(folder / "palaver.toml")
        if name not in SETTING_NAMES and name not in _APPLICATION_TABLES
    ]
    return {
        name: f"Did you mean {matches[0]!r}?" if (matches := closest_names(name)) else _UNKNOWN_HINT for name in unknown
    }


def closest_names(name: str) -> list[str]:
    """Return the most similar name of a setting, if any is similar."""
    from difflib import get_close_matches  # Imported only when needed.

    return get_close_matches(name.lower().replace("-", "_"), SETTING_NAMES, 1, 0.75)


def _check_redaction_rules(settings: Settings) -> None:
    if settings.redact:
        from palaver.traces.redaction import parse_rules  # A slow import, and few servers have rules.

        parse_rules(settings.redact)


def _convert(value: Any, field: msgspec.structs.FieldInfo, source: Source) -> Any:
    if field.type == tuple[str, ...] and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid_setting(field.name, value, source, _describe_fault(str(error), field.type)) from None


def _invalid_setting(name: str, value: object, source: Source, reason: str) -> SettingsError:
    """Name the setting as it was set: an option, a variable, or a key of palaver.toml. Tables may contain secrets."""
    is_shown = isinstance(value, str | int | float) and name not in _SECRET_SETTINGS
    subjects = {"flag": f"--{name.replace('_', '-')}", "env": f"PALAVER_{name.upper()}"}
    subject = subjects.get(source, name if is_shown else f"setting {name!r}")
    text = f" {json.encode(value).decode() if isinstance(value, bool) else repr(value)[:80]}" if is_shown else ""
    place = " in palaver.toml" if source == "file" else ""
    return SettingsError(f"Invalid {subject}{text}{place}: {reason}.")


def _describe_fault(error: str, target_type: Any) -> str:
    """Convert the text of a msgspec.ValidationError to a reason."""
    why, _, location = error.partition(" - at `")
    path = location.removesuffix("`").removeprefix("$").replace("[...]", "").lstrip(".")
    field = f"{path!r} " if path else ""
    if match := _MISSING_OR_UNKNOWN.fullmatch(why):
        return f"{match[1]} field {match[2]!r}{f' in {path!r}' if path else ''}"
    if why.startswith("Invalid enum value"):
        if path or get_origin(target_type) is not Literal:
            return f"invalid value{why.removeprefix('Invalid enum value')}{f' for {path!r}' if path else ''}"
        *names, last = map(repr, get_args(target_type))
        return f"must be {', '.join(names)} or {last}"
    if match := _OUT_OF_RANGE.fullmatch(why):
        return f"{field}must be {'at least' if match[1] == '>=' else 'at most'} {match[2]}"
    if match := _TYPE_MISMATCH.fullmatch(why):
        return f"{field}must be {' or '.join(_TYPE_NAMES.get(name, name) for name in match[1].split(' | '))}"
    return f"{field}{why[:1].lower()}{why[1:].replace('`', '')}"


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"Cannot read {path.name}: {(error.strerror or str(error)).lower()}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"Cannot read {path.name}: not valid UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"Invalid TOML in {path.name}: {error}.") from None
