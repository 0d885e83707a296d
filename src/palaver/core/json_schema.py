"""Validate against JSON Schemas that clients send (draft 2020-12), with bounded work.

Schema and value are untrusted: `$ref` never fetches anything, regular expressions have a timeout, and a validation has
a maximum number of steps and seconds, because references that double at each level would never end.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Annotated, Any, Final, Literal, Protocol, cast

import msgspec
from msgspec import Meta

from palaver.core import json
from palaver.errors import InvalidValue

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_STEPS: Final = 500_000
"""Maximum number of keywords evaluated in one validation."""
MAX_PATTERN_COST: Final = 2**15
"""Maximum length of all regular expressions, each doubled for every level of its nested groups."""
PATTERN_TIMEOUT_S: Final = 0.1
_MAX_ERRORS: Final = 3
_MAX_SHOWN_LENGTH: Final = 200
_REFERENCE_KEYWORDS: Final = ("$ref", "$dynamicRef")

Schema = Mapping[str, Any] | bool


class _Budget:
    """What is left of a validation's limits."""

    def __init__(self, timeout_s: float) -> None:
        self.steps = MAX_STEPS
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def spend(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise _BudgetExceeded(f"validation exceeded its limit of {MAX_STEPS:,} steps")
        if time.monotonic() > self._deadline:
            raise _BudgetExceeded(f"validation took longer than {self._timeout_s:g} s")


_budget: ContextVar[_Budget] = ContextVar("budget")


class _Validator(Protocol):
    def iter_errors(self, instance: Any) -> Iterator[Any]: ...


class SchemaError(Exception):
    """Raised if a schema is invalid, or validating against it takes too long."""

    def __init__(self, code: Literal["invalid_schema", "schema_budget"], message: str) -> None:
        super().__init__(message)
        self.code = code


def check_schema(schema: object, pointer: str) -> None:
    """Raise InvalidValue, with this pointer, for a schema that cannot be used."""
    if not isinstance(schema, Mapping | bool):
        raise InvalidValue("a schema must be an object, true or false.", pointer=pointer)
    try:
        text = json.encode(json.to_builtins(schema))
    except json.NotJson as error:
        raise InvalidValue(f"invalid schema: it contains {error}.", pointer=pointer) from None
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidValue(
            f"the schema is {len(text):,} bytes long; the limit is {MAX_SCHEMA_BYTES:,}.", pointer=pointer
        )
    if not json.is_json(text.decode()):
        raise InvalidValue(f"the schema is nested deeper than {json.MAX_DEPTH} levels.", pointer=pointer)
    try:
        _decode_schema(text)
    except _UnusableSchema as error:
        raise InvalidValue(f"invalid schema: {error}.", pointer=pointer) from None


def schema_errors(value: Any, schema: Schema, *, timeout_s: float = inf, show_values: bool = True) -> list[str]:
    """Return the first few errors of a value; empty if it is valid. Raises SchemaError.

    Without `show_values`, they say where and why the value is invalid, but not what it is there.
    """
    try:
        validator = _compile_schema(json.encode(json.to_builtins(schema)))
    except (_UnusableSchema, json.NotJson) as error:
        raise SchemaError("invalid_schema", str(error)) from None
    token = _budget.set(_Budget(timeout_s))
    try:
        return [
            _describe_error(error, show_values=show_values)
            for error in islice(validator.iter_errors(value), _MAX_ERRORS)
        ]
    except RecursionError:
        raise SchemaError("schema_budget", "the schema contains circular references") from None
    except _BudgetExceeded as error:
        raise SchemaError("schema_budget", str(error)) from None
    finally:
        _budget.reset(token)


def inline_references(schema: Mapping[str, Any], *, max_parts: int = 5_000) -> dict[str, Any] | None:
    """Return a valid schema with its `$defs` in place of references to them; None if that is too large or endless."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    remaining = max_parts

    def inline(part: Any) -> Any:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise _BudgetExceeded
        match part:
            case {"$ref": str(reference), **siblings}:
                target = definitions[reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")]
                return {**inline(target), **inline(siblings)}
            case dict():
                fields = cast("dict[str, Any]", part)
                return {key: inline(value) for key, value in fields.items() if key != "$defs"}
            case list():
                return [inline(item) for item in cast("list[Any]", part)]
            case _:
                return part

    try:
        return inline(dict(schema))
    except (KeyError, TypeError, RecursionError, _BudgetExceeded):  # TypeError: a definition that is true or false.
        return None


class _UnusableSchema(Exception):
    """Raised for a schema that cannot be used."""


class _BudgetExceeded(Exception):
    """Raised if a validation takes too many steps or too long."""


def _describe_error(error: Any, *, show_values: bool) -> str:
    path = "".join(f"/{json.escape_pointer(str(step))}" for step in error.absolute_path) or "the value"
    message = str(error.message)
    if not show_values and (reason := message.removeprefix(repr(error.instance))) != message:
        return f"{path}{_truncate(reason)}"
    return f"{path}: {_truncate(message)}"


def _truncate(message: str) -> str:
    return message if len(message) <= _MAX_SHOWN_LENGTH else message[:_MAX_SHOWN_LENGTH] + "…"


@lru_cache(maxsize=128)
def _decode_schema(text: bytes) -> Any:
    """Decode a schema and check it, without jsonschema: checking against the metaschema takes seconds."""
    schema = json.decode_or_text(text.decode())
    parts = list(_subschemas(schema))
    keywords = [keyword for part in parts for keyword in part.items()]
    references = {value for keyword, value in keywords if keyword in _REFERENCE_KEYWORDS}
    patterns = {value for keyword, value in keywords if keyword == "pattern"}
    patterns.update(*(value for keyword, value in keywords if keyword == "patternProperties"))
    # With both, jsonschema matches these patterns with `re`, which may never end.
    if {"unevaluatedProperties", "patternProperties"} <= {keyword for keyword, _ in keywords}:
        raise _UnusableSchema("unevaluatedProperties can't be combined with patternProperties")
    if sum(map(_pattern_cost, patterns)) > MAX_PATTERN_COST:
        raise _UnusableSchema("its regular expressions are too long or nested too deeply")
    for pattern in patterns:
        _compile_pattern(pattern)
    _check_references(references, schema, parts)
    return schema


@lru_cache(maxsize=128)
def _compile_schema(text: bytes) -> _Validator:
    from referencing.jsonschema import EMPTY_REGISTRY

    # Unlike the default registry, the empty one fetches nothing.
    return _bounded_validator()(_decode_schema(text), registry=EMPTY_REGISTRY)


_COUNT: Any = Annotated[float, Meta(ge=0)]
_TYPE_NAME: Any = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
_VALUE_TYPES: Final[Mapping[str, Any]] = {
    "type": _TYPE_NAME | list[_TYPE_NAME],
    **dict.fromkeys("enum examples".split(), list[Any]),
    "required": list[str],
    "dependentRequired": dict[str, list[str]],
    "multipleOf": Annotated[float, Meta(gt=0)],
    **dict.fromkeys("minimum maximum exclusiveMinimum exclusiveMaximum".split(), float),
    **dict.fromkeys("minLength maxLength minItems maxItems minProperties maxProperties".split(), _COUNT),
    **dict.fromkeys("minContains maxContains".split(), _COUNT),
    **dict.fromkeys("deprecated readOnly writeOnly uniqueItems".split(), bool),
    **dict.fromkeys("$id $schema $ref $anchor $dynamicRef $dynamicAnchor $comment".split(), str),
    **dict.fromkeys("title description format pattern contentEncoding contentMediaType".split(), str),
    **dict.fromkeys("properties patternProperties dependentSchemas $defs definitions".split(), dict[str, Any]),
    **dict.fromkeys("prefixItems allOf anyOf oneOf".split(), Annotated[list[Any], Meta(min_length=1)]),
}
"""The types of the keywords' values."""
_SCHEMA_KEYWORDS: Final = frozenset(
    "items additionalProperties contains propertyNames not if then else unevaluatedItems unevaluatedProperties".split()
)
"""The keywords whose value is a schema."""
_SCHEMA_LIST_KEYWORDS: Final = frozenset("prefixItems allOf anyOf oneOf".split())
_SCHEMA_MAP_KEYWORDS: Final = frozenset("properties patternProperties dependentSchemas $defs definitions".split())


def _subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema and all schemas in it, with values of the right types; true and false are left out."""
    pending = [("", schema)]
    while pending:
        pointer, part = pending.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            raise _UnusableSchema(f"{pointer or 'it'} must be an object, true or false")
        for keyword, value in cast("dict[str, Any]", part).items():
            inner = f"{pointer}/{json.escape_pointer(keyword)}"
            if (value_type := _VALUE_TYPES.get(keyword)) is not None:
                _check_type(value, value_type, inner)
            if keyword == "$id" and pointer:
                raise _UnusableSchema(f"{inner} is not supported; only the root may have an $id")
            if keyword in _SCHEMA_KEYWORDS:
                pending.append((inner, value))
            elif keyword in _SCHEMA_LIST_KEYWORDS:
                pending += [(f"{inner}/{index}", item) for index, item in enumerate(value)]
            elif keyword in _SCHEMA_MAP_KEYWORDS:
                pending += [(f"{inner}/{json.escape_pointer(name)}", item) for name, item in value.items()]
        yield part


def _check_type(value: Any, value_type: Any, pointer: str) -> None:
    try:
        msgspec.convert(value, value_type)
    except msgspec.ValidationError as error:
        why = str(error).partition(" - at `")[0]
        raise _UnusableSchema(json.violation_text(pointer, why).removesuffix(".")) from None


def _check_references(references: Iterable[str], schema: Any, parts: Iterable[dict[str, Any]]) -> None:
    """Raise for a reference to anything but one of the schema's `parts`, which were checked."""
    part_ids = set(map(id, parts))
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

    root = EMPTY_REGISTRY.resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in references:
        shown = repr(reference[:_MAX_SHOWN_LENGTH])
        if not reference.startswith("#"):
            raise _UnusableSchema(f"reference {shown} is not supported; references must start with '#'")
        try:
            target = root.lookup(reference).contents
        except Unresolvable:
            raise _UnusableSchema(f"reference {shown} not found") from None
        if id(target) not in part_ids and not isinstance(target, bool):
            raise _UnusableSchema(f"reference {shown} does not lead to a schema")


_PATTERN_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!>]|<[=!]|P?<\w+>|[ims]+\)))?|\)", re.DOTALL)
"""An escape, a character class, the start of a group, inline flags, or the end of a group."""


