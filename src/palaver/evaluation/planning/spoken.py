"""Which column of texts is what the user says, where a chat is asked and no column, or not every row, has messages.

The page shows the same before anything runs (web/src/pages/evaluations/column-mapping.tsx);
tests/evaluation/planning/mapping_cases.json holds both to it.
"""

from collections.abc import Collection, Mapping

WORDS = ("question", "input", "prompt", "query", "message", "user_message", "user_input", "text", "q", "user")
"""What such a column is usually called; the first that is there counts. `user` is last: it may be somebody's name."""
_ANSWERS = frozenset({"answer", "output", "response", "completion"})
"""What a column of answers is often called, beside the names of expected ones."""
_TOLD = frozenset({"chat", "message", "script"})
"""Where a column holds what was said in full, nobody guesses at another."""


def spoken(kinds: Mapping[str, str], *, taken: Collection[str | None], answers: Collection[str]) -> str | None:
    """The column with a usual name, else the only one of texts that is neither taken nor called as one of `answers`."""
    if not _TOLD.isdisjoint(kinds.values()):
        return None
    if (named := usually_spoken(kinds, taken=taken)) is not None:
        return named
    rest = [name for name in _texts(kinds, taken) if name.lower() not in _ANSWERS and name.lower() not in answers]
    return rest[0] if len(rest) == 1 else None


def usually_spoken(kinds: Mapping[str, str], *, taken: Collection[str | None]) -> str | None:
    """The column of texts with a usual name, and no other."""
    texts = _texts(kinds, taken)
    return next((name for word in WORDS for name in texts if name.lower() == word), None)


def _texts(kinds: Mapping[str, str], taken: Collection[str | None]) -> list[str]:
    return [name for name, kind in kinds.items() if kind == "text" and name not in taken]
