"""Loading targets: a file, a folder, a module, or a name in one of them."""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from palaver.discovery import workflow_loader
from palaver.discovery.registry import Registry
from palaver.discovery.workflow_loader import installed_workflows, load, load_evaluators, load_installed, load_one
from palaver.errors import (
    ChatWithoutMessages,
    DuplicateName,
    LoadFailed,
    NotAWorkflow,
    NothingFound,
    PalaverError,
    TargetNotFound,
)
from palaver.workflows.decorators import TakesMessages

TUTOR = """
from palaver import chat

@chat
def tutor(messages):
    return "Hi"
"""
TWO_WORKFLOWS = f"""{TUTOR}
from palaver import workflow

@workflow
def headline(text: str):
    return text

_private = headline
number = 7
"""

Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def _restore_modules_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "app", raising=False)  # Some other test's file may have that name, too.
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file below the working folder."""

    def write(name: str, source: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        return path

    return write


def workflow_names(*targets: str) -> list[str]:
    return [workflow.description.name for workflow in load(targets)]


# Loading


def test_a_file_gives_all_its_workflows(write: Write) -> None:
    write("app.py", TWO_WORKFLOWS)

    assert workflow_names("app.py") == ["tutor", "headline"]
    assert [workflow.place for workflow in load_one("app.py")] == ["app.py:4", "app.py:10"]


def test_a_target_may_name_one_workflow_of_a_file(write: Write) -> None:
    path = write("flows/app.py", TWO_WORKFLOWS)

    assert workflow_names("flows/app.py:headline") == ["headline"]
    assert workflow_names(f"{path}:tutor") == ["tutor"]


def test_a_module_gives_all_or_one_of_its_workflows(write: Write) -> None:
    write("pkg/__init__.py", "")
    write("pkg/flows.py", TWO_WORKFLOWS)

    assert workflow_names("pkg.flows") == ["tutor", "headline"]
    assert workflow_names("pkg.flows:tutor") == ["tutor"]


def test_a_folder_gives_the_workflows_of_its_files_in_order_of_file_names(write: Write) -> None:
    write("flows/b.py", TUTOR.replace("tutor", "second"))
    write("flows/a.py", TUTOR.replace("tutor", "first"))
    write("flows/_hidden.py", "raise RuntimeError")
    write("flows/helpers.py", "x = 1")
    write("flows/deeper/c.py", "raise RuntimeError")

    assert workflow_names("flows") == workflow_names("flows/") == ["first", "second"]


def test_several_targets_give_each_workflow_once(write: Write) -> None:
    write("app.py", TWO_WORKFLOWS)
    write("other.py", TUTOR.replace("tutor", "other"))

    assert workflow_names("app.py", "app:tutor", "other.py", "./app.py") == ["tutor", "headline", "other"]


def test_a_workflow_with_two_names_is_loaded_once(write: Write) -> None:
    write("app.py", TUTOR + "again = tutor\n")

    assert len(load_one("app.py")) == 1


def test_a_file_also_gives_the_workflows_that_it_imports(write: Write) -> None:
    write("flows/app.py", "from tutors import tutor")
    write("flows/tutors.py", TUTOR)

    assert workflow_names("flows/app.py") == ["tutor"]
    assert workflow_names("flows") == ["tutor"]


def test_files_of_a_folder_that_import_each_other_are_loaded_once(write: Write) -> None:
    write("flows/a.py", f"{TUTOR}\nimport b\n")
    write("flows/b.py", "from a import tutor")

    assert len(Registry(load(["flows"]))) == 1


def test_files_of_a_package_may_import_relatively(write: Write) -> None:
    write("flows/__init__.py", "from .b import second")
    write("flows/a.py", f"{TUTOR.replace('tutor', 'first')}\nfrom .tools.words import HELLO")
    write("flows/b.py", TUTOR.replace("tutor", "second"))
    write("flows/tools/__init__.py", "")
    write("flows/tools/words.py", "from ..b import second\nHELLO = 'Hi'")

    assert workflow_names("flows/a.py") == ["first"]
    assert workflow_names("flows/tools/words.py:second") == ["second"]
    assert workflow_names("flows") == ["second", "first"]
    assert workflow_names("flows/__init__.py") == ["second"]


def test_two_files_with_the_same_name_are_loaded_separately(write: Write) -> None:
    write("one/app.py", TUTOR.replace("tutor", "first"))
    write("two/app.py", TUTOR.replace("tutor", "second"))

    assert workflow_names("one/app.py", "two/app.py") == ["first", "second"]
    assert load_one("two/app.py") == load_one("two/app.py")
    assert load_one("one/app.py") == load_one("one/app.py")


def test_a_file_may_have_the_name_of_a_standard_library_module(write: Write) -> None:
    write("calendar.py", TUTOR)

    assert workflow_names("calendar.py") == ["tutor"]
    assert "tutor" not in vars(sys.modules.get("calendar", ModuleType("calendar")))


def test_loading_ignores_objects_that_fake_or_reject_attributes(write: Write) -> None:
    source = """