def _pattern_cost(pattern: str) -> int:
    """Return the length, doubled for each level of nested groups, as the time to compile it may be."""
    depth = max_depth = 0
    for match in _PATTERN_TOKEN.finditer(pattern):
        part = match[0]
        if part.startswith("[") and "[:" in part:
            raise _UnusableSchema(f"the character class {part[:_MAX_SHOWN_LENGTH]!r} is not supported")
        if part == "(" and pattern.startswith("?", match.end()):
            raise _UnusableSchema(f"the group {pattern[match.start() :][:5]!r} is not supported")
        if part == ")":
            depth -= 1
        elif part.startswith("(") and not part.endswith(")"):
            depth += 1
            max_depth = max(max_depth, depth)
    return len(pattern) << max_depth


@lru_cache(maxsize=1024)
def _compile_pattern(pattern: str) -> Any:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise _UnusableSchema(f"{pattern[:_MAX_SHOWN_LENGTH]!r} is not a valid regular expression ({error})") from None


def _pattern_matches(pattern: str, text: str) -> bool:
    _budget.get().spend()
    try:
        return _compile_pattern(pattern).search(text, timeout=PATTERN_TIMEOUT_S, concurrent=True) is not None
    except TimeoutError:
        raise _BudgetExceeded(
            f"matching the pattern {pattern[:_MAX_SHOWN_LENGTH]!r} took longer than {PATTERN_TIMEOUT_S} s"
        ) from None


