"""What the house does to every record before it is kept: by its rules, its key and its prices.

They are data, so that a process that makes records ready beside a server does just what the server would.
"""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from palaver.traces.prices import Price, priced
from palaver.traces.record import Span
from palaver.traces.redaction.records import Redactor
from palaver.traces.redaction.rules import Rule


class HouseRules(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    rules: Sequence[Rule] = ()
    prices: Mapping[str, Price] = {}
    key: bytes = b""
    """Whence each project has its own, for rules that hash; empty where none does."""


class House:
    """Does it. May be asked from any thread."""

    def __init__(self, rules: HouseRules) -> None:
        self._rules = rules
        self._made: dict[str, Redactor] = {}

    def span(self, span: Span) -> Span:
        """A record as it may be kept: with its cost, and without what the rules remove."""
        return self.of(span.project).span(priced(span, self._rules.prices))

    def of(self, project: str) -> Redactor:
        """What removes from a project's records."""
        key = self._rules.key
        project = project if key else ""  # Without one, all are the same.
        found = self._made.get(project)
        if found is None:
            found = self._made[project] = Redactor(usable(self._rules.rules, key), key_of(project, key))
        return found


def key_of(project: str, key: bytes) -> bytes:
    """A project's own key."""
    return hashlib.blake2b(project.encode(), key=key, digest_size=32).digest() if key else b""


def usable(rules: Sequence[Rule], key: bytes) -> Sequence[Rule]:
    """Without a key, a rule that hashes masks."""
    if key:
        return rules
    return [msgspec.structs.replace(rule, action="mask") if rule.action == "hash" else rule for rule in rules]
