"""What is removed before anything is stored: by the house's rules, and by those of a workflow's author.

The house's come from palaver.toml, an author's from `@chat(redact=[…])`. Both are read when the server is made, so that
one that is wrong is told at once. A rule that hashes uses a key of its project; it comes from one that is kept in the
database, so that all processes put the same in place of the same.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.discovery.registry import Registry
from palaver.errors import SettingsError
from palaver.server.settings import Settings
from palaver.storage.database import Database

if TYPE_CHECKING:
    from palaver.traces.model import Span
    from palaver.traces.redaction import Redactor, Rule, RuleScope
    from palaver.traces.redaction.redactor import ProjectRedactors, RedactionConfig
    from palaver.traces.redaction.run_redactor import RunRedactor

_HASH_KEY_NAME = "redaction"


class RedactionPolicy:
    """Redacts for one server. What it is asked for may be asked from any thread."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._prices = settings.prices
        self._rules: Sequence[Rule] = _parse_rules(settings.redact)
        self._authors: Mapping[str, Sequence[Rule]] = {
            one.description.name: _parse_rules(one.options.redact, one.description.name)
            for one in registry
            if one.options.redact
        }
        self._key = b""
        self._house: ProjectRedactors | None = None
        self._made: dict[tuple[str, str, RuleScope], Redactor] = {}

    async def begin(self, database: Database, now: Callable[[], datetime]) -> None:
        """Have the key, if any rule needs one."""
        rules = [rule for some in (self._rules, *self._authors.values()) for rule in some]
        if any(rule.action == "hash" for rule in rules):
            from palaver.storage import api_keys

            self._key = await database.write(api_keys.get_or_create_secret, _HASH_KEY_NAME, now())
            self._house = None
            self._made.clear()

    def warm(self) -> None:
        """Load what redacts."""
        self.house.of("")

    # Traces

    def span(self, span: "Span") -> "Span":
        """A record as it may be kept: with its cost, and without what the house's rules remove."""
        return self.house.span(span)

    @property
    def house(self) -> "ProjectRedactors":
        """What does so."""
        if self._house is None:
            from palaver.traces.redaction.redactor import ProjectRedactors

            self._house = ProjectRedactors(self.house_rules())
        return self._house

    def house_rules(self) -> "RedactionConfig":
        """By what it is done."""
        from palaver.traces.redaction.redactor import RedactionConfig

        return RedactionConfig(rules=self._rules, prices=self._prices, key=self._key)

    def by_author(self, project: str, workflow: str) -> "Callable[[Span], Span] | None":
        """What removes from a record what its workflow's author names; None where that is nothing."""
        rules = self._authors.get(workflow)
        if rules is None or not any("traces" in rule.scope for rule in rules):
            return None
        return lambda span: self._by_author(project, workflow).span(span)

    # Runs, and conversations

    @property
    def cleans(self) -> bool:
        """Is anything removed from what is kept of runs?"""
        return any("runs" in rule.scope for some in (self._rules, *self._authors.values()) for rule in some)

    def run(self, project: str, workflow: str | None) -> "RunRedactor | None":
        """What removes from one run what is not to be kept of it; None where that is nothing."""
        rules = [*self._authors.get(workflow or "", ()), *self._rules]
        if not any("runs" in rule.scope for rule in rules):
            return None
        from palaver.traces.redaction.run_redactor import RunRedactor

        author = "" if workflow not in self._authors else workflow or ""
        return RunRedactor(self._redactor(project, author, "runs", rules))

    def messages(self, project: str, workflow: str | None, messages: Sequence[Message]) -> Sequence[Message]:
        """Messages of a conversation, as they may be kept."""
        redactor = self.run(project, workflow)
        return messages if redactor is None else redactor.messages(messages)

    def inputs(self, project: str, workflow: str | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the runs of a conversation are given besides."""
        redactor = self.run(project, workflow)
        return inputs if redactor is None else redactor.inputs(inputs)

    def call(self, project: str, workflow: str, call: Call, reading: Any) -> tuple[Call, Any]:
        """What a run was asked, and the note of how to answer it."""
        redactor = self.run(project, workflow)
        return (call, reading) if redactor is None else (redactor.call(call), redactor.value(reading))

    # Test sets

    def case(self, project: str, workflow: str | None) -> "RunRedactor | None":
        """What removes from a case that is cut from what happened what is not to be kept in test sets."""
        rules = [*self._authors.get(workflow or "", ()), *self._rules]
        if not any("testsets" in rule.scope for rule in rules):
            return None
        from palaver.traces.redaction.run_redactor import RunRedactor

        author = "" if workflow not in self._authors else workflow or ""
        return RunRedactor(self._redactor(project, author, "testsets", rules))

    # Pieces

    def _by_author(self, project: str, workflow: str) -> "Redactor":
        return self._redactor(project, workflow, "traces", self._authors[workflow])

    def _redactor(self, project: str, workflow: str, scope: "RuleScope", rules: "Sequence[Rule]") -> "Redactor":
        known = (project if self._key else "", workflow, scope)  # Without a key, all projects are the same.
        found = self._made.get(known)
        if found is None:
            from palaver.traces.redaction import Redactor
            from palaver.traces.redaction.redactor import project_key, usable_rules

            found = self._made[known] = Redactor(usable_rules(rules, self._key), project_key(project, self._key), scope)
        return found


def _parse_rules(tables: Sequence[Mapping[str, object]], workflow: str | None = None) -> "Sequence[Rule]":
    if not tables:
        return ()
    from palaver.traces.redaction import parse_rules

    try:
        return parse_rules(tables)
    except SettingsError as error:
        if workflow is None:
            raise
        raise SettingsError(f"The workflow {workflow}: {error.message.replace('[[redact]]', 'redact', 1)}") from None
