"""Read attribute values: labels, numbers, JSON, indexed names, and tool definitions."""

import math
import re
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core import json
from palaver.core.dialects.common import as_list, dict_or_empty
from palaver.core.ids import truncate_id
from palaver.core.json import Object, is_object
from palaver.traces.model import Defined

Attributes = Mapping[str, Any]
"""A flat map from name to value."""

Entry = dict[str, Any]
"""What is told of one index: the rest of each name, and its value."""

MAX_LABEL_CHARS = 128
"""Characters. What is longer keeps its beginning and gets a hash, so that equal ones stay equal."""
MAX_ENTRIES = 2_000
_MAX_INDEX_DIGITS = 6
_MAX_NUMBER_CHARS = 64
_MAX_INT64 = 2**63 - 1
"""What a database takes as a whole number."""
_ESCAPE = re.compile(r"\\(?:u00(?P<control>0[0-8BbCcEeFf]|1[0-9A-Fa-f]|7[Ff]|[89][0-9A-Fa-f])|.)", re.DOTALL)
"""Any escape of JSON, so that a backslash that is itself escaped is never taken for the start of another."""


class AttributeReader:
    """Looks into attributes. A name that is absent, null or unfit is passed over for the next one."""

    __slots__ = ("_get", "notes")

    def __init__(self, attributes: Attributes) -> None:
        self._get = attributes.get
        self.notes: list[str] = []
        """`number:<name>` for each that should have been a number and was none."""

    def value(self, *names: str) -> Any:
        """The first value as it stands; UNSET where there is none."""
        for name in names:
            value = self._get(name)
            if value is not None:
                return value
        return UNSET

    def json(self, *names: str) -> Any:
        """The first value, parsed if it is JSON text; UNSET where there is none."""
        return parse_json(self.value(*names))

    def label(self, *names: str) -> str | UnsetType:
        """The first text that is not blank, trimmed and of bounded length: a name, an id, a session, a model."""
        for name in names:
            value = self._get(name)
            if value is not None and (text := parse_label(value)) is not None:
                return text
        return UNSET

    def count(self, *names: str) -> int | UnsetType:
        """The first whole number that is not negative: an int, a double, or either as text."""
        for name in names:
            value = self._get(name)
            if value is not None:
                if (number := parse_count(value)) is not None:
                    return number
                self.notes.append(f"number:{name}")
        return UNSET

    def amount(self, *names: str) -> float | UnsetType:
        """The first finite number that is not negative, with its fraction."""
        for name in names:
            value = self._get(name)
            if value is not None:
                if (number := parse_amount(value)) is not None:
                    return number
                self.notes.append(f"number:{name}")
        return UNSET


def parse_label(value: Any) -> str | None:
    """A text that is not blank, trimmed and of bounded length; a whole number counts as its text."""
    if type(value) is int:
        value = str(value) if abs(value) <= _MAX_INT64 else ""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        return None
    return text if len(text) <= MAX_LABEL_CHARS else truncate_id(text)


def parse_count(value: Any) -> int | None:
    """A whole number that is not negative; None for what is none."""
    if type(value) is int:
        return value if 0 <= value <= _MAX_INT64 else None
    if type(value) is str and value.isdecimal() and value.isascii() and len(value) < 19:
        return int(value)
    number = parse_amount(value)
    return int(number) if number is not None and number.is_integer() and number <= _MAX_INT64 else None


def parse_amount(value: Any) -> float | None:
    """A finite number that is not negative; None for what is none."""
    if type(value) is str:
        if len(value) > _MAX_NUMBER_CHARS or "_" in value or not value.isascii():
            return None
    elif type(value) is not int and type(value) is not float:
        return None  # Neither is a bool.
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number + 0.0 if number >= 0 and math.isfinite(number) else None


