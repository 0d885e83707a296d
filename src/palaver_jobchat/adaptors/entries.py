"""An adaptor's description (`ast.json`) as entries, and the selection of entries for a prompt.

The files come from a documentation tool and are not always well-formed: what has another shape is skipped. They don't
list namespaced functions (`http.get` of another adaptor), so a listing may be incomplete.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import msgspec

from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.bm25 import bm25_scores, content_terms

_MAX_TYPE_DEPTH = 20


class Entry(msgspec.Struct, frozen=True):
    """A function, or a type of its parameters."""

    name: str
    signature: str
    text: str
    """The signature, the description, the parameters and examples."""
    kind: Literal["function", "type"] = "function"


class AdaptorDocs(msgspec.Struct, frozen=True, kw_only=True):
    """The known docs of a requested adaptor."""

    adaptor: Adaptor
    version: str | None = None
    """The requested version, resolved to a number if possible."""
    state: Literal["exact", "nearest", "missing"] = "missing"
    docs_version: str | None = None
    """The version that the entries describe."""
    is_bundled: bool = False
    """Whether the entries come from a description included in Job Chat, not from the adaptor's package."""
    entries: tuple[Entry, ...] = ()

    def meta(self) -> dict[str, Any]:
        """Return the value of `meta.job_chat.adaptor` in the answer."""
        return {
            "name": self.adaptor.name,
            **({"version": self.version} if self.version else {}),
            "docs": self.state,
            **({"docs_version": self.docs_version} if self.state == "nearest" else {}),
            **({"source": "bundled"} if self.is_bundled else {}),
        }


class _Field(msgspec.Struct, frozen=True):
    """A parameter of a function or a property of a type."""

    name: str
    type: str | None
    optional: bool
    default: str | None
    description: str

    def head(self, name: str) -> str:
        mark = "?" if self.optional else ""
        return f"{name}{mark}: {self.type}" if self.type else f"{name}{mark}"


def decode_description(content: bytes) -> tuple[Entry, ...] | None:
    """Return the entries of a file, or None if it is not a JSON object."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return parse_description(cast("object", value)) if isinstance(value, dict) else None


def parse_description(ast: object) -> tuple[Entry, ...]:
    """Return the entries of a description, in order. The adaptor's own functions hide common ones of the same name."""
    entries: dict[str, Entry] = {}
    for group in ("operations", "exports", "common"):
        for item in _list(_dict(ast).get(group)):
            entry = _parse_entry(_dict(item))
            if entry is not None:
                entries.setdefault(entry.name, entry)
    return tuple(entries.values())


def _parse_entry(item: dict[str, Any]) -> Entry | None:
    name = item.get("name")
    docs = _dict(item.get("docs"))
    tags = [_dict(tag) for tag in _list(docs.get("tags"))]
    if not isinstance(name, str) or not name or any(tag.get("title") == "private" for tag in tags):
        return None
    description = _strip_text(docs.get("description"))
    for tag in tags:
        # The comment of a type precedes an unrelated function, and the tool files it under that function's name.
        if tag.get("title") == "typedef" and _strip_text(tag.get("name")):
            return _type_entry(tag, tags, description)
    return _function_entry(name, item.get("params"), tags, description)


def _type_entry(typedef: dict[str, Any], tags: list[dict[str, Any]], description: str) -> Entry:
    name = _strip_text(typedef.get("name"))
    fields = list(_tag_fields(tags, "property"))
    properties = ", ".join(field.head(field.name) for field in fields if "." not in field.name)
    definition = f"{{ {properties} }}" if properties else _type_of(typedef.get("type")) or "any"
    signature = f"type {name} = {definition}"
    lines = [signature, description, *_field_lines("Properties:", fields), *_examples(tags)]
    return Entry(name, signature, "\n".join(filter(None, lines)), "type")


def _function_entry(name: str, params: object, tags: list[dict[str, Any]], description: str) -> Entry:
    fields = list(_tag_fields(tags, "param"))
    fields_by_name = {field.name: field for field in fields}
    names = [param for param in _list(params) if isinstance(param, str)]
    names = names or [field.name for field in fields if "." not in field.name]
    heads = [fields_by_name[param].head(param) if param in fields_by_name else param for param in names]
    return_types = [kind for tag in tags if tag.get("title") == "returns" if (kind := _type_of(tag.get("type")))]
    signature = f"{name}({', '.join(heads)})" + (f": {return_types[0]}" if return_types else "")
    lines = [signature, description, *_field_lines("Parameters:", fields), *_examples(tags)]
    return Entry(name, signature, "\n".join(filter(None, lines)))


