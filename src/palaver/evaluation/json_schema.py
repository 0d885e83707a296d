"""Validate against JSON Schemas that clients send (draft 2020-12), with bounded work.

Schema and value are untrusted: `$ref` never fetches anything, regular expressions have a timeout, and a validation has
a maximum number of steps, because references that double at each level would never end.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Protocol, cast

from palaver.core import json
from palaver.errors import InvalidValue
from palaver.evaluation.score import ScoringError

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_STEPS: Final = 500_000
"""Maximum number of keywords evaluated in one validation."""
PATTERN_TIMEOUT_S: Final = 0.1
_MAX_ERRORS: Final = 3
_MAX_SHOWN_LENGTH: Final = 200
_DATA_KEYWORDS: Final = frozenset({"const", "enum", "default", "examples"})
_REFERENCE_KEYWORDS: Final = ("$ref", "$dynamicRef")

Schema = Mapping[str, Any] | bool

_remaining_steps: ContextVar[int] = ContextVar("remaining_steps")


class _Validator(Protocol):
    def iter_errors(self, instance: Any) -> Iterator[Any]: ...


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
        _compile_schema(text)
    except _UnusableSchema as error:
        raise InvalidValue(f"invalid schema: {error}.", pointer=pointer) from None


def schema_errors(value: Any, schema: Schema) -> list[str]:
    """Return the first few errors of a value; empty if it is valid. Raises ScoringError."""
    try:
        validator = _compile_schema(json.encode(json.to_builtins(schema)))
    except (_UnusableSchema, json.NotJson) as error:
        raise ScoringError("invalid_schema", str(error)) from None
    token = _remaining_steps.set(MAX_STEPS)
    try:
        return [_describe_error(error) for error in islice(validator.iter_errors(value), _MAX_ERRORS)]
    except RecursionError:
        raise ScoringError("schema_budget", "the schema contains circular references") from None
    except _BudgetExceeded as error:
        raise ScoringError("schema_budget", str(error)) from None
    finally:
        _remaining_steps.reset(token)


class _UnusableSchema(Exception):
    """Raised for a schema that cannot be used."""


class _BudgetExceeded(Exception):
    """Raised if a validation takes too many steps or too long."""


def _describe_error(error: Any) -> str:
    path = "".join(f"/{json.escape_pointer(str(step))}" for step in error.absolute_path)
    message = str(error.message)
    return (
        f"{path or 'the value'}: {message if len(message) <= _MAX_SHOWN_LENGTH else message[:_MAX_SHOWN_LENGTH] + '…'}"
    )


@lru_cache(maxsize=128)
def _compile_schema(text: bytes) -> _Validator:
    import jsonschema
    from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

    schema = json.decode_or_text(text.decode())
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise _UnusableSchema(_describe_error(error)) from None
    except RecursionError:
        raise _UnusableSchema("it is nested too deeply") from None
    # Unlike the default registry, the empty one fetches nothing.
    root = EMPTY_REGISTRY.resolver_with_root(DRAFT202012.create_resource(schema))
    keywords = list(_keywords(schema))
    for keyword, value in keywords:
        if keyword in _REFERENCE_KEYWORDS and isinstance(value, str):
            _check_reference(value, root)
        elif keyword == "pattern" and isinstance(value, str):
            _compile_pattern(value)
        elif keyword == "patternProperties" and isinstance(value, dict):
            for pattern in cast("dict[str, Any]", value):
                _compile_pattern(pattern)
    # With both, jsonschema matches these patterns with `re`, which may never end.
    if {"unevaluatedProperties", "patternProperties"} <= {keyword for keyword, _ in keywords}:
        raise _UnusableSchema("unevaluatedProperties can't be combined with patternProperties")
    return _bounded_validator()(schema, registry=EMPTY_REGISTRY)


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield every keyword of the schema and its subschemas, without looking into data."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += cast("list[Any]", part)
        elif isinstance(part, dict):
            for key, value in cast("dict[str, Any]", part).items():
                yield key, value
                if key not in _DATA_KEYWORDS:
                    pending.append(value)


def _check_reference(reference: str, root: Any) -> None:
    from referencing.exceptions import Unresolvable

    if not reference.startswith("#"):
        raise _UnusableSchema(
            f"reference {reference[:_MAX_SHOWN_LENGTH]!r} is not supported; references must start with '#'"
        )
    try:
        root.lookup(reference)
    except Unresolvable:
        raise _UnusableSchema(f"reference {reference[:_MAX_SHOWN_LENGTH]!r} not found") from None


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> Any:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise _UnusableSchema(f"{pattern[:_MAX_SHOWN_LENGTH]!r} is not a valid regular expression ({error})") from None


def _pattern_matches(pattern: str, text: str) -> bool:
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
    }
    return library.extend(draft, {name: _count_steps(keyword) for name, keyword in keywords.items()})


def _count_steps(keyword: _Keyword) -> _Keyword:
    def counted_keyword(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        remaining = _remaining_steps.get()
        if remaining <= 0:
            raise _BudgetExceeded(f"validation exceeded its limit of {MAX_STEPS:,} steps")
        _remaining_steps.set(remaining - 1)
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


def _members(instance: Any) -> list[tuple[str, Any]]:
    return list(cast("dict[str, Any]", instance).items()) if isinstance(instance, dict) else []
