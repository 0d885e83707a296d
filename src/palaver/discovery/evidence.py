"""Read the documents that a remote service publishes; see docs/reference/discovery.md.

Pure functions. Documents are untrusted: the readers never raise, and bound the depth and size of the result. Local
`$ref`s are resolved, remote ones never. probe.py decides which documents are fetched.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal, cast

from msgspec import UNSET, Struct, field

from palaver.core.json import dict_or_empty, is_object
from palaver.outbound import printable

Evidence = Literal[
    "inspect.flags", "openapi.flags", "schema.marker", "schema.messages", "mlflow.info", "openai.models", "none"
]
Confidence = Literal["declared", "marked", "guessed", "assumed"]
Dialect = Literal["invoke", "run", "responses", "chat-completions"]

MAX_SCHEMA_DEPTH = 32
MAX_SCHEMA_CHARACTERS = 64 * 1024

# Endpoints, the best evidence first, and the dialect of each.
_OPERATIONS: dict[str, Dialect | None] = {"/invoke": "invoke", "/run": "run", "/test": "run", "/generate": None}
# Paths in documents of current and older servers.
_FLAGS_PATHS = (("flags",), ("request", "flags"))
_FLAG_PATHS = tuple((*path, "is_chat") for path in _FLAGS_PATHS)
_REVISION_PATHS = (("revision",), ("request", "data", "revision"))
_SCHEMA_PATHS = (
    ("revision", "data", "schemas"),
    ("request", "data", "revision", "data", "schemas"),
    ("interface", "schemas"),
    ("request", "interface", "schemas"),
)
_PARAMETER_PATHS = (("revision", "data", "parameters"), ("request", "data", "parameters"))
# Keywords that do not describe the value.
_REFERENCE_KEYWORDS = {"$ref", "allOf", "anyOf", "oneOf", "title", "description"}
# Limits against hostile documents.
_MAX_VARIANTS = 16
_MAX_PROPERTIES = 500
_MAX_POINTER_SEGMENTS = 16


class ProbeStep(Struct, frozen=True):
    step: Evidence
    request: str | None
    """Method and path below the base; None for a step that only looks at documents read before."""
    status: int | None
    """None if nothing was requested or there was no answer."""
    found: str


class DiscoveryReport(Struct, frozen=True, kw_only=True):
    """The public result of a discovery (discovery.md §4), always with all its keys."""

    url: str
    is_chat: bool | None
    evidence: Evidence
    confidence: Confidence | None
    dialect: Dialect | None
    call: str | None
    streams: bool | None
    schemas: dict[str, object]
    warnings: tuple[str, ...]
    tried: tuple[ProbeStep, ...]


class Discovery(DiscoveryReport, frozen=True, kw_only=True):
    """The result with what `connect` needs; `public_report` returns the public part."""

    parameters: dict[str, object] = field(default_factory=dict[str, object])
    """Defaults of the parameters."""
    name: str = ""
    description: str = ""
    models: tuple[str, ...] = ()
    model: str | None = None
    """The model to request, if the dialect needs one and the choice is clear."""
    endpoint: str | None = None
    """The suffix that was cut from the given URL."""
    refused: bool = False
    """Whether the last request needs credentials."""
    unreachable: bool = False
    """Whether there was no answer, or only a gateway's."""


class DocumentFacts(Struct, frozen=True, kw_only=True):
    """The contents of one document."""

    summary: str
    is_chat: bool | None = None
    """The declared flag."""
    marked_input: str | None = None
    """The input that is marked as messages."""
    takes_messages: bool | None = None
    """Whether the input schema has messages; None if there is no schema."""
    dialect: Dialect | None = None
    endpoint: str | None = None
    """Path of the call, if the document has one."""
    streams: bool | None = None
    schemas: dict[str, object] = field(default_factory=dict[str, object])
    parameters: dict[str, object] = field(default_factory=dict[str, object])
    name: str = ""
    description: str = ""
    models: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def public_report(discovery: Discovery) -> DiscoveryReport:
    return DiscoveryReport(**{name: getattr(discovery, name) for name in DiscoveryReport.__struct_fields__})


# Documents


def read_inspect(document: object) -> DocumentFacts:
    warnings: list[str] = []
    declared = _declared_flag(((".".join(path), _get_path(document, *path)) for path in _FLAG_PATHS), warnings)
    published = _first_object(document, _SCHEMA_PATHS)
    schemas = _copy_schemas(
        {key: published[key] for key in ("inputs", "parameters", "outputs") if key in published}, warnings
    )
    inputs = published.get("inputs")
    properties = _properties(inputs, inputs)
    revision = _first_object(document, _REVISION_PATHS)
    streams = _get_path(document, "meta", "palaver", "streams")
    # Some servers answer any path with a JSON object.
    is_known = declared or published or revision or any(is_object(_get_path(document, *path)) for path in _FLAGS_PATHS)
    endpoint = "/invoke" if is_known else None
    return DocumentFacts(
        summary=_flag_text(declared) if declared else "no flags.is_chat",
        is_chat=declared[1] if declared else None,
        marked_input=_marked_property([inputs], inputs),
        takes_messages=None if properties is None else "messages" in properties,
        dialect=_OPERATIONS[endpoint] if endpoint else None,
        endpoint=endpoint,
        streams=streams if isinstance(streams, bool) else None,
        schemas=schemas,
        parameters=dict_or_empty(
            _copy_schemas({"parameters": _first_object(document, _PARAMETER_PATHS)}, warnings).get("parameters")
        ),
        name=_text(revision.get("name")) or _text(revision.get("slug")),
        description=_text(revision.get("description")),
        warnings=tuple(warnings),
    )