def parse_json(value: Any) -> Any:
    """The value of a JSON text; anything else, and text that is no JSON or too deep, as it stands.

    Control characters were taken out of what was sent. In JSON they may have come through as escapes.
    """
    if type(value) is not str:
        return value
    text = _ESCAPE.sub(_replace_control_escape, value) if "\\u00" in value else value
    found = json.parse_or_text(text)
    return value if found is text else found


def _replace_control_escape(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape["control"] else escape[0]


def parse_container(value: Any) -> Any:
    """The object or list of a JSON text; anything else as it stands: `"42"` and `"true"` may just be what was said."""
    if type(value) is not str:
        return value
    start = value[:1]
    if start.isspace():
        start = value.lstrip()[:1]
    return parse_json(value) if start in ("{", "[") else value


def collect_indexed(attributes: Attributes, prefix: str) -> list[Entry]:
    """What stands under `prefix.0.…`, `prefix.1.…`, by sorted index without gaps, each under the rest of its name.

    `{"m.0.role": "user", "m.7.role": "tool"}` with `m` is `[{"role": "user"}, {"role": "tool"}]`. A value at `m.0`
    itself stands under the empty name. An entry is flat too, and may be asked again for what has an index in it.
    """
    start, places = prefix + ".", len(prefix) + 1
    found: dict[int, Entry] = {}
    for name, value in attributes.items():
        if name.startswith(start):
            digits, _, rest = name[places:].partition(".")
            if len(digits) <= _MAX_INDEX_DIGITS and digits.isdecimal() and digits.isascii():
                found.setdefault(int(digits), {})[rest] = value
    return [found[index] for index in sorted(found)[:MAX_ENTRIES]]


def collect_under(attributes: Attributes, prefix: str) -> Entry:
    """What stands under `prefix.…`, each under the rest of its name, which stays one key whatever dots it has."""
    start, places = prefix + ".", len(prefix) + 1
    return {name[places:]: value for name, value in attributes.items() if name.startswith(start)}


def group_by_prefix(attributes: Attributes, prefixes: tuple[str, ...]) -> dict[str, Entry]:
    """The attributes whose names begin so, by the first of the prefixes that they have; all names are seen once."""
    found: dict[str, Entry] = {}
    for name, value in attributes.items():
        if name.startswith(prefixes):
            for prefix in prefixes:
                if name.startswith(prefix):
                    found.setdefault(prefix, {})[name] = value
                    break
    return found


MAX_TOOLS = 2_000
_WRAPPERS = ("function", "tool", "custom", "toolSpec", "tool_spec")
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema", "json_schema")
_GROUPS = ("tools", "functionDeclarations", "function_declarations")


def parse_tools(value: Any) -> tuple[Defined, ...]:
    """The tools of a list, of its JSON text, or of a list of JSON texts; what has no name is left out."""
    tools: list[Defined] = []
    for item in as_list(parse_container(value))[:MAX_TOOLS]:
        fields = dict_or_empty(parse_container(item))
        for key in _GROUPS:  # Gemini groups them.
            if isinstance(fields.get(key), list):
                tools += [tool for each in fields[key] if (tool := _parse_tool(dict_or_empty(each))) is not None]
        if (tool := _parse_tool(fields)) is not None:
            tools.append(tool)
    return tuple(tools[:MAX_TOOLS])


def _parse_tool(fields: Object) -> Defined | None:
    inner = next((fields[key] for key in _WRAPPERS if is_object(fields.get(key))), None)
    told = dict_or_empty(inner) or fields
    name = parse_label(told.get("name")) or parse_label(fields.get("name"))
    if name is None:
        return None
    description = told.get("description", fields.get("description"))
    schema = next((told[key] for key in _SCHEMAS if told.get(key) is not None), None)
    unwrapped = dict_or_empty(schema).get("json")  # Bedrock's `{"json": {…}}`
    return Defined(
        name=name,
        description=description if isinstance(description, str) and description else None,
        parameters=unwrapped if is_object(unwrapped) else parse_json(schema),
    )
