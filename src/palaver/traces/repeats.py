"""What of a history stands in a thread already: compared by who said it, its text and its calls.

Histories come back changed: without reasoning, without steps of tools, with only their last messages. So they are
compared twice, as they are and by what was said aloud; instructions at the start never count.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from palaver.core.extraction.excerpts import written
from palaver.core.messages import Data, File, Message

_SHORT, _LONG = 256, 64 * 1024
"""Characters that are compared, of a file and of a value."""
_Key = Callable[[Message], object]
_INSTRUCTIONS = ("system", "developer")


class Place(NamedTuple):
    """Where a history meets a thread."""

    line: int
    kept: int
    """Messages of the thread that stand before it."""
    fresh: int
    """The first of the history that is new."""


def repeated(first: Sequence[Message], then: Sequence[Message]) -> int:
    """How many messages of the second begin it by repeating all of the first; 0 where it does not."""
    if not first or len(then) < len(first):
        return 0
    is_same = all(_exact(one) == _exact(other) for one, other in zip(first, then, strict=False))
    return len(first) if is_same else 0


def is_fuller(history: Sequence[Message], given: Sequence[Message], answered: Sequence[Message]) -> bool:
    """Does a history begin with what was given, end with the same words, and tell of more steps in between?"""
    own, asked = _keyed(history, _exact), _keyed(given, _exact)
    if not asked or _common(own, asked) < len(asked) or len(own) <= len(asked) + len(answered):
        return False
    words = _last_words(answered)
    return bool(words) and words == _last_words(history)


def is_within(messages: Sequence[Message], thread: Sequence[Message]) -> bool:
    """Does the thread begin with all of these?"""
    theirs, own = _keyed(thread, _exact), _keyed(messages, _exact)
    return bool(own) and _common(own, theirs) == len(own)


def continued(history: Sequence[Message], threads: Sequence[Sequence[Message]]) -> Place | None:
    """The thread that a history repeats to its end, the longest of them; or the one of which it has the last part."""
    for key in (_exact, _aloud):
        own = _keyed(history, key)
        found: Place | None = None
        for line, thread in enumerate(threads):
            theirs = _keyed(thread, key)
            count = _common(own, theirs)
            if theirs and count == len(theirs) and (found is None or len(thread) >= found.kept):
                found = Place(line, len(thread), own[count - 1][1] + 1)
        if found is not None:
            return found
    own = _keyed(history, _exact)
    for line, thread in reversed(list(enumerate(threads))):
        theirs = _keyed(thread, _exact)
        if not _common(own, theirs) and (count := _tail(own, theirs)):
            return Place(line, len(thread), own[count - 1][1] + 1)
    return None


def left(history: Sequence[Message], threads: Sequence[Sequence[Message]]) -> Place | None:
    """The thread that a history has the longest beginning in common with, and where it leaves it."""
    best: Place | None = None
    most = 0
    for key in (_exact, _aloud):
        own = _keyed(history, key)
        for line, thread in enumerate(threads):
            theirs = _keyed(thread, key)
            count = _common(own, theirs)
            if count > most:
                most, best = count, Place(line, theirs[count - 1][1] + 1, own[count - 1][1] + 1)
        if best is not None:
            return best
    return None


def without_known_instructions(history: Sequence[Message], thread: Sequence[Message]) -> Sequence[Message]:
    """The history without what it begins with that the thread was told before."""
    known = {_told(message) for message in thread if message.role in _INSTRUCTIONS}
    first = 0
    while first < len(history) and history[first].role in _INSTRUCTIONS and _told(history[first]) in known:
        first += 1
    return history[first:]


# Comparing

_Keyed = list[tuple[object, int]]


def _keyed(messages: Sequence[Message], key: _Key) -> _Keyed:
    """What is compared of each message, and its place; those that do not count are left out."""
    found: _Keyed = []
    for place, message in enumerate(messages):
        is_opening = message.role in _INSTRUCTIONS and not found
        if not is_opening and (told := key(message)) is not None:
            found.append((told, place))
    return found


def _common(own: _Keyed, theirs: _Keyed) -> int:
    count = 0
    for (one, _), (other, _) in zip(own, theirs, strict=False):
        if one != other:
            break
        count += 1
    return count


def _tail(own: _Keyed, theirs: _Keyed) -> int:
    """How many of the history's first are the thread's last."""
    ours, last = [told for told, _ in own], [told for told, _ in theirs]
    for count in range(min(len(ours), len(last)), 0, -1):
        if ours[:count] == last[-count:]:
            return count
    return 0


def _last_words(messages: Sequence[Message]) -> str:
    spoken = (message.text.strip() for message in reversed(messages) if message.role == "assistant")
    return next(filter(None, spoken), "")


def _told(message: Message) -> tuple[str, str]:
    return message.role, message.text.strip()


def _exact(message: Message) -> object:
    calls = tuple((call.name, _compact(call.parsed)) for call in message.tool_calls)
    results = tuple(_compact(result.output) for result in message.tool_results)
    return (*_told(message), calls, results, _others(message))


def _aloud(message: Message) -> object:
    """What people see of it; None for steps in between."""
    if message.role not in ("user", "assistant"):
        return None
    others = _others(message)
    return (*_told(message), others) if message.text.strip() or others else None


def _others(message: Message) -> tuple[str, ...]:
    return tuple(
        f"{part.media_type} {(part.file_id or part.url or part.data or '')[:_SHORT]}"
        if isinstance(part, File)
        else _compact([part.name, part.value])
        for part in message.parts
        if isinstance(part, File | Data)
    )


def _compact(value: Any) -> str:
    return written(value, _LONG).text
