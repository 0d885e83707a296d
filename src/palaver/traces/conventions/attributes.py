"""Read attribute values: labels, numbers, JSON, indexed names, and tool definitions.

    AttributeReader             the first of several names with a label, count, amount or value; bad numbers are noted
    parse_json, parse_container a text that should be JSON, or that may hold an object or list
    collect_indexed             names with numbers in them, `llm.input_messages.0.message.role`, in order
    group_by_prefix             names under several prefixes, in one pass
    unwrap_arguments            the arguments of a Python call
    parse_tools                 tool definitions, without the wrappers of vendors

Values are client data: bounded, never code. Names are not split into containers: a prefix is matched, and the rest of
the name stays one key.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.ids import truncate_id
from palaver.core.json import Object, as_list, dict_or_empty, is_object
from palaver.core.messages import Message
from palaver.traces.model import ConventionName as Name
from palaver.traces.model import RawSpan, SpanKind, Tool, ToolDefinition

Attributes = Mapping[str, Any]

Entry = dict[str, Any]
"""The values of one index, by the rest of their names."""

MAX_LABEL_CHARS = 128
"""Longer labels keep their beginning and get a hash, so that equal ones stay equal."""
MAX_ENTRIES = 2_000
_MAX_INDEX_DIGITS = 6
_MAX_NUMBER_CHARS = 64
_MAX_INT64 = 2**63 - 1
_ESCAPE = re.compile(r"\\(?:u00(?P<control>0[0-8BbCcEeFf]|1[0-9A-Fa-f]|7[Ff]|[89][0-9A-Fa-f])|.)", re.DOTALL)
"""Matches any JSON escape, so that an escaped backslash is not taken for the start of another."""


class AttributeReader:
    """Reads attributes. If a name's value is absent, null or invalid, the next name is tried."""

    __slots__ = ("_get", "notes")

    def __init__(self, attributes: Attributes) -> None:
        self._get = attributes.get
        self.notes: list[str] = []
        """`number:<name>` for each value that is not a valid number."""

    def value(self, *names: str) -> Any:
        """Return the first value, or UNSET."""
        for name in names:
            value = self._get(name)
            if value is not None:
                return value
        return UNSET

    def json(self, *names: str) -> Any:
        """Return the first value, parsed if it is JSON text, or UNSET."""
        return parse_json(self.value(*names))

    def label(self, *names: str) -> str | UnsetType:
        """Return the first non-blank label: a name, id, session or model."""
        for name in names:
            value = self._get(name)
            if value is not None and (text := parse_label(value)) is not None:
                return text
        return UNSET

    def count(self, *names: str) -> int | UnsetType:
        """Return the first non-negative integer, given as int, float or text."""
        for name in names:
            value = self._get(name)
            if value is not None:
                if (number := parse_count(value)) is not None:
                    return number
                self.notes.append(f"number:{name}")
        return UNSET

    def amount(self, *names: str) -> float | UnsetType:
        """Return the first finite non-negative number."""
        for name in names:
            value = self._get(name)
            if value is not None:
                if (number := parse_amount(value)) is not None:
                    return number
                self.notes.append(f"number:{name}")
        return UNSET

    def tool(self, name: str, call_id: str) -> Tool | UnsetType:
        """Return the tool with the names of these two attributes."""
        tool_name, tool_call_id = self.label(name), self.label(call_id)
        return UNSET if tool_name is UNSET else Tool(tool_name, None if tool_call_id is UNSET else tool_call_id)


def parse_label(value: Any) -> str | None:
    """Return a trimmed label of bounded length, or None. Integers become text."""
    if type(value) is int:
        value = str(value) if abs(value) <= _MAX_INT64 else ""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        return None
    return text if len(text) <= MAX_LABEL_CHARS else truncate_id(text)


def parse_count(value: Any) -> int | None:
    """Return a non-negative int, or None."""
    if type(value) is int:
        return value if 0 <= value <= _MAX_INT64 else None
    if type(value) is str and value.isdecimal() and value.isascii() and len(value) < 19:
        return int(value)
    number = parse_amount(value)
    return int(number) if number is not None and number.is_integer() and number <= _MAX_INT64 else None


def parse_amount(value: Any) -> float | None:
    """Return a finite non-negative float, or None."""
    if type(value) is str:
        if len(value) > _MAX_NUMBER_CHARS or "_" in value or not value.isascii():
            return None
    elif type(value) is not int and type(value) is not float:
        return None  # This excludes bool.
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number + 0.0 if number >= 0 and math.isfinite(number) else None


def parse_json(value: Any) -> Any:
    """Parse JSON text; return any other value, and text that is not JSON, unchanged.

    Control characters, which were replaced in the text as sent, may come through as JSON escapes; these are replaced
    too.
    """
    if type(value) is not str:
        return value
    text = _ESCAPE.sub(_replace_control_escape, value) if "\\u00" in value else value
    parsed = json.parse_or_text(text)
    return value if parsed is text else parsed


