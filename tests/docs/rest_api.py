"""The generated part of docs/reference/rest-api.md: the REST API, read from /openapi.json.

Fields of bodies and objects have no descriptions in OpenAPI; they are read from the docstrings in the source. A path
that is in no group, and a parameter without a description, raise an error.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

import msgspec

from palaver.core import json
from palaver.core.events import RunStarted
from palaver.server.api.conventions import NDJSON, Timestamp
from tests.docs import routes
from tests.docs.docstrings import field_docstrings

GROUPS = {
    "Workflows": r"/api/workflows(?!.*/variants)",
    "Connections": "/api/connections",
    "Threads": "/api/threads",
    "Runs": "/api/runs(?!.*/feedback)",
    "Feedback": "/api/feedback|/api/runs/.*/feedback",
    "Files": "/api/files",
    "Variants": "/api/variants|/api/workflows/.*/variants",
    "Boards": "/api/boards",
    "Traces": "/api/(traces|spans)",
    "Sessions": "/api/sessions",
    "Saved views": "/api/views",
    "Conversations in values": "/api/extract",
    "Test sets": "/api/testsets",
    "Evaluations": "/api/evaluations",
    "Evaluators": "/api/evaluators",
    "Live evaluators": "/api/online",
    "Reviews": "/api/reviews",
    "API keys": "/api/keys",
    "Projects": "/api/projects",
    "Login": "/api/session$",
    "Server": "/api/(about|settings|bootstrap|erase)",
}
"""Resources, each with the pattern of its paths."""

_TIMESTAMP: str = get_args(Timestamp)[1].description
_EVENTS = "[events](../concepts/core-data-model.md#events)"
Schema = Mapping[str, Any]


def page() -> str:
    """Return the generated part of the page."""
    objects = _Objects(routes.document()["components"]["schemas"])
    by_group: dict[str, list[routes.Route]] = {group: [] for group in GROUPS}
    for route in routes.every_route():
        if route.group == routes.REST_API:
            by_group[_group_of(route.path)].append(route)
    parts: list[str] = []
    for group, members in by_group.items():
        parts += [f"## {group}", f"Guide: {_guides(members)}.", *(_operation(route, objects) for route in members)]
    return "\n\n".join([*parts, "## Objects", *objects.sections()])


def _group_of(path: str) -> str:
    (group,) = (group for group, pattern in GROUPS.items() if re.match(pattern, path))
    return group


def _guides(members: Iterable[routes.Route]) -> str:
    return ", ".join(dict.fromkeys(routes.link(route.page) for route in members))


# Operations


def _operation(route: routes.Route, objects: "_Objects") -> str:
    (method,) = route.methods
    operation = routes.document()["paths"][route.path][method.lower()]
    scopes = {"nothing": "no API key", "credential": "an API key with any scope"}
    scope = scopes.get(route.need, f"the scope `{route.need}`")
    parameters = _parameters(operation.get("parameters", []), objects)
    return "\n\n".join(
        [
            f"### {method} `{route.path}`",
            f"{operation['summary']}. Requires {scope}.",
            *parameters,
            *_body(operation.get("requestBody"), objects),
            f"Response: {_responses(operation['responses'], objects)}.",
        ]
    )


def _parameters(parameters: Sequence[Schema], objects: "_Objects") -> Iterator[str]:
    rows = [
        f"| `{parameter['name']}` | {parameter['in']} | {_without_null(objects.type_text(parameter['schema']))} |"
        f" {_requirement(parameter['schema'], is_required=parameter['required'])} | {parameter['description']} |"
        for parameter in parameters
    ]
    if rows:
        yield "\n".join(["| parameter | in | type | required | description |", "|---|---|---|---|---|", *rows])


def _without_null(type_text: str) -> str:
    return type_text.removesuffix(" or null")


def _requirement(schema: Schema, *, is_required: bool) -> str:
    if is_required:
        return "yes"
    default = schema.get("default")
    return f"default `{json.encode(default).decode()}`" if default not in (None, "", [], {}) else "no"


def _body(body: Schema | None, objects: "_Objects") -> Iterator[str]:
    contents: Mapping[str, Any] = (body or {}).get("content", {})
    schemas = [content["schema"] for content in contents.values()]
    if not schemas:
        return
    if not schemas[0].get("properties"):
        media_types = " or ".join(f"`{name}`" for name in contents if name != "*/*")
        yield "Body: the content of a file" + (f", as {media_types}." if media_types else ".")
        return
    (media_type,), (schema,) = contents, schemas
    text = _uncapitalize(" ".join(schema.get("description", "").partition("\n\n")[0].split()))
    if media_type == NDJSON:
        yield f"Body: NDJSON. Each line is {text}"
    else:
        yield f"Body: {text}" if text else "Body:"
    yield objects.field_table(schema)


def _uncapitalize(text: str) -> str:
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _responses(responses: Schema, objects: "_Objects") -> str:
    return "; ".join(
        ", ".join(filter(None, [status, _content(response.get("content", {}), objects)]))
        for status, response in sorted(responses.items())
        if status.startswith("2")
    )


def _content(content: Schema, objects: "_Objects") -> str:
    texts: list[str] = []
    for media_type, described in content.items():
        text = objects.type_text(described.get("schema", {}))
        if media_type != "application/json":
            text = f"`{media_type}`" + ("" if text in ("JSON", "string", "binary") else f" of {text}")
        texts.append("" if text == "null" else text)
    return " or ".join(texts)


# Objects and types


class _Objects:
    """Types as text, with links to the objects that they mention. Each of these gets a section."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components
        self._found: dict[str, Schema] = {}

    def sections(self) -> list[str]:
        """Return a section for each object mentioned so far, and for those mentioned in these."""
        sections: dict[str, str] = {}
        while missing := self._found.keys() - sections.keys():
            for name in sorted(missing):
                schema = self._found[name]
                text = _class_docstring(name, schema)
                sections[name] = "\n\n".join(
                    filter(None, [f"### {name}", text, self.field_table(schema, is_body=False)])
                )
        return [sections[name] for name in sorted(sections)]

    def field_table(self, schema: Schema, *, is_body: bool = True) -> str:
        texts = _field_texts(schema)
        required = schema.get("required", ())
        rows = [
            [
                f"`{name}`",
                self.type_text(field),
                *([_requirement(field, is_required=name in required)] if is_body else []),
                texts.get(name) or field.get("description", "").replace(_TIMESTAMP, ""),
            ]
            for name, field in schema["properties"].items()
        ]
        head = ["field", "type", *(["required"] if is_body else []), "description"]
        lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in [head, *rows]]
        return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])

    def type_text(self, schema: Schema) -> str:
        match schema:
            case {"description": str(text)} if text == _TIMESTAMP and "null" not in str(schema):
                return "timestamp"
            case {"description": str(text)} if text == _TIMESTAMP:
                return "timestamp or null"
            case {"$ref": str(reference)}:
                return self._object_text(self._components[reference.rpartition("/")[2]])
            case {"anyOf": list(schemas)} if any(one.get("title") == RunStarted.__name__ for one in schemas):
                return _EVENTS
            case {"anyOf": list(schemas)} | {"oneOf": list(schemas)}:
                texts = [self.type_text(one) for one in schemas]
                texts = [
                    text + _range_text(schema) if text in ("string", "integer", "number") else text for text in texts
                ]
                return " or ".join(dict.fromkeys(sorted(texts, key="null".__eq__)))
            case {"enum": list(values)}:
                return " or ".join("null" if value is None else f'`"{value}"`' for value in values)
            case {"type": list(types)}:
                texts = [self.type_text({**schema, "type": one}) for one in types]
                return " or ".join(sorted(texts, key="null".__eq__))
            case {"type": "array", "prefixItems": list(items)}:
                names = [self.type_text(item) for item in items]
                same = len(set(names)) == 1 and names[0] in ("string", "integer", "number")
                return f"array of {len(names)} {names[0]}s" if same else f"array of {', '.join(names)}"
            case {"type": "array"}:
                return f"array of {self.type_text(schema.get('items', {}))}"
            case {"title": str(), "properties": dict()}:
                return self._object_text(schema)
            case {"type": "object", "additionalProperties": dict(value)} if value:
                name, space, bounds = self.type_text(value).partition(" (")
                return f"object with {name} values{space}{bounds}"
            case {"type": "object"}:
                return "object"
            case {"type": "string", "format": "binary"}:
                return "binary"
            case {"type": str(name)}:
                return name + _range_text(schema)
            case _:
                return "JSON"

    def _object_text(self, schema: Schema) -> str:
        title = schema.get("title", "")
        if title.startswith("Page["):
            return f"a page of {self.type_text(schema['properties']['data']['items'])}"
        if not schema.get("properties"):
            return self.type_text({key: value for key, value in schema.items() if key != "title"})
        known = self._found.setdefault(title, schema)
        if "enum" in schema["properties"].get("type", {}):
            self._found[title] = schema  # Components only say that the tag is a string.
        assert known["properties"].keys() == schema["properties"].keys(), f"two objects are named {title}"
        return f"[{title}](#{title.lower()})"