def read_openapi(document: object, base_path: str = "") -> DocumentFacts:
    """Read an OpenAPI document; its paths may or may not start with `base_path`."""
    warnings: list[str] = []
    operations = _operations(document, base_path)
    flags = {name: _get_path(operation, "x-agenta", *_FLAG_PATHS[0]) for name, operation in operations.items()}
    declared = _declared_flag(((f"x-agenta.flags.is_chat of POST {name}", flags[name]) for name in flags), warnings)
    bodies = [body for operation in operations.values() if (body := _body_schemas(operation, document))]
    body_schemas = next((body for body in bodies if _has_messages(body, document)), bodies[0] if bodies else [])
    endpoint = next(iter(operations), None)
    return DocumentFacts(
        summary=_flag_text(declared)
        if declared
        else f"no x-agenta.flags.is_chat of POST {', '.join(flags or _OPERATIONS)}",
        is_chat=declared[1] if declared else None,
        marked_input=_marked_property([schema for body in bodies for schema in body], document),
        takes_messages=_has_messages(body_schemas, document) if body_schemas else None,
        dialect=_OPERATIONS[endpoint] if endpoint else None,
        endpoint=endpoint,
        schemas=_copy_schemas({"inputs": _input_schema(body_schemas, document)}, warnings, document)
        if body_schemas
        else {},
        name=_text(_get_path(document, "info", "title")),
        description=_text(_get_path(document, "info", "description")),
        warnings=tuple(warnings),
    )


def read_agent_info(document: object) -> DocumentFacts:
    """Read MLflow's `/agent/info`."""
    if _get_path(document, "agent_api") != "responses":
        return DocumentFacts(summary='no agent_api = "responses"')
    return DocumentFacts(
        summary='agent_api = "responses"',
        is_chat=True,
        dialect="responses",
        name=_text(_get_path(document, "name")),
    )


def read_models(document: object) -> DocumentFacts:
    """Read OpenAI's list of models, which may not be chats."""
    ids = [_get_path(entry, "id") for entry in _list(_get_path(document, "data"))]
    # Names are displayed and sent unchanged, so unprintable ones are left out.
    models = tuple(dict.fromkeys(name for name in ids if isinstance(name, str) and name and printable(name) == name))
    if not models:
        return DocumentFacts(summary="no models")
    return DocumentFacts(
        summary=f"{len(models)} model{'s' if len(models) > 1 else ''}",
        dialect="chat-completions",
        models=models,
    )


# Flags


def _declared_flag(flags: Iterable[tuple[str, object]], warnings: list[str]) -> tuple[str, bool] | None:
    """Return the first flag that is a boolean, with its path."""
    first: tuple[str, bool] | None = None
    for path, value in flags:
        if value is UNSET:
            continue
        if not isinstance(value, bool):
            # The value is not shown: it may be nested too deeply to print.
            warnings.append(f"{path} is not a boolean and was ignored.")
        elif first is None:
            first = (path, value)
        elif first[1] != value:
            warnings.append(f"{_flag_text(first)}, but {_flag_text((path, value))}. The first value is used.")
    return first


def _flag_text(flag: tuple[str, bool]) -> str:
    return f"{flag[0]} = {'true' if flag[1] else 'false'}"


# Operations


def _operations(document: object, base_path: str) -> dict[str, object]:
    """Return the known POST operations, preferably those below the base path."""
    for prefix in dict.fromkeys((base_path, "")):
        operations = {name: _get_path(document, "paths", prefix + name, "post") for name in _OPERATIONS}
        if any(is_object(operation) for operation in operations.values()):
            return {name: operation for name, operation in operations.items() if is_object(operation)}
    return {}


def _body_schemas(operation: object, document: object) -> list[object]:
    """Return the schemas that may have messages: of the body, of `inputs` and of `data.inputs`; empty if unknown."""
    content = next(
        (
            content
            for variant in _schema_variants(_get_path(operation, "requestBody"), document)
            for kind, content in dict_or_empty(variant.get("content")).items()
            if kind.startswith("application/json")
        ),
        None,
    )
    body = _get_path(content, "schema")
    if not is_object(body) or (
        body and all(variant.keys() <= _REFERENCE_KEYWORDS for variant in _schema_variants(body, document))
    ):
        return []  # Absent, or only a reference that is not followed.
    properties = _properties(body, document) or {}
    data = _properties(properties.get("data"), document) or {}
    return [body, *(fields["inputs"] for fields in (properties, data) if is_object(fields.get("inputs")))]


