"""What rules have in common: a job to judge, what they say about it, and what a rule is."""

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import Literal

import msgspec

from palaver_jobchat import javascript
from palaver_jobchat.adaptors.entries import AdaptorDocs, Entry
from palaver_jobchat.javascript import Node, Program
from palaver_jobchat.rules.operations import Operations, StateFunction, find_operations
from palaver_jobchat.rules.scopes import Scopes

MAX_FINDINGS = 20
"""Findings of one rule that are told: nobody reads more."""
MAX_DEPTH = 250
"""Code nested deeper was not written by hand; judging it could take long."""

_COMMA = re.compile(r",(?![^<]*>)")  # None of a type's own, as in `Map<string, any>`.
_CALLBACK = re.compile(r"\s*callback\b")

Level = Literal["error", "warning", "note"]


class Finding(msgspec.Struct, frozen=True):
    """What a rule found in a job."""

    rule: str
    level: Level
    """An error will not run, or not as it reads; a warning may be meant; a note is worth knowing."""
    line: int
    message: str


class Remark(msgspec.Struct, frozen=True):
    """What a rule says: a finding, but for the rule's name."""

    level: Level
    line: int
    message: str


class Job:
    """A job as rules see it: read once for all of them."""

    def __init__(self, code: str, docs: AdaptorDocs | None = None) -> None:
        self.program: Program = javascript.parse_program(code)
        self.docs = docs if docs is not None and docs.state == "exact" else None
        """Only if they describe the very version that the job uses."""

    @property
    def root(self) -> Node:
        """All of the code."""
        return self.program.root

    @property
    def is_too_deep(self) -> bool:
        """Whether it is nested deeper than rules look."""
        return self.program.depth > MAX_DEPTH

    @cached_property
    def scopes(self) -> Scopes:
        """Which names are declared where."""
        return Scopes(self.root)

    @cached_property
    def operations(self) -> Operations:
        """The operations, and the functions that follow them."""
        return find_operations(self.root, self.scopes)

    @cached_property
    def steps(self) -> tuple[StateFunction, ...]:
        """The functions that take the state and have to give it back."""
        entries = self.docs.entries if self.docs is not None else ()
        callbacks = {entry.name: place for entry in entries if (place := _callback_index(entry)) is not None}
        return self.operations.steps(callbacks)


def _callback_index(entry: Entry) -> int | None:
    """Which parameter of a function is its callback; that of `map` gets an item, not the state."""
    inside = entry.signature.partition("(")[2]
    parameters = _COMMA.split(inside)
    if entry.kind != "function" or entry.name == "map":
        return None
    return next((place for place, text in enumerate(parameters) if _CALLBACK.match(text)), None)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that good jobs do, or do not."""

    id: str
    description: str
    """What the rule asks for, as a sentence."""
    check: Callable[[Job], Iterator[Remark]]
    accepts_invalid_code: bool = False
    """Whether it judges code, too, that is not JavaScript, or nested too deeply: the others would see ghosts there."""

    def findings(self, job: Job) -> tuple[Finding, ...]:
        """What the rule finds in a job, in no more than a screenful."""
        if not self.accepts_invalid_code and (not job.program.syntax.ok or job.is_too_deep):
            return ()
        remarks = islice(_without_duplicates(self.check(job)), MAX_FINDINGS)
        return tuple(Finding(self.id, remark.level, remark.line, remark.message) for remark in remarks)


def _without_duplicates(remarks: Iterator[Remark]) -> Iterator[Remark]:
    """What is said, but nothing twice about one line."""
    told: set[Remark] = set()
    for remark in remarks:
        if remark not in told:
            told.add(remark)
            yield remark
