"""The registry of served workflows: lookup by name, the default, added and removed connections."""

import pytest

from palaver.discovery.registry import Registry
from palaver.errors import DuplicateName, WorkflowNotFound
from palaver.testing import echo, scripted
from palaver.workflows.decorators import workflow


@workflow(name="echo")
def other_echo() -> str:
    return "…"


def test_a_workflow_is_found_by_its_name() -> None:
    registry = Registry([scripted, echo])

    assert [*registry] == [scripted, echo]
    assert len(registry) == 2
    assert registry.workflow("echo") is echo
    assert registry.find("scripted") is scripted.description
    assert registry.descriptions() == [echo.description, scripted.description]


def test_the_only_workflow_is_the_default() -> None:
    registry = Registry([echo])

    assert registry.default == "echo"
    assert registry.workflow(None) is echo


def test_the_chosen_one_of_several_workflows_is_the_default() -> None:
    registry = Registry([scripted, echo], default="echo")

    assert registry.default == "echo"
    assert registry.find(None) is echo.description


def test_several_workflows_have_no_default_unless_one_is_chosen() -> None:
    registry = Registry([scripted, echo])

    assert registry.default is None
    with pytest.raises(WorkflowNotFound) as missing:
        registry.find(None)
    assert missing.value.message == ("No workflow specified and no default set. Available: echo, scripted.")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(WorkflowNotFound, match=r"Workflow 'nobody' not found\. Available: echo, scripted\."):
        Registry([scripted, echo]).workflow("nobody")


def test_a_default_that_is_not_served_is_rejected() -> None:
    with pytest.raises(WorkflowNotFound, match=r"Workflow 'nobody' not found\. Available: echo\."):
        Registry([echo], default="nobody")


def test_an_empty_registry_finds_nothing() -> None:
    registry = Registry()

    assert (len(registry), registry.default, registry.descriptions()) == (0, None, [])
    with pytest.raises(WorkflowNotFound):
        registry.workflow(None)


def test_the_same_workflow_given_twice_is_registered_once() -> None:
    assert len(Registry([echo, echo])) == 1


def test_two_workflows_with_the_same_name_are_rejected_with_both_locations() -> None:
    with pytest.raises(DuplicateName) as refused:
        Registry([echo, other_echo])

    assert refused.value.message == f"Duplicate workflow name 'echo': {echo.place} and {other_echo.place}."
    assert "test_registry.py:" in other_echo.place


# Adding and removing while serving


def test_an_added_workflow_is_served_and_does_not_change_the_default() -> None:
    registry = Registry([echo])

    registry.put(scripted)

    assert (registry.default, registry.names(), registry.workflow(None)) == ("echo", ["echo", "scripted"], echo)


def test_a_connection_is_the_default_only_if_it_is_chosen() -> None:
    assert Registry([echo], connections=[scripted]).default == "echo"
    assert Registry([echo], connections=[scripted], default="scripted").default == "scripted"
    assert Registry(connections=[scripted]).default is None


def test_connections_can_be_removed_and_loaded_workflows_cannot() -> None:
    registry = Registry([echo], connections=[scripted])
    iterator = iter(registry)

    registry.remove("scripted")
    registry.remove("echo")
    registry.remove("nobody")

    assert registry.names() == ["echo"]
    assert [*iterator] == [echo, scripted]  # An iteration that has started is not affected.
    with pytest.raises(WorkflowNotFound):
        registry.find("scripted")


def test_a_workflow_with_a_taken_name_cannot_be_added() -> None:
    registry = Registry([echo], connections=[scripted])

    for taken in (other_echo, scripted):
        with pytest.raises(DuplicateName, match="Duplicate workflow name"):
            registry.put(taken)
