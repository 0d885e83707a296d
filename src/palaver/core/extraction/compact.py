"""The beginning of a value as compact JSON: cells show some hundred characters, whatever there is.

A value of moderate size is encoded whole. Of any other one only the beginning is written, piece by piece and without
recursion: it may be huge, deep, hold itself, or hold what is no JSON, which is named by its type.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from palaver.core import jsons

_LEVELS, _VALUES, _CHARACTERS = 256, 100_000, 1024 * 1024
"""What a value of moderate size may hold."""
_PIECES = 5_000
"""Values of any other one that are looked at."""
_REACH = 4096
"""Characters of one text in it that are written; the rest is counted."""
_SCALARS = frozenset((int, float, bool, type(None)))


class Written(NamedTuple):
    """How a value's JSON begins."""

    text: str
    """As many characters as were asked for, or more; all of it where that is less."""
    length: int
    """Of the whole, in characters. Of a value that is not of moderate size: characters far into a long text count as
    one each, escaped or not, and what stands behind its first thousands of values is not counted."""


def written(value: object, characters: int) -> Written:
    """At least the first `characters` of the value's compact JSON, if it has so many."""
    if _is_moderate(value):
        try:
            text = jsons.encode(value).decode()
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            pass  # Too deep, half a character, a number of thousands of digits.
        else:
            return Written(text, len(text))
    pieces: list[str] = []
    length, shown = 0, 0
    for piece, more in _pieces(value, max(_REACH, characters)):
        if shown < characters:
            pieces.append(piece)
            shown += len(piece)
        length += len(piece) + more
    return Written("".join(pieces), length)


def _is_moderate(value: object) -> bool:
    """Is it plain, and small enough to be encoded whole? Cheaper than doing so."""
    level: list[Any] = [value]
    values, characters = _VALUES, _CHARACTERS
    for _ in range(_LEVELS):
        values -= len(level)
        if not level or values < 0 or characters < 0:
            break
        below: list[Any] = []
        for item in level:
            if type(item) is str:
                characters -= len(item)
            elif type(item) is list:
                below += cast("list[Any]", item)
            elif type(item) is dict:
                known = cast("dict[Any, Any]", item)
                for key in known:
                    if type(key) is not str:
                        return False
                    characters -= len(key)
                below += known.values()
            elif item is not None and not isinstance(item, int | float):
                return False
        level = below
    return not level and characters >= 0


def _pieces(value: Any, reach: int) -> Iterator[tuple[str, int]]:
    """The JSON in order, each piece with how many characters of it were left unwritten."""
    opened: list[tuple[Iterator[Any], str]] = []  # What each open list or object still holds, and how it closes.
    before = ""
    for _ in range(_PIECES):
        inside = _inside(value)
        if inside is None:
            piece, more = _leaf(value, reach)
            yield before + piece, more
        else:
            opened.append(inside)
            yield before + ("{" if inside[1] == "}" else "["), 0
        before = "," if inside is None else ""
        while opened:
            held, close = opened[-1]
            try:
                value = next(held)
                break
            except StopIteration:
                opened.pop()
                yield close, 0
                before = ","
        else:
            return
        if close == "}":
            key, value = value
            piece, more = _leaf(key if isinstance(key, str) else _json(key).strip('"'), reach)
            yield f"{before}{piece}:", more
            before = ""


def _inside(value: Any) -> tuple[Iterator[Any], str] | None:
    # Not by the value's own methods: it may be anybody's subclass.
    if isinstance(value, dict):
        return iter(dict[Any, Any].items(cast("dict[Any, Any]", value))), "}"
    if isinstance(value, list):
        return list[Any].__iter__(cast("list[Any]", value)), "]"
    if isinstance(value, tuple):
        return tuple[Any, ...].__iter__(cast("tuple[Any, ...]", value)), "]"
    return None


def _leaf(value: object, reach: int) -> tuple[str, int]:
    if not isinstance(value, str):
        return _json(value), 0
    text = str.__str__(value)
    if len(text) > reach:
        return _json(jsons.whole_text(text[:reach]))[:-1], len(text) - reach + 1
    return _json(jsons.whole_text(text)), 0


def _json(value: object) -> str:
    try:
        return jsons.encode(value if type(value) in _SCALARS or type(value) is str else jsons.plain(value)).decode()
    except Exception:  # Somebody's object may raise anything.
        return jsons.encode(f"<{jsons.whole_text(type(value).__name__[:80])}>").decode()
