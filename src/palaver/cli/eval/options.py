"""Parse the options of `palaver eval`: evaluators, variants and column mappings."""

import re
from pathlib import Path
from typing import Any, cast

import click

from palaver.core import json
from palaver.core.json import decode_struct
from palaver.errors import InvalidValue, PalaverError
from palaver.evaluation.plan.request import WantedEvaluator, WantedMap, WantedVariant
from palaver.outbound import printable

_MAX_FILE_BYTES = 1024 * 1024
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MAPPED_FIELDS = ("messages", "history", "script", "expected")


def read_evaluator(text: str) -> WantedEvaluator:
    """Parse `exact_match`, `regex:{"pattern": "^A"}` or `starts=regex:{…}`:

    an optional name, the key, the parameters.
    """
    head, colon, parameters = text.partition(":{")
    name, equals, key = head.rpartition("=")
    if not _KEY.fullmatch(key) or (equals and not name):
        raise click.BadParameter(f'{text[:80]!r} is no evaluator: write KEY, KEY:{{"parameter": …}} or NAME=KEY:{{…}}.')
    parsed = _parse_object("{" + parameters, f"--evaluator {key}") if colon else {}
    return WantedEvaluator(key=key, name=name or None, parameters=parsed)


def read_agenta(path: str) -> list[WantedEvaluator]:
    """Read Agenta's evaluators from a file; parts that can't be converted are reported."""
    from palaver.evaluation.agenta import import_evaluators

    document = json.decode_or_text(_read_text(Path(path)))
    items = import_evaluators(document)
    for item in items:
        for note in item.notes:
            click.echo(f"{printable(item.name)}: {printable(note, 500)}", err=True)
    return [item.evaluator for item in items if item.evaluator is not None]


def read_variant(text: str, workflow: str) -> WantedVariant:
    """Parse `short:params.json` or `short:{…}` with parameters, or `short` or `short:3`, a stored variant."""
    name, colon, rest = text.partition(":")
    if not name:
        raise click.BadParameter(f"{text[:80]!r} is no variant: write NAME:FILE.json, NAME:{{…}}, NAME or NAME:3.")
    if not colon or (rest.isascii() and rest.isdecimal()):
        return WantedVariant(workflow=workflow, variant=text)
    raw = rest if rest.startswith("{") else _read_text(Path(rest))
    return WantedVariant(name=name, workflow=workflow, parameters=_parse_object(raw, f"--variant {name}"))


def is_stored(variant: WantedVariant) -> bool:
    return variant.variant is not None


def read_map(texts: tuple[str, ...]) -> WantedMap:
    """Parse `messages=question`, `expected=answer`, `subject=topic`; an empty column unsets a field."""
    document: dict[str, Any] = {}
    for text in texts:
        field, equals, column = text.partition("=")
        if not equals or not field:
            raise click.BadParameter(f"{text[:80]!r} says of no column where it goes: write messages=COLUMN.")
        if field in _MAPPED_FIELDS:
            document[field] = column or None
        else:
            document.setdefault("inputs", {})[field.removeprefix("inputs.")] = column
    return decode_struct(document, WantedMap)


def _parse_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.decode(text.encode())
    except PalaverError as error:
        raise click.BadParameter(f"{option}: {error.message}") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"{option}: parameters are a JSON object.")
    return cast("dict[str, Any]", value)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InvalidValue(f"{path} is larger than {_MAX_FILE_BYTES} bytes.")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.BadParameter(f"{path} cannot be read: {reason}.") from None