def _replace_control_escape(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape["control"] else escape[0]


def parse_container(value: Any) -> Any:
    """Parse JSON text that holds an object or list; return anything else unchanged, as `"42"` may be plain text."""
    if type(value) is not str:
        return value
    start = value[:1]
    if start.isspace():
        start = value.lstrip()[:1]
    return parse_json(value) if start in ("{", "[") else value


_CALL_KEYS = {"args", "kwargs", "sanitize_inputs_outputs"}


def unwrap_arguments(value: Any) -> Any:
    """Return the arguments of a recorded Python call: by name, or the only one; any other value unchanged."""
    if not is_object(value) or not value.keys() <= _CALL_KEYS or "args" not in value or "kwargs" not in value:
        return value
    args, kwargs = as_list(value["args"]), dict_or_empty(value["kwargs"])
    if not args:
        return kwargs
    return args[0] if len(args) == 1 and not kwargs else value


def collect_indexed(attributes: Attributes, prefix: str) -> list[Entry]:
    """Collect values under `prefix.0.…`, `prefix.1.…`, sorted by index without gaps, by the rest of their names.

    `{"m.0.role": "user", "m.7.role": "tool"}` with `m` gives `[{"role": "user"}, {"role": "tool"}]`. A value at `m.0`
    itself has the empty name. Entries are flat, and may be collected again.
    """
    start, offset = prefix + ".", len(prefix) + 1
    entries: dict[int, Entry] = {}
    for name, value in attributes.items():
        if name.startswith(start):
            digits, _, suffix = name[offset:].partition(".")
            if len(digits) <= _MAX_INDEX_DIGITS and digits.isdecimal() and digits.isascii():
                entries.setdefault(int(digits), {})[suffix] = value
    return [entries[index] for index in sorted(entries)[:MAX_ENTRIES]]


def group_by_prefix(attributes: Attributes, prefixes: tuple[str, ...]) -> dict[str, Entry]:
    """Group attributes by the first of `prefixes` that their names have, in one pass."""
    groups: dict[str, Entry] = {}
    for name, value in attributes.items():
        if name.startswith(prefixes):
            for prefix in prefixes:
                if name.startswith(prefix):
                    groups.setdefault(prefix, {})[name] = value
                    break
    return groups


def collect_group(groups: Mapping[str, Entry], prefix: str) -> list[Entry]:
    """Collect the indexed values of one group of `group_by_prefix`."""
    group = groups.get(f"{prefix}.")
    return collect_indexed(group, prefix) if group else []


MAX_TOOLS = 2_000
_WRAPPERS = ("function", "tool", "custom", "toolSpec", "tool_spec")
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema", "json_schema")
_GROUPS = ("tools", "functionDeclarations", "function_declarations")


def parse_tools(value: Any) -> tuple[ToolDefinition, ...]:
    """Parse tools from a list, its JSON text, or a list of JSON texts; those without a name are left out."""
    tools: list[ToolDefinition] = []
    for item in as_list(parse_container(value))[:MAX_TOOLS]:
        fields = dict_or_empty(parse_container(item))
        for key in _GROUPS:  # Gemini groups tools.
            if isinstance(fields.get(key), list):
                tools += [tool for entry in fields[key] if (tool := _parse_tool(dict_or_empty(entry))) is not None]
        if (tool := _parse_tool(fields)) is not None:
            tools.append(tool)
    return tuple(tools[:MAX_TOOLS])


def _parse_tool(fields: Object) -> ToolDefinition | None:
    inner = next((fields[key] for key in _WRAPPERS if is_object(fields.get(key))), None)
    definition = dict_or_empty(inner) or fields
    name = parse_label(definition.get("name")) or parse_label(fields.get("name"))
    if name is None:
        return None
    description = definition.get("description", fields.get("description"))
    schema = next((definition[key] for key in _SCHEMAS if definition.get(key) is not None), None)
    unwrapped = dict_or_empty(schema).get("json")  # Bedrock's `{"json": {…}}`
    return ToolDefinition(
        name=name,
        description=description if isinstance(description, str) and description else None,
        parameters=unwrapped if is_object(unwrapped) else parse_json(schema),
    )


class SpanFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that one convention found. UNSET fields are left to the next; invalid values become notes."""

    kind: SpanKind | UnsetType = UNSET
    messages_in: tuple[Message, ...] | UnsetType = UNSET
    messages_out: tuple[Message, ...] | UnsetType = UNSET
    inputs: Any = UNSET
    outputs: Any = UNSET
    parameters: Mapping[str, Any] | UnsetType = UNSET
    tools: tuple[ToolDefinition, ...] | UnsetType = UNSET
    tool: Tool | UnsetType = UNSET
    input_tokens: int | UnsetType = UNSET
    output_tokens: int | UnsetType = UNSET
    cached_input_tokens: int | UnsetType = UNSET
    cache_creation_input_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    cost: float | UnsetType = UNSET
    model: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    finish: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    workflow: str | UnsetType = UNSET
    notes: tuple[str, ...] = ()


class Convention(Protocol):
    """A convention is a module with these names."""

    NAME: Name
    ROOTS: frozenset[str]
    """First words of all attribute names read (`llm` of `llm.model_name`). Spans without any of them are skipped."""

    def read_fields(self, raw: RawSpan) -> SpanFields:
        """Read a span; returns empty fields if it has no attribute of the convention. Does no I/O."""
        ...
