"""Paths into JSON: `a.b[0]`, `$.a[0]` or `/a/0`.

A key with a dot or bracket is written `["a.b"]`, or as a JSON pointer. In a list a number is an index; `[-1]` is the
last item. Missing values are UNSET: null is a value.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from msgspec import UNSET

from palaver.core import json

PathSteps = tuple[str | int, ...]

_STEP = re.compile(r"""\.?(?P<name>[^.\[\]]+)|\[(?P<place>-?\d{1,9})\]|\[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]""")
_PLAIN_KEY = re.compile(r"[^.\[\]\s/$\"']+")


@lru_cache(maxsize=1024)
def parse_path(path: str) -> PathSteps:
    """Parse a path into steps. Raises ValueError."""
    if path.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
    rest = path.removeprefix("$")
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        step = _STEP.match(rest, at)
        # A dot separates names, or follows the dollar sign; it does not start a path.
        if step is None or (rest[at] == "." and at == 0 and rest is path):
            raise ValueError(f"{path!r} is no path: write a.b[0], $.a[0] or /a/0")
        if step["name"] is not None and at and rest[at] != ".":
            raise ValueError(f"{path!r} is no path: write a.b[0], $.a[0] or /a/0")
        steps.append(
            step["name"]
            if step["name"] is not None
            else int(step["place"])
            if step["place"] is not None
            else step["key"]
        )
        at = step.end()
    return tuple(steps)


def value_at(value: Any, path: str | PathSteps) -> Any:
    """The value at a path; UNSET if there is none."""
    for step in parse_path(path) if isinstance(path, str) else path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(str(step), UNSET)
        elif isinstance(value, list | tuple):
            value = _list_item(cast("Sequence[Any]", value), step)
        else:
            return UNSET
        if value is UNSET:
            return UNSET
    return value


def format_path(path: PathSteps) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.encode(json.replace_surrogates(step)).decode()}]"
    return text or "$"


def leaves(value: Any, path: PathSteps = ()) -> Iterator[tuple[PathSteps, Any]]:
    """Every value without children, with its path, in order. Empty lists and objects are leaves."""
    if isinstance(value, dict) and value:
        for key, inner in cast("dict[str, Any]", value).items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for place, inner in enumerate(cast("list[Any]", value)):
            yield from leaves(inner, (*path, place))
    else:
        yield path, value


def _list_item(values: Sequence[Any], step: str | int) -> Any:
    if isinstance(step, str):
        if not (step.isascii() and step.isdecimal()) or len(step) > 9:
            return UNSET
        step = int(step)
    return values[step] if -len(values) <= step < len(values) else UNSET