from unittest.mock import MagicMock, call

class Proxy:
    def __getattr__(self, name):
        raise RuntimeError("nobody asked for this")

proxy, mock = Proxy(), MagicMock()
"""
    write("app.py", TUTOR + source)

    assert workflow_names("app.py") == ["tutor"]


def test_two_workflows_with_the_same_name_are_rejected_with_both_locations(write: Write) -> None:
    write("one.py", TUTOR)
    write("two.py", "\n\n" + TUTOR)

    with pytest.raises(DuplicateName) as refused:
        Registry(load(["one.py", "two.py"]))

    assert refused.value.message == "Duplicate workflow name 'tutor': one.py:4 and two.py:6."


def test_a_workflow_that_takes_messages_gets_a_hint(write: Write) -> None:
    write("app.py", "from palaver import workflow\n\n@workflow\ndef f(messages): ...\n")

    with pytest.warns(TakesMessages, match="f takes messages; declare it with @chat to make it a chat"):
        assert workflow_names("app.py") == ["f"]


# Errors


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("nothing.py", TargetNotFound, "File 'nothing.py' not found."),
        ("nothing.py:tutor", TargetNotFound, "File 'nothing.py' not found."),
        ("nothing", TargetNotFound, "File, folder or module 'nothing' not found."),
        ("nothing/at/all", TargetNotFound, "File, folder or module 'nothing/at/all' not found."),
        ("nothing.at.all:x", TargetNotFound, "File, folder or module 'nothing.at.all:x' not found."),
        ("pkg.nothing", TargetNotFound, "File, folder or module 'pkg.nothing' not found."),
        ("pkg.nothing.below", TargetNotFound, "File, folder or module 'pkg.nothing.below' not found."),
        (
            "two.py:nobody",
            TargetNotFound,
            "Workflow 'nobody' not found in two.py. Available: tutor, headline, _private.",
        ),
        ("two:nobody", TargetNotFound, "Workflow 'nobody' not found in two. Available: tutor, headline, _private."),
        ("two:number", NotAWorkflow, "two:number is not a workflow (int). Decorate it with @chat or @workflow."),
        ("pkg", NothingFound, "No workflow found in pkg. Decorate a function with @chat or @workflow."),
    ],
)
def test_a_target_that_gives_no_workflow_is_a_one_line_error(
    target: str, error: type[PalaverError], message: str, write: Write
) -> None:
    write("two.py", TWO_WORKFLOWS)
    write("pkg/__init__.py", "")

    with pytest.raises(error) as refused:
        load_one(target)

    assert refused.value.message == message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1\ny = x[\n", "SyntaxError: '[' was never closed (app.py, line 2)"),
        ("x = 1\nraise ValueError('first\\nsecond')", "ValueError: first\\nsecond (app.py, line 2)"),
        ("import os\nos.environ['NO_SUCH']", "KeyError: 'NO_SUCH' (app.py, line 2)"),
        ("assert False", "AssertionError (app.py, line 1)"),
        ("import helpers", "ZeroDivisionError: division by zero (helpers.py, line 2)"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module' (app.py, line 1)"),
        ("import sys\nsys.exit(3)", "it calls sys.exit(3)."),
        ("raise SystemExit('bye')", "it calls sys.exit('bye')."),
        ("raise GeneratorExit", "GeneratorExit (app.py, line 1)"),
        (f"raise ValueError({'x' * 300!r})", f"ValueError: {'x' * 187}… (app.py, line 1)"),
    ],
    ids=[
        "syntax",
        "two lines",
        "a key",
        "no words",
        "elsewhere",
        "an import",
        "exit",
        "exit with words",
        "odd",
        "long",
    ],
)
def test_a_module_that_fails_to_load_is_a_one_line_error_and_can_be_reloaded(
    source: str, reason: str, write: Write
) -> None:
    write("helpers.py", "x = 0\ny = 1 / x\n")
    write("app.py", source)

    for target, subject in (("app.py", "app.py"), ("app:tutor", "app:tutor")):
        with pytest.raises(LoadFailed) as failed:
            load_one(target)
        assert failed.value.message == f"Cannot load {subject}: {reason}"
    write("app.py", f"{TUTOR}\nmended = True\n")
    assert workflow_names("app.py") == ["tutor"]


def test_an_invalid_declaration_raises_its_own_error(write: Write) -> None:
    write("app.py", "from palaver import chat\n\n@chat\ndef f(): ...\n")

    for target in ("app.py", "app"):
        with pytest.raises(ChatWithoutMessages):
            load_one(target)


def test_a_keyboard_interrupt_while_loading_is_raised(write: Write) -> None:
    write("app.py", "raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        load_one("app.py")
    assert "app" not in sys.modules


def test_a_file_of_a_package_whose_name_is_taken_is_rejected(write: Write, tmp_path: Path) -> None:
    write("one/flows/__init__.py", "")
    write("one/flows/app.py", TUTOR)
    write("two/flows/__init__.py", "")
    write("two/flows/app.py", TUTOR)

    assert workflow_names("one/flows/app.py") == ["tutor"]
    with pytest.raises(LoadFailed) as failed:
        load_one("two/flows/app.py")
    assert failed.value.message == "Cannot load app.py: another module is named 'flows.app'."


# Installed packages


def test_the_demo_workflows_are_installed() -> None:
    assert (
        installed_workflows().items() >= {"eliza": "palaver.demo.eliza:eliza", "echo": "palaver.demo.echo:echo"}.items()
    )
    assert load_installed("eliza").description.is_chat


def test_the_error_for_an_unknown_name_lists_the_installed_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(**_: Any) -> list[EntryPoint]:
        return [EntryPoint("b", "m:b", "g"), EntryPoint("a", "m:a", "g")]

    monkeypatch.setattr(workflow_loader, "entry_points", offered)
    with pytest.raises(TargetNotFound, match=r"Workflow 'nobody' not found\. Installed: a, b\."):
        load_installed("nobody")


def test_an_installed_module_without_workflows_is_an_error(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(**_: Any) -> list[EntryPoint]:
        return [EntryPoint("empty", "empty", "g")]

    write("empty.py", "")
    monkeypatch.setattr(workflow_loader, "entry_points", offered)
    with pytest.raises(NothingFound):
        load_installed("empty")


# Evaluators

EVALUATORS = """
from palaver import Case, evaluator

