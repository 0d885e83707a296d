"""The tools that a model could have called, out of the many wrappers they are told in."""

from typing import Any

from palaver.core.dialects.common import as_list, dict_or_empty
from palaver.core.json import Object, is_object
from palaver.traces.conventions.reading import label, opened, parsed
from palaver.traces.record import Defined

MOST_TOOLS = 2_000
_WRAPPERS = ("function", "tool", "custom", "toolSpec", "tool_spec")
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema", "json_schema")
_SEVERAL = ("tools", "functionDeclarations", "function_declarations")


def defined(value: Any) -> tuple[Defined, ...]:
    """The tools of a list, of its JSON text, or of a list of JSON texts; what has no name is left out."""
    tools: list[Defined] = []
    for item in as_list(opened(value))[:MOST_TOOLS]:
        fields = dict_or_empty(opened(item))
        for key in _SEVERAL:  # Gemini groups them.
            if isinstance(fields.get(key), list):
                tools += [tool for each in fields[key] if (tool := _defined(dict_or_empty(each))) is not None]
        if (tool := _defined(fields)) is not None:
            tools.append(tool)
    return tuple(tools[:MOST_TOOLS])


def _defined(fields: Object) -> Defined | None:
    inner = next((fields[key] for key in _WRAPPERS if is_object(fields.get(key))), None)
    told = dict_or_empty(inner) or fields
    name = label(told.get("name")) or label(fields.get("name"))
    if name is None:
        return None
    description = told.get("description", fields.get("description"))
    schema = next((told[key] for key in _SCHEMAS if told.get(key) is not None), None)
    unwrapped = dict_or_empty(schema).get("json")  # Bedrock's `{"json": {…}}`
    return Defined(
        name=name,
        description=description if isinstance(description, str) and description else None,
        parameters=unwrapped if is_object(unwrapped) else parsed(schema),
    )
