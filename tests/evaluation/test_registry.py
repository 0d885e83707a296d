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
    """Let installed packages offer these."""
    entries = [EntryPoint(name, value, workflow_loader.EVALUATOR_ENTRY_POINTS) for name, value in values.items()]
    entries.append(EntryPoint("tutor", f"{__name__}:tutor", workflow_loader.ENTRY_POINTS))
    monkeypatch.setattr(workflow_loader, "entry_points", lambda group: [one for one in entries if one.group == group])


def test_one_is_found_by_its_key_and_an_authors_by_module_and_name_too() -> None:
    existing = EvaluatorRegistry([polite])

    assert existing.find("contains") is built_in()["contains"]
    assert existing.find("team.polite") is polite
    assert existing.find(f"{__name__}:polite") is polite
    assert existing.get("polite") is None
    assert existing.get("elsewhere:polite") is None
    assert "team.polite" in existing
    assert "nobody" not in existing
    assert existing.declared() == [polite]
    assert [one.key for one in existing] == [*KEYS, "team.polite"]


def test_one_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(InvalidValue) as refused:
        EvaluatorRegistry([polite]).find("nobody")

    assert refused.value.message == f"No evaluator 'nobody'. Known: {', '.join(KEYS)}, team.polite."


def test_two_of_one_key_are_refused_by_both_places() -> None:
    with pytest.raises(DuplicateName, match=r"Two evaluators have the key 'team.polite': .*test_registry.py:\d+ and "):
        EvaluatorRegistry([polite, ruder])
    with pytest.raises(DuplicateName, match="Two evaluators have the key 'contains': "):
        EvaluatorRegistry([contains])


def test_the_same_one_twice_and_a_built_in_that_a_module_imports_are_no_error() -> None:
    assert EvaluatorRegistry([polite, polite, built_in()["contains"]]).declared() == [polite]


def test_installed_packages_offer_evaluators(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, polite=f"{__name__}:polite", contains=f"{__name__}:contains")
    existing = EvaluatorRegistry()

    assert existing.find("team.polite") is polite
    assert existing.find("contains") is built_in()["contains"]
    assert existing.declared() == []  # They are shown where a workflow of their package is served.
    assert EvaluatorRegistry(served=lambda: ["tutor"]).declared() == [polite]
    assert EvaluatorRegistry([ruder]).find("team.polite") is ruder


def test_one_that_cannot_be_loaded_is_told_and_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offered(monkeypatch, gone="no_such_module_here:x", odd=f"{__name__}:offered", polite=f"{__name__}:polite")

    assert EvaluatorRegistry(served=lambda: ["tutor"]).declared() == [polite]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "The evaluator gone of an installed package is left out",
        "The evaluator odd of an installed package is left out",
    ]


async def test_out_of_reach_is_said_so() -> None:
    context: Any = OfflineContext(EvaluatorRegistry([polite]))

    assert context.evaluator("team.polite") is polite
    assert OfflineContext([polite]).evaluator("team.polite") is polite
    for requests in (
        context.judge("model", "prompt", schema={}),
        context.post("https://example.org", {}),
        context.embed(["x"], model="m"),
    ):
        with pytest.raises(ScoringError, match="not_available: "):
            await requests
