"""Which redaction rules apply before something is stored.

Server-wide rules are in palaver.toml, rules of a workflow in `@chat(redact=[…])`; both are parsed at start. Rules
that hash use a key per project, derived from one in the database, so that all processes compute the same hash.
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
    from palaver.traces.redaction.redactor import ProjectRedactors, RedactionConfig, RunRedactor

_HASH_KEY_NAME = "redaction"


class RedactionPolicy:
    """The redactors of a server. Thread-safe."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._prices = settings.prices
        self._rules: Sequence[Rule] = _parse_rules(settings.redact)
        self._workflow_rules: Mapping[str, Sequence[Rule]] = {
            workflow.description.name: _parse_rules(workflow.options.redact, workflow.description.name)
            for workflow in registry
            if workflow.options.redact
        }
        self._hash_key = b""
        self._server_redactors: ProjectRedactors | None = None
        self._redactors: dict[tuple[str, str, RuleScope], Redactor] = {}

    async def load_hash_key(self, database: Database, now: Callable[[], datetime]) -> None:
        """Load the hash key, if a rule needs it."""
        rules = [rule for rules in (self._rules, *self._workflow_rules.values()) for rule in rules]
        if any(rule.action == "hash" for rule in rules):
            from palaver.storage import api_keys

            self._hash_key = await database.write(api_keys.get_or_create_secret, _HASH_KEY_NAME, now())
            self._server_redactors = None
            self._redactors.clear()

    def preload(self) -> None:
        """Import the redaction modules, so that the first run does not wait for them."""
        self.server_redactors.for_project("")

    # Traces

    def redact_span(self, span: "Span") -> "Span":
        """Redact a span by the server-wide rules, and add its cost."""
        return self.server_redactors.redact(span)

    @property
    def server_redactors(self) -> "ProjectRedactors":
        if self._server_redactors is None:
            from palaver.traces.redaction.redactor import ProjectRedactors

            self._server_redactors = ProjectRedactors(self.server_config())
        return self._server_redactors

    def server_config(self) -> "RedactionConfig":
        from palaver.traces.redaction.redactor import RedactionConfig

        return RedactionConfig(rules=self._rules, prices=self._prices, key=self._hash_key)

    def workflow_span_redactor(self, project: str, workflow: str) -> "Callable[[Span], Span] | None":
        """Return the function that applies a workflow's own rules to spans, if it has any."""
        rules = self._workflow_rules.get(workflow)
        if rules is None or not any("traces" in rule.scope for rule in rules):
            return None
        return lambda span: self._redactor(project, workflow, "traces", rules).redact_span(span)

    # Runs, conversations and test sets

    @property
    def redacts_runs(self) -> bool:
        """Whether any rule applies to runs."""
        return any("runs" in rule.scope for rules in (self._rules, *self._workflow_rules.values()) for rule in rules)

    def run_redactor(self, project: str, workflow: str | None) -> "RunRedactor | None":
        """Return the redactor for a run, if any rule applies."""
        return self._run_redactor(project, workflow, "runs")

    def messages(self, project: str, workflow: str | None, messages: Sequence[Message]) -> Sequence[Message]:
        redactor = self.run_redactor(project, workflow)
        return messages if redactor is None else redactor.redact_messages(messages)

    def inputs(self, project: str, workflow: str | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        redactor = self.run_redactor(project, workflow)
        return inputs if redactor is None else redactor.redact_mapping(inputs)

    def call(self, project: str, workflow: str, call: Call, reading: Any) -> tuple[Call, Any]:
        redactor = self.run_redactor(project, workflow)
        return (call, reading) if redactor is None else (redactor.redact_call(call), redactor.redact_value(reading))

    def case_redactor(self, project: str, workflow: str | None) -> "RunRedactor | None":
        """Return the redactor for test cases created from traces, if any rule applies."""
        return self._run_redactor(project, workflow, "testsets")

    def _run_redactor(self, project: str, workflow: str | None, scope: "RuleScope") -> "RunRedactor | None":
        rules = [*self._workflow_rules.get(workflow or "", ()), *self._rules]
        if not any(scope in rule.scope for rule in rules):
            return None
        from palaver.traces.redaction.redactor import RunRedactor

        rules_owner = "" if workflow not in self._workflow_rules else workflow or ""
        return RunRedactor(self._redactor(project, rules_owner, scope, rules))

    def _redactor(self, project: str, workflow: str, scope: "RuleScope", rules: "Sequence[Rule]") -> "Redactor":
        key = (project if self._hash_key else "", workflow, scope)  # Only hashes depend on the project.
        redactor = self._redactors.get(key)
        if redactor is None:
            from palaver.traces.redaction import Redactor
            from palaver.traces.redaction.redactor import project_key, usable_rules

            redactor = self._redactors[key] = Redactor(
                usable_rules(rules, self._hash_key), project_key(project, self._hash_key), scope
            )
        return redactor


def _parse_rules(tables: Sequence[Mapping[str, object]], workflow: str | None = None) -> "Sequence[Rule]":
    if not tables:
        return ()
    from palaver.traces.redaction import parse_rules

    try:
        return parse_rules(tables)
    except SettingsError as error:
        if workflow is None:
            raise
        raise SettingsError(f"Workflow {workflow!r}: {error.message.replace('[[redact]]', 'redact', 1)}") from None