def _range_text(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {_number_text(low)} to {_number_text(high)}"
    if low is not None:
        return f" from {_number_text(low)}"
    return f" (max. {schema['maxLength']:,})" if schema.get("maxLength", 0) > 1 else ""


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,}"


@cache
def _structs() -> dict[str, list[type]]:
    """Return all structs of the server by name."""
    routes.document()  # Loads the controllers.
    found: dict[str, list[type]] = {}
    waiting: list[type] = [msgspec.Struct]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            if cls.__module__.startswith("palaver."):
                found.setdefault(cls.__name__, []).append(cls)
    return found


def _struct_of(schema: Schema) -> type | None:
    """Return the struct with the name and fields of a schema."""
    names = schema["properties"].keys() - {"type"}
    named = sorted(_structs().get(schema.get("title", ""), []), key=lambda cls: cls.__module__)
    return next((cls for cls in named if set(cls.__struct_encode_fields__) - {"type"} == names), None)


def _field_texts(schema: Schema) -> dict[str, str]:
    cls: Any = _struct_of(schema)
    if cls is None:
        return {}
    texts = field_docstrings(cls)
    named = zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)
    return {shown: " ".join(texts[name].split()) for shown, name in named if name in texts}


def _class_docstring(name: str, schema: Schema) -> str:
    cls = _struct_of(schema)
    text = inspect.cleandoc(cls.__doc__ or "") if cls else schema.get("description", "")
    return " ".join(text.partition("\n\n")[0].split()) if not text.startswith(f"{name}(") else ""
