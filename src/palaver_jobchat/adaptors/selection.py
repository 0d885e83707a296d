"""Which entries of an adaptor's docs a model is shown in full, when not all of them fit.

The list of signatures is never cut, so that the model knows all there is; the rest of the room goes to what the job
calls, what question or log name, what answers the question best, and then to the first in the file.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from palaver_jobchat.adaptors.signatures import Entry
from palaver_jobchat.bm25 import bm25_scores, content_terms

MAX_CHARACTERS = 40_000
_BETWEEN = "\n\n"

_CALLED = re.compile(r"(?<![\w$.])([A-Za-z_$][\w$]*)\s*\(")
_NAMED = re.compile(r"[A-Za-z_$][\w$]*")


class Selection(msgspec.Struct, frozen=True):
    """What is shown of an adaptor's docs."""

    signatures: str
    """One line for each function and type. Empty where everything is shown in full: it is all there."""
    full: tuple[Entry, ...]
    is_whole: bool
    """Whether all entries are shown in full. Then nothing depends on the question, and the text can be cached."""

    @property
    def text(self) -> str:
        """The entries shown in full."""
        return _BETWEEN.join(entry.text for entry in self.full)


def select_entries(
    entries: Sequence[Entry], *, code: str = "", question: str = "", log: str = "", budget: int = MAX_CHARACTERS
) -> Selection:
    """The whole docs if they fit into so many characters, else all signatures and the entries that matter most."""
    if sum(len(entry.text) + len(_BETWEEN) for entry in entries) <= budget + len(_BETWEEN):
        return Selection("", tuple(entries), is_whole=True)
    signatures = "\n".join(entry.signature for entry in entries)
    room = budget - len(signatures)
    full: list[Entry] = []
    for entry in dict.fromkeys(_by_weight(entries, code, question, log)):
        if len(entry.text) + len(_BETWEEN) <= room:
            full.append(entry)
            room -= len(entry.text) + len(_BETWEEN)
    return Selection(signatures, tuple(full), is_whole=False)


def _by_weight(entries: Sequence[Entry], code: str, question: str, log: str) -> Iterator[Entry]:
    """The entries, the most important first; one may come more than once."""
    known = {entry.name: entry for entry in entries}
    for pattern, text in ((_CALLED, code), (_NAMED, question), (_NAMED, log)):
        for name in pattern.findall(text):
            if name in known:
                yield known[name]
    marks = bm25_scores(content_terms(question), [entry.text for entry in entries])
    ranked = sorted(range(len(entries)), key=lambda place: -marks[place])  # Stable: the file's order among equals.
    yield from (entries[place] for place in ranked)
