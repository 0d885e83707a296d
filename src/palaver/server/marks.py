"""What a call's headers say beside its protocol: a thread that it answers in, a variant, a key to do it only once."""

import hashlib
import re
from datetime import datetime
from typing import NamedTuple

from palaver.errors import ConflictingFields, InvalidValue
from palaver.server.callers import Caller
from palaver.server.heads import Head
from palaver.storage.idempotency import IdempotentRequest

_THREAD, _ANSWER, _VARIANT, _KEY = "x-palaver-thread", "x-palaver-answer", "x-palaver-variant", "idempotency-key"
_NAMES = frozenset(name.encode() for name in (_THREAD, _ANSWER, _VARIANT, _KEY))
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,128}")
_LONGEST_ROUTE = 200


class Marks(NamedTuple):
    """Those headers."""

    thread: str | None = None
    """The thread, and the message in it that is to be answered."""
    answer: str | None = None
    variant: str | None = None
    key: str | None = None


NONE = Marks()


def read(headers: Head) -> Marks:
    """What they say. Most calls have none, and pay for one look."""
    if headers.raw.keys().isdisjoint(_NAMES):
        return NONE
    marks = Marks(*(headers.get(name) for name in (_THREAD, _ANSWER, _VARIANT, _KEY)))
    if (marks.thread is None) != (marks.answer is None):
        raise ConflictingFields(f"{_THREAD} and {_ANSWER} belong together: the thread, and the message to answer.")
    if marks.key is not None and not _PRINTABLE.fullmatch(marks.key):
        raise InvalidValue("An Idempotency-Key is 1 to 128 printable ASCII characters.")
    return marks


def once(
    marks: Marks, caller: Caller, place: str, said: tuple[bytes, bytes], now: datetime
) -> IdempotentRequest | None:
    """What is to be done once, if they say so; `place` is method and path, `said` the query and the body."""
    if marks.key is None:
        return None
    digest = hashlib.sha256()
    others = (marks.thread, marks.answer, marks.variant)
    for piece in (*said, *((mark or "").encode() for mark in others)) if any(others) else said:
        digest.update(len(piece).to_bytes(8))
        digest.update(piece)
    return IdempotentRequest(
        project=caller.project,
        owner=caller.key or "",
        route=place[:_LONGEST_ROUTE],
        key=marks.key,
        digest=digest.digest(),
        at=now,
    )
