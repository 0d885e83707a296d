"""An adaptor's description (`ast.json`) as entries, and the selection of entries for a prompt."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import msgspec

from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.bm25 import bm25_scores, content_terms

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


ENTRIES_BUDGET_CHARACTERS = 40_000
_BETWEEN = "\n\n"

_CALLED = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]*)\s*\(")
_NAMED = re.compile(r"[A-Za-z_$][\w$]*")


class Selection(msgspec.Struct, frozen=True):
    """What is shown of an adaptor's docs."""

    signatures: str
    """One line for each function and type. Empty where everything is shown in full: it is all there."""
    full: tuple[Entry, ...]
    is_complete: bool
    """Whether all entries are shown in full. Then nothing depends on the question, and the text can be cached."""

    @property
    def text(self) -> str:
        """The entries shown in full."""
        return _BETWEEN.join(entry.text for entry in self.full)


def select_entries(
    entries: Sequence[Entry],
    *,
    code: str = "",
    question: str = "",
    log: str = "",
    budget: int = ENTRIES_BUDGET_CHARACTERS,
) -> Selection:
    """The whole docs if they fit into so many characters, else all signatures and the entries that matter most."""
    if sum(len(entry.text) + len(_BETWEEN) for entry in entries) <= budget + len(_BETWEEN):
        return Selection("", tuple(entries), is_complete=True)
    signatures = "\n".join(entry.signature for entry in entries)
    room = budget - len(signatures)
    full: list[Entry] = []
    for entry in dict.fromkeys(_ranked_entries(entries, code, question, log)):
        if len(entry.text) + len(_BETWEEN) <= room:
            full.append(entry)
            room -= len(entry.text) + len(_BETWEEN)
    return Selection(signatures, tuple(full), is_complete=False)


def _ranked_entries(entries: Sequence[Entry], code: str, question: str, log: str) -> Iterator[Entry]:
    """The entries, the most important first; one may come more than once."""
    known = {entry.name: entry for entry in entries}
    for pattern, text in ((_CALLED, code), (_NAMED, question), (_NAMED, log)):
        for name in pattern.findall(text):
            if name in known:
                yield known[name]
    marks = bm25_scores(content_terms(question), [entry.text for entry in entries])
    ranked = sorted(range(len(entries)), key=lambda place: -marks[place])  # Stable: the file's order among equals.
    yield from (entries[place] for place in ranked)


class AdaptorDocs(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about an adaptor that was asked for."""

    adaptor: Adaptor
    version: str | None = None
    """The one asked for, as a number where that could be found."""
    state: Literal["exact", "nearest", "missing"] = "missing"
    docs_version: str | None = None
    """The one that the entries describe."""
    entries: tuple[Entry, ...] = ()

    def meta(self) -> dict[str, Any]:
        """As the answer's `meta.job_chat.adaptor` tells it."""
        return {
            "name": self.adaptor.name,
            **({"version": self.version} if self.version else {}),
            "docs": self.state,
            **({"docs_version": self.docs_version} if self.state == "nearest" else {}),
        }