@evaluator
def polite(case: Case) -> bool:
    return True

@evaluator(key="team.rude")
async def rude(case: Case) -> bool:
    return False

_hidden = polite
"""


def test_evaluators_are_loaded_separately_from_the_workflows_of_a_file(write: Write) -> None:
    path = write("app.py", TWO_WORKFLOWS + EVALUATORS)

    assert [one.key for one in load_evaluators([str(path)])] == ["polite", "team.rude"]
    assert [one.key for one in load_evaluators(["app.py:tutor", "app"])] == ["polite", "team.rude"]
    assert [workflow.description.name for workflow in load([str(path)])] == ["tutor", "headline"]


def test_a_folder_gives_the_evaluators_of_all_its_files(write: Write) -> None:
    write("flows/app.py", TUTOR)
    write("flows/scores.py", EVALUATORS)

    assert [one.key for one in load_evaluators(["flows"])] == ["polite", "team.rude"]
    assert [workflow.description.name for workflow in load_one("flows")] == ["tutor"]


def test_a_target_with_only_evaluators_declares_no_workflow(write: Write) -> None:
    write("scores.py", EVALUATORS)

    with pytest.raises(NothingFound, match=r"No workflow found in scores.py"):
        load_one("scores.py")
    with pytest.raises(NotAWorkflow, match=r"scores.py:polite is not a workflow \(Evaluator\)"):
        load_one("scores.py:polite")


def test_a_target_may_have_no_evaluators(write: Write) -> None:
    write("app.py", TUTOR)

    assert load_evaluators(["app.py"]) == []
    assert load_evaluators([]) == []


def test_a_registry_has_the_evaluators_of_its_targets(write: Write) -> None:
    write("app.py", TUTOR + EVALUATORS)

    registry = Registry(load(["app.py"]), evaluators=load_evaluators(["app.py"]))

    assert [one.key for one in registry.evaluators] == ["polite", "team.rude"]
    assert registry.names() == ["tutor"]
    assert Registry().evaluators == ()