# The validator is jsonschema's, but counts each keyword and never matches patterns with `re`.

_Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


@lru_cache(maxsize=1)
def _bounded_validator() -> Any:
    import jsonschema.validators

    library: Any = jsonschema.validators  # It has no types.
    draft = library.Draft202012Validator
    keywords = {
        **draft.VALIDATORS,
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "uniqueItems": _check_unique_items,
    }
    return library.extend(draft, {name: _count_steps(keyword) for name, keyword in keywords.items()})


def _count_steps(keyword: _Keyword) -> _Keyword:
    def counted_keyword(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _budget.get().spend()
        yield from keyword(validator, value, instance, schema) or ()

    return counted_keyword


def _check_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    import jsonschema

    if isinstance(instance, str) and not _pattern_matches(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _check_pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any) -> Iterator[Any]:
    for pattern, subschema in patterns.items():
        for key, value in _members(instance):
            if _pattern_matches(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _check_additional_properties(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    import jsonschema

    properties: Mapping[str, Any] = schema.get("properties", {})
    patterns: Mapping[str, Any] = schema.get("patternProperties", {})
    for key, value in _members(instance):
        if key in properties or any(_pattern_matches(pattern, key) for pattern in patterns):
            continue
        if subschema is False:
            yield jsonschema.ValidationError(f"{key!r} is not an allowed property")
        else:
            yield from validator.descend(value, subschema, path=key)


def _check_unique_items(_validator: Any, unique: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    """Compare encoded items: jsonschema compares each with every other."""
    import jsonschema

    if unique and isinstance(instance, list):
        items = cast("list[Any]", instance)
        if len({_encode_item(_integral_as_int(item)) for item in items}) < len(items):
            yield jsonschema.ValidationError(f"{items!r} has non-unique elements")


_encode_item = msgspec.json.Encoder(order="deterministic").encode


def _integral_as_int(value: Any) -> Any:
    """Replace 1.0 by 1, which is the same number in JSON Schema."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_integral_as_int(item) for item in cast("list[Any]", value)]
        case dict():
            return {key: _integral_as_int(item) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _members(instance: Any) -> list[tuple[str, Any]]:
    return list(cast("dict[str, Any]", instance).items()) if isinstance(instance, dict) else []