def _tag_fields(tags: list[dict[str, Any]], title: str) -> Iterator[_Field]:
    for tag in tags:
        name = _strip_text(tag.get("name"))
        if tag.get("title") == title and name:
            kind = _dict(tag.get("type"))
            default = tag.get("default")
            yield _Field(
                name=name,
                type=_type_of(kind) if kind else None,
                optional=kind.get("type") == "OptionalType",
                default=default if isinstance(default, str) else None,
                description=_strip_text(tag.get("description")),
            )


def _type_of(value: object, depth: int = 0) -> str | None:
    """Render a type expression. Unknown forms are `any`; no type is None."""
    kind = _dict(value)
    if not kind:
        return None
    if depth > _MAX_TYPE_DEPTH:
        return "any"

    def inner(argument: object) -> str:
        return _type_of(argument, depth + 1) or "any"

    match kind.get("type"):
        case "NameExpression":
            return _strip_text(kind.get("name")) or "any"
        case "UnionType":
            return "|".join(inner(element) for element in _list(kind.get("elements"))) or "any"
        case "OptionalType":
            return inner(kind.get("expression"))
        case "TypeApplication":
            arguments = ", ".join(inner(argument) for argument in _list(kind.get("applications")))
            return f"{inner(kind.get('expression'))}<{arguments}>" if arguments else inner(kind.get("expression"))
        case _:
            return "any"


def _field_lines(title: str, fields: list[_Field]) -> list[str]:
    """Render fields as a list; those with a dotted name are nested under their parent."""
    if not fields:
        return []
    parents = [field for field in fields if "." not in field.name]
    lines, nested = [title], set[str]()
    for parent in parents:
        lines.append(_field_line(parent, parent.name, depth=0))
        for field in fields:
            if field.name.replace("[]", "").startswith(f"{parent.name}."):
                nested.add(field.name)
                lines.append(_field_line(field, field.name.rsplit(".", 1)[-1], depth=field.name.count(".")))
    orphans = [field for field in fields if "." in field.name and field.name not in nested]
    return [*lines, *(_field_line(field, field.name, depth=0) for field in orphans)]


def _field_line(field: _Field, name: str, *, depth: int) -> str:
    indent = "  " * depth
    default = f" = {field.default}" if field.default is not None else ""
    description = field.description.replace("\n", f"\n{indent}  ")
    return f"{indent}- {field.head(name)}{default}" + (f": {description}" if description else "")


def _examples(tags: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for tag in tags:
        code, caption = _strip_text(tag.get("description")), _strip_text(tag.get("caption"))
        if tag.get("title") == "example" and code:
            lines += [f"Example: {caption}" if caption else "Example:", code]
    return lines


def _strip_text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


ENTRIES_BUDGET_CHARACTERS = 40_000
_SEPARATOR = "\n\n"

_FUNCTION_CALL = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]*)\s*\(")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")


class Selection(msgspec.Struct, frozen=True):
    """The part of an adaptor's docs that a prompt shows."""

    signatures: str
    """One line per function and type; empty if all entries are shown in full."""
    full: tuple[Entry, ...]
    is_complete: bool
    """Whether all entries are shown in full. The text then doesn't depend on the question and can be cached."""

    @property
    def text(self) -> str:
        return _SEPARATOR.join(entry.text for entry in self.full)


def select_entries(
    entries: Sequence[Entry],
    *,
    code: str = "",
    question: str = "",
    log: str = "",
    budget: int = ENTRIES_BUDGET_CHARACTERS,
) -> Selection:
    """Return all entries if they fit into `budget` characters, else all signatures and the most relevant entries.

    Signatures are never cut. Most relevant are functions that the code calls, then names in the question or
    the log, then the best matches of the question.
    """
    if sum(len(entry.text) + len(_SEPARATOR) for entry in entries) <= budget + len(_SEPARATOR):
        return Selection("", tuple(entries), is_complete=True)
    signatures = "\n".join(entry.signature for entry in entries)
    remaining = budget - len(signatures)
    full: list[Entry] = []
    for entry in dict.fromkeys(_rank_entries(entries, code, question, log)):
        if len(entry.text) + len(_SEPARATOR) <= remaining:
            full.append(entry)
            remaining -= len(entry.text) + len(_SEPARATOR)
    return Selection(signatures, tuple(full), is_complete=False)


def _rank_entries(entries: Sequence[Entry], code: str, question: str, log: str) -> Iterator[Entry]:
    """Yield the entries by relevance; an entry may occur more than once."""
    by_name = {entry.name: entry for entry in entries}
    for pattern, text in ((_FUNCTION_CALL, code), (_IDENTIFIER, question), (_IDENTIFIER, log)):
        for name in pattern.findall(text):
            if name in by_name:
                yield by_name[name]
    scores = bm25_scores(content_terms(question), [entry.text for entry in entries])
    ranked = sorted(range(len(entries)), key=lambda index: -scores[index])  # Stable.
    yield from (entries[index] for index in ranked)
