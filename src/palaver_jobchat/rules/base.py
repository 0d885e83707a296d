"""What rules share: the parsed job, findings, and the Rule type."""

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
"""Per rule."""
MAX_DEPTH = 250
"""Deeper code is not checked: that could take long, and it is not hand-written."""

_COMMA = re.compile(r",(?![^<]*>)")  # Not inside a type such as `Map<string, any>`.
_PARAMETER_NAME = re.compile(r"\s*([\w$]+)")

Level = Literal["error", "warning", "note"]


class Finding(msgspec.Struct, frozen=True):
    rule: str
    level: Level
    """An error fails or misbehaves; a warning may be intended; a note is information."""
    line: int
    message: str


class Remark(msgspec.Struct, frozen=True):
    """A finding without the rule's id."""

    level: Level
    line: int
    message: str


class Job:
    """A job's code, parsed once for all rules."""

    def __init__(self, code: str, docs: AdaptorDocs | None = None) -> None:
        self.program: Program = javascript.parse_program(code)
        self.docs = docs if docs is not None and docs.state == "exact" else None
        """Only docs of exactly the job's version."""

    @property
    def root(self) -> Node:
        return self.program.root

    @property
    def is_too_deep(self) -> bool:
        return self.program.depth > MAX_DEPTH

    @cached_property
    def scopes(self) -> Scopes:
        return Scopes(self.root)

    @cached_property
    def operations(self) -> Operations:
        return find_operations(self.root, self.scopes)

    @cached_property
    def steps(self) -> tuple[StateFunction, ...]:
        """The functions that take the state and must return it."""
        entries = self.docs.entries if self.docs is not None else ()
        callbacks = {entry.name: index for entry in entries if (index := _callback_index(entry)) is not None}
        return self.operations.steps(callbacks)


def parameter_names(entry: Entry) -> list[str]:
    """Return the names of a function's parameters, in order."""
    if entry.kind != "function":
        return []
    matches = (_PARAMETER_NAME.match(text) for text in _COMMA.split(entry.signature.partition("(")[2]))
    return [match[1] if match else "" for match in matches]


def _callback_index(entry: Entry) -> int | None:
    """Return the index of the callback parameter. The callback of `map` gets an item, not the state."""
    names = parameter_names(entry) if entry.name != "map" else []
    return names.index("callback") if "callback" in names else None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A check of jobs. Its description is that of its evaluator."""

    id: str
    check: Callable[[Job], Iterator[Remark]]
    accepts_invalid_code: bool = False
    """Whether it also checks code that does not parse or is nested too deeply."""

    def accepts(self, job: Job) -> bool:
        return self.accepts_invalid_code or (job.program.syntax.ok and not job.is_too_deep)

    def findings(self, job: Job) -> tuple[Finding, ...]:
        """Return up to MAX_FINDINGS findings."""
        if not self.accepts(job):
            return ()
        remarks = islice(_without_duplicates(self.check(job)), MAX_FINDINGS)
        return tuple(Finding(self.id, remark.level, remark.line, remark.message) for remark in remarks)


def rule(rule_id: str, *, accepts_invalid_code: bool = False) -> Callable[[Callable[[Job], Iterator[Remark]]], Rule]:
    """Make a rule of the function that checks it."""
    return lambda check: Rule(id=rule_id, check=check, accepts_invalid_code=accepts_invalid_code)


def _without_duplicates(remarks: Iterator[Remark]) -> Iterator[Remark]:
    seen: set[Remark] = set()
    for remark in remarks:
        if remark not in seen:
            seen.add(remark)
            yield remark
