"""The registry of evaluators: built-in, of the served project, of installed packages."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from palaver import Case, evaluator
from palaver.discovery import workflow_loader
from palaver.errors import DuplicateName, InvalidValue
from palaver.evaluation.evaluators import KEYS, built_in
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.score import ScoringError


@evaluator(key="team.polite")
def polite(case: Case) -> bool:
    return "please" in case.text


@evaluator(key="team.polite")
def ruder(case: Case) -> bool:
    return False


@evaluator(key="contains")
def contains(case: Case) -> bool:
    return True


def offered(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Register these as entry points of installed packages."""
    entries = [EntryPoint(name, value, workflow_loader.EVALUATOR_ENTRY_POINTS) for name, value in values.items()]
    entries.append(EntryPoint("tutor", f"{__name__}:tutor", workflow_loader.ENTRY_POINTS))
    monkeypatch.setattr(workflow_loader, "entry_points", lambda group: [one for one in entries if one.group == group])


def test_evaluators_are_found_by_key_and_declared_ones_also_by_module_and_name() -> None:
    registry = EvaluatorRegistry([polite])

    assert registry.find("contains") is built_in()["contains"]
    assert registry.find("team.polite") is polite
    assert registry.find(f"{__name__}:polite") is polite
    assert registry.get("polite") is None
    assert registry.get("elsewhere:polite") is None
    assert "team.polite" in registry
    assert "nobody" not in registry
    assert registry.declared() == [polite]
    assert [one.key for one in registry] == [*KEYS, "team.polite"]


def test_an_unknown_key_is_rejected_with_the_known_keys() -> None:
    with pytest.raises(InvalidValue) as refused:
        EvaluatorRegistry([polite]).find("nobody")

    assert refused.value.message == f"Unknown evaluator 'nobody'. Available: {', '.join(KEYS)}, team.polite."


def test_duplicate_keys_are_rejected_with_both_locations() -> None:
    with pytest.raises(DuplicateName, match=r"Duplicate evaluator key 'team.polite': .*test_registry.py:\d+ and "):
        EvaluatorRegistry([polite, ruder])
    with pytest.raises(DuplicateName, match="Duplicate evaluator key 'contains': "):
        EvaluatorRegistry([contains])


def test_repeated_and_imported_built_in_evaluators_are_not_duplicates() -> None:
    assert EvaluatorRegistry([polite, polite, built_in()["contains"]]).declared() == [polite]


def test_installed_packages_provide_evaluators(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, polite=f"{__name__}:polite", contains=f"{__name__}:contains")
    registry = EvaluatorRegistry()

    assert registry.find("team.polite") is polite
    assert registry.find("contains") is built_in()["contains"]
    assert registry.declared() == []  # They are listed only if a workflow of their package is served.
    assert EvaluatorRegistry(served=lambda: ["tutor"]).declared() == [polite]
    assert EvaluatorRegistry([ruder]).find("team.polite") is ruder


def test_an_installed_evaluator_that_cannot_be_loaded_is_logged_and_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offered(monkeypatch, gone="no_such_module_here:x", odd=f"{__name__}:offered", polite=f"{__name__}:polite")

    assert EvaluatorRegistry(served=lambda: ["tutor"]).declared() == [polite]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "Skipping the evaluator gone of an installed package",
        "Skipping the entry point odd of an installed package",
    ]


async def test_the_offline_context_reports_network_functions_as_not_available() -> None:
    context: Any = OfflineContext(EvaluatorRegistry([polite]))

    assert context.evaluator("team.polite") is polite
    assert OfflineContext([polite]).evaluator("team.polite") is polite
    for request in (
        context.judge("model", "prompt", schema={}),
        context.post("https://example.org", {}),
        context.embed(["x"], model="m"),
    ):
        with pytest.raises(ScoringError, match="not_available: "):
            await request
