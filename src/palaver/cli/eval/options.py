"""What is written on the command line of `palaver eval`, read: evaluators, variants and columns."""

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
"""Bytes of a file of parameters."""
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MAPPED_FIELDS = ("messages", "history", "script", "expected")


def read_evaluator(text: str) -> WantedEvaluator:
    """`exact_match`, `regex:{"pattern": "^A"}` or `starts=regex:{…}`: a name of one's own, the key, the parameters."""
    head, colon, parameters = text.partition(":{")
    name, equals, key = head.rpartition("=")
    if not _KEY.fullmatch(key) or (equals and not name):
        raise click.BadParameter(f'{text[:80]!r} is no evaluator: write KEY, KEY:{{"parameter": …}} or NAME=KEY:{{…}}.')
    given = _parse_object("{" + parameters, f"--evaluator {key}") if colon else {}
    return WantedEvaluator(key=key, name=name or None, parameters=given)


def read_agenta(path: str) -> list[WantedEvaluator]:
    """Evaluators of Agenta's in a file. What cannot be taken over is told, and the rest is."""
    from palaver.evaluation.agenta import import_evaluators

    document = json.decode_or_text(_read_text(Path(path)))
    found = import_evaluators(document)
    for one in found:
        for note in one.notes:
            click.echo(f"{printable(one.name)}: {printable(note, 500)}", err=True)
    return [one.evaluator for one in found if one.evaluator is not None]


def read_variant(text: str, workflow: str) -> WantedVariant:
    """`short:params.json` and `short:{…}` have their parameters there; `short` and `short:3` are stored ones."""
    name, colon, rest = text.partition(":")
    if not name:
        raise click.BadParameter(f"{text[:80]!r} is no variant: write NAME:FILE.json, NAME:{{…}}, NAME or NAME:3.")
    if not colon or (rest.isascii() and rest.isdecimal()):
        return WantedVariant(workflow=workflow, variant=text)
    raw = rest if rest.startswith("{") else _read_text(Path(rest))
    return WantedVariant(name=name, workflow=workflow, parameters=_parse_object(raw, f"--variant {name}"))


def is_stored(variant: WantedVariant) -> bool:
    """Is it one that only a database knows?"""
    return variant.variant is not None


def read_map(given: tuple[str, ...]) -> WantedMap:
    """`messages=question`, `expected=answer`, `subject=topic`: what goes where; nothing after the sign is nothing."""
    document: dict[str, Any] = {}
    for text in given:
        place, equals, column = text.partition("=")
        if not equals or not place:
            raise click.BadParameter(f"{text[:80]!r} says of no column where it goes: write messages=COLUMN.")
        if place in _MAPPED_FIELDS:
            document[place] = column or None
        else:
            document.setdefault("inputs", {})[place.removeprefix("inputs.")] = column
    return decode_struct(document, WantedMap)


def _parse_object(text: str, of: str) -> dict[str, Any]:
    try:
        value = json.decode(text.encode())
    except PalaverError as error:
        raise click.BadParameter(f"{of}: {error.message}") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"{of}: parameters are a JSON object.")
    return cast("dict[str, Any]", value)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InvalidValue(f"{path} is larger than {_MAX_FILE_BYTES} bytes.")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.BadParameter(f"{path} cannot be read: {why}.") from None
