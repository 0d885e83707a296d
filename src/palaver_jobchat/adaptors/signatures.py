"""An adaptor's own description (`ast.json`) as entries that a model can read: a signature, and all that is known.

The files come from a documentation tool and are not always what they seem; whatever has another shape is passed by.
Namespaced functions (`http.get` of another adaptor) are in no such file: the listing may be incomplete.
"""

from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec

_DEEPEST_TYPE = 20


class Entry(msgspec.Struct, frozen=True):
    """One function, or one type that functions take."""

    name: str
    signature: str
    text: str
    """Everything: the signature, what it does, its parameters and examples."""
    kind: Literal["function", "type"] = "function"


class _Field(msgspec.Struct, frozen=True):
    """A parameter or a property."""

    name: str
    type: str | None
    optional: bool
    default: str | None
    description: str

    def head(self, name: str) -> str:
        mark = "?" if self.optional else ""
        return f"{name}{mark}: {self.type}" if self.type else f"{name}{mark}"


def decode_description(content: bytes) -> tuple[Entry, ...] | None:
    """The entries of a file; nothing where it is no such file."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return parse_description(cast("object", value)) if isinstance(value, dict) else None


def parse_description(ast: object) -> tuple[Entry, ...]:
    """The entries of a description, in its order. The adaptor's own name hides one that all adaptors share."""
    entries: dict[str, Entry] = {}
    for group in ("operations", "exports", "common"):
        for item in _list(_dict(ast).get(group)):
            entry = _entry(_dict(item))
            if entry is not None:
                entries.setdefault(entry.name, entry)
    return tuple(entries.values())


def _entry(item: dict[str, Any]) -> Entry | None:
    name = item.get("name")
    docs = _dict(item.get("docs"))
    tags = [_dict(tag) for tag in _list(docs.get("tags"))]
    if not isinstance(name, str) or not name or any(tag.get("title") == "private" for tag in tags):
        return None
    description = _text(docs.get("description"))
    for tag in tags:
        # The comment of a type stands before whatever function comes next, and the tool files it under that one's name.
        if tag.get("title") == "typedef" and _text(tag.get("name")):
            return _type(tag, tags, description)
    return _function(name, item.get("params"), tags, description)


def _type(typedef: dict[str, Any], tags: list[dict[str, Any]], description: str) -> Entry:
    name = _text(typedef.get("name"))
    fields = list(_fields(tags, "property"))
    inside = ", ".join(field.head(field.name) for field in fields if "." not in field.name)
    signature = f"type {name} = {{ {inside} }}" if inside else f"type {name} = {_type_of(typedef.get('type')) or 'any'}"
    lines = [signature, *_paragraph(description), *_listed("Properties:", fields), *_examples(tags)]
    return Entry(name, signature, "\n".join(lines), "type")


def _function(name: str, params: object, tags: list[dict[str, Any]], description: str) -> Entry:
    fields = list(_fields(tags, "param"))
    known = {field.name: field for field in fields}
    names = [param for param in _list(params) if isinstance(param, str)]
    names = names or [field.name for field in fields if "." not in field.name]
    heads = [known[param].head(param) if param in known else param for param in names]
    returned = [made for tag in tags if tag.get("title") == "returns" if (made := _type_of(tag.get("type")))]
    signature = f"{name}({', '.join(heads)})" + (f": {returned[0]}" if returned else "")
    lines = [signature, *_paragraph(description), *_listed("Parameters:", fields), *_examples(tags)]
    return Entry(name, signature, "\n".join(lines))


def _fields(tags: list[dict[str, Any]], title: str) -> Iterator[_Field]:
    for tag in tags:
        name = _text(tag.get("name"))
        if tag.get("title") == title and name:
            kind = _dict(tag.get("type"))
            default = tag.get("default")
            yield _Field(
                name=name,
                type=_type_of(kind) if kind else None,
                optional=kind.get("type") == "OptionalType",
                default=default if isinstance(default, str) else None,
                description=_text(tag.get("description")),
            )


def _type_of(value: object, depth: int = 0) -> str | None:
    """A type as people write it; what we do not know is `any`, and none is none."""
    kind = _dict(value)
    if not kind:
        return None
    if depth > _DEEPEST_TYPE:
        return "any"

    def inner(one: object) -> str:
        return _type_of(one, depth + 1) or "any"

    match kind.get("type"):
        case "NameExpression":
            return _text(kind.get("name")) or "any"
        case "UnionType":
            return "|".join(inner(element) for element in _list(kind.get("elements"))) or "any"
        case "OptionalType":
            return inner(kind.get("expression"))
        case "TypeApplication":
            of = ", ".join(inner(one) for one in _list(kind.get("applications")))
            return f"{inner(kind.get('expression'))}<{of}>" if of else inner(kind.get("expression"))
        case _:
            return "any"


def _paragraph(text: str) -> list[str]:
    return [text] if text else []


def _listed(title: str, fields: list[_Field]) -> list[str]:
    """The fields as a list, those with a dotted name under the one they belong to."""
    if not fields:
        return []
    parents = [field for field in fields if "." not in field.name]
    lines, done = [title], set[str]()
    for parent in parents:
        lines.append(_line(parent, parent.name, depth=0))
        for field in fields:
            if field.name.replace("[]", "").startswith(f"{parent.name}."):
                done.add(field.name)
                lines.append(_line(field, field.name.rsplit(".", 1)[-1], depth=field.name.count(".")))
    orphans = [field for field in fields if "." in field.name and field.name not in done]
    return [*lines, *(_line(field, field.name, depth=0) for field in orphans)]


def _line(field: _Field, name: str, *, depth: int) -> str:
    space = "  " * depth
    default = f" = {field.default}" if field.default is not None else ""
    described = field.description.replace("\n", f"\n{space}  ")
    return f"{space}- {field.head(name)}{default}" + (f": {described}" if described else "")


def _examples(tags: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for tag in tags:
        code, caption = _text(tag.get("description")), _text(tag.get("caption"))
        if tag.get("title") == "example" and code:
            lines += [f"Example: {caption}" if caption else "Example:", code]
    return lines


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
