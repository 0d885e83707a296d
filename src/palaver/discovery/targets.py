"""Targets: "module:name", "module", a file or a folder, as written on the command line -> workflows.

The author's own code is loaded and trusted; what comes over HTTP never reaches this module.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from palaver.errors import LoadFailed, NothingFound, NotAWorkflow, PalaverError, TargetNotFound
from palaver.workflows.workflow import Workflow

ENTRY_POINTS = "palaver.workflows"


def load(targets: Iterable[str]) -> list[Workflow]:
    """The workflows of all targets, each once, in the order found."""
    found: dict[int, Workflow] = {}
    for target in targets:
        for workflow in load_one(target):
            found.setdefault(id(workflow), workflow)
    return list(found.values())


def load_one(target: str) -> list[Workflow]:
    """The workflows of one target; NothingFound when it declares none."""
    place, _, name = target.partition(":")
    path = Path(place)
    if path.is_dir():
        modules = [_load_file(file) for file in sorted(path.glob("*.py")) if not file.name.startswith("_")]
    elif path.suffix == ".py":
        if not path.is_file():
            raise TargetNotFound(f"There is no file {place}.")
        modules = [_load_file(path)]
    else:
        modules = [_load_module(place)]
    if name:
        return [_named(modules, name, target)]
    workflows = [workflow for module in modules for workflow in _in_module(module)]
    if not workflows:
        raise NothingFound(f"{target} declares no workflow: decorate a function with @chat or @workflow.")
    return workflows


def installed() -> dict[str, str]:
    """Names of the workflows that installed packages offer, and where each stands."""
    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def load_installed(name: str) -> Workflow:
    """A workflow that an installed package offers under that name."""
    known = installed()
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise TargetNotFound(f"There is no workflow {name!r} here. Installed ones: {names}.")
    return load_one(known[name])[0]


def _named(modules: Iterable[ModuleType], name: str, target: str) -> Workflow:
    """The workflow that a module has under that name, or declares under it."""
    for module in modules:
        found = getattr(module, name, None)
        if isinstance(found, Workflow):
            return found
        for workflow in _in_module(module):
            if workflow.description.name == name:
                return workflow
        if found is not None:
            raise NotAWorkflow(f"{target} is a {type(found).__name__}: decorate it with @chat or @workflow.")
    raise TargetNotFound(f"{target.partition(':')[0]} has no {name!r}.")


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetNotFound(f"There is no file, folder or module {name}.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return _import(name, name)


def _import(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name.partition(".")[0] or error.name == name:
            raise TargetNotFound(f"There is no file, folder or module {target}.") from None
        raise _failed(target, error) from error
    except PalaverError:
        raise
    except Exception as error:
        raise _failed(target, error) from error


def _load_file(path: Path) -> ModuleType:
    """The module of a file, imported once; its folder is where its own imports are looked for."""
    path = path.resolve()
    # A name of its own, so that two files called app.py do not meet; stable, so that a second load is the same module.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadFailed(f"{path.name} cannot be loaded as Python.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, PalaverError) or not isinstance(error, Exception):
            raise
        raise _failed(path.name, error) from error
    return module


def _failed(target: str, error: Exception) -> LoadFailed:
    return LoadFailed(f"{target} could not be loaded: {type(error).__name__}: {error}")


def _in_module(module: ModuleType) -> list[Workflow]:
    found = (value for name, value in vars(module).items() if not name.startswith("_"))
    return [value for value in found if isinstance(value, Workflow) and not isinstance(value, type)]