def _has_messages(schemas: Iterable[object], document: object) -> bool:
    return any("messages" in (_properties(schema, document) or {}) for schema in schemas)


def _input_schema(schemas: list[object], document: object) -> dict[str, object]:
    """Return one schema of all inputs: the innermost, with the messages of the outer one."""
    outer, inner = _properties(schemas[0], document) or {}, dict_or_empty(schemas[-1])
    if len(schemas) == 1 or "messages" not in outer:
        return inner
    return {**inner, "properties": {"messages": outer["messages"], **(_properties(inner, document) or {})}}


# Schemas


def _marked_property(schemas: Iterable[object], root: object) -> str | None:
    for container in schemas:
        for name, schema in (_properties(container, root) or {}).items():
            if any(
                variant.get("x-ag-type-ref") in ("messages", "message") for variant in _schema_variants(schema, root)
            ):
                return printable(name, 40)
    return None


def _properties(schema: object, root: object) -> dict[str, object] | None:
    property_sets = [
        dict_or_empty(variant["properties"])
        for variant in _schema_variants(schema, root)
        if is_object(variant.get("properties"))
    ]
    if not property_sets:
        return None
    return {
        name: schema for variant in reversed(property_sets) for name, schema in islice(variant.items(), _MAX_PROPERTIES)
    }


def _schema_variants(schema: object, root: object) -> Iterator[dict[str, object]]:
    """Yield a schema, the target of its local `$ref`, and the members of its unions, up to a limit."""
    seen: set[int] = set()
    pending = [schema]
    while pending and len(seen) < _MAX_VARIANTS:
        variant = dict_or_empty(pending.pop(0))
        if not variant or id(variant) in seen:
            continue
        seen.add(id(variant))
        yield variant
        pending.append(_resolve_ref(variant.get("$ref"), root))
        for keyword in ("allOf", "anyOf", "oneOf"):
            pending.extend(_list(variant.get(keyword))[:_MAX_VARIANTS])


def _resolve_ref(ref: object, root: object) -> object:
    """Resolve a `$ref` into the same document; UNSET for any other."""
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        return UNSET
    segments = ref.split("/", _MAX_POINTER_SEGMENTS)[1:]
    return _get_path(root, *(segment.replace("~1", "/").replace("~0", "~") for segment in segments))


class _TooLarge(Exception):
    pass


class _BoundedCopy:
    def __init__(self, document: object) -> None:
        self.document = document
        self.remaining_chars = MAX_SCHEMA_CHARACTERS
        self.has_remote_ref = False

    def copy(self, value: object, depth: int = 0, outer_refs: tuple[str, ...] = ()) -> object:
        self.remaining_chars -= 1 + (len(value) if isinstance(value, str) else sum(map(len, dict_or_empty(value))))
        if self.remaining_chars < 0 or depth > MAX_SCHEMA_DEPTH:
            raise _TooLarge
        if isinstance(value, list):
            return [self.copy(member, depth + 1, outer_refs) for member in _list(cast("object", value))]
        if not is_object(value):
            return value
        ref, entries = value.get("$ref"), value
        if isinstance(ref, str):
            entries = {key: entry for key, entry in value.items() if key != "$ref"}
            if ref in outer_refs:  # A recursive schema: allow anything here.
                return {}
            if not ref.startswith("#"):
                self.has_remote_ref = True
            elif self.document is UNSET:
                entries["$ref"] = ref
            else:
                return self.copy(
                    {**dict_or_empty(_resolve_ref(ref, self.document)), **entries}, depth + 1, (*outer_refs, ref)
                )
        return {key: self.copy(entry, depth + 1, outer_refs) for key, entry in entries.items()}


def _copy_schemas(schemas: Mapping[str, object], warnings: list[str], document: object = UNSET) -> dict[str, object]:
    """Copy schemas, without remote `$ref`s; those over the limits are left out.

    If a document is given, local `$ref`s are replaced by their targets.
    """
    copies: dict[str, object] = {}
    for key, schema in schemas.items():
        if not is_object(schema):
            continue
        bounded_copy = _BoundedCopy(document)
        try:
            copies[key] = bounded_copy.copy(schema)
        except _TooLarge:
            warnings.append(f"'{key}' is too large or too deeply nested and was ignored.")
        if bounded_copy.has_remote_ref:
            warnings.append(f"'{key}' has a $ref to another document, which was not followed.")
    return copies


# Untyped JSON


def _get_path(value: object, *path: str) -> object:
    """Return the value at a path of keys, or UNSET."""
    for key in path:
        value = dict_or_empty(value).get(key, UNSET)
    return value


def _first_object(document: object, paths: Iterable[tuple[str, ...]]) -> dict[str, object]:
    return next(
        (entries for path in paths if (entries := dict_or_empty(_get_path(document, *path)))), dict_or_empty(None)
    )


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""
