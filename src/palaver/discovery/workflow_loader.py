"""Load workflows and evaluators from targets: "module:name", "module", a file or a folder.

The author's own code is loaded and trusted; nothing from HTTP reaches this module.
"""

import hashlib
import importlib
import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeGuard, TypeVar

from palaver.errors import LoadFailed, NotAWorkflow, NothingFound, PalaverError, TargetNotFound
from palaver.outbound import printable
from palaver.workflows.workflow import Workflow

ENTRY_POINTS = "palaver.workflows"
EVALUATOR_ENTRY_POINTS = "palaver.evaluators"
_WORKFLOW_ATTRIBUTES = ("description", "options", "place", "bind")
_EVALUATOR_ATTRIBUTES = ("key", "needs", "schema", "place", "bind")
_T = TypeVar("_T")

log = logging.getLogger("palaver.discovery")


class DeclaredEvaluator(Protocol):
    """The interface of an evaluator that is needed here."""

    @property
    def key(self) -> str: ...

    @property
    def place(self) -> str:
        """Its file and line."""
        ...


is_loading_targets: ContextVar[bool] = ContextVar("is_loading_targets", default=False)
"""Whether targets are loaded that are served together: one `connect` that fails must not keep the others away."""


def load(targets: Iterable[str]) -> list[Workflow]:
    """Load the workflows of all targets, without duplicates.

    A service in them that cannot be called becomes a workflow that is unavailable.
    """
    token = is_loading_targets.set(True)
    try:
        return _unique(workflow for target in targets for workflow in load_one(target))
    finally:
        is_loading_targets.reset(token)


def load_one(target: str) -> list[Workflow]:
    """Load the workflows of one target. Raises NothingFound."""
    modules, name = _load_modules(target)
    if name:
        return [_named_workflow(modules[0], name, target)]
    workflows = _unique(filter(_is_workflow, _public_values(modules)))
    if not workflows:
        raise NothingFound(f"No workflow found in {target}. Decorate a function with @chat or @workflow.")
    return workflows


def load_modules_of(target: str) -> list[Workflow]:
    """Load all workflows in the modules of a target, also if it names one of them."""
    return _unique(filter(_is_workflow, _public_values(_load_modules(target)[0])))


def load_evaluators(targets: Iterable[str]) -> list[DeclaredEvaluator]:
    """Load the evaluators in the modules of all targets, without duplicates."""
    modules = [module for target in targets for module in _load_modules(target)[0]]
    return _unique(filter(_is_evaluator, _public_values(modules)))


def installed_evaluators() -> list[DeclaredEvaluator]:
    """Load the evaluators of installed packages. Those that fail are logged and left out."""
    evaluators: list[DeclaredEvaluator] = []
    for entry in entry_points(group=EVALUATOR_ENTRY_POINTS):
        try:
            with _convert_load_errors(entry.value):
                value = entry.load()
        except PalaverError as error:
            log.warning("Skipping the evaluator %s of an installed package: %s", entry.name, error)
            continue
        if _is_evaluator(value):
            evaluators.append(value)
        else:
            log.warning("Skipping the entry point %s of an installed package: it is not an evaluator", entry.name)
    return evaluators


def installed_workflows() -> dict[str, str]:
    """Return the workflows of installed packages, name to target."""
    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def load_installed(name: str) -> Workflow:
    installed = installed_workflows()
    if name not in installed:
        names = ", ".join(sorted(installed)) or "none"
        raise TargetNotFound(f"Workflow {name!r} not found. Installed: {names}.")
    return load_one(installed[name])[0]


# Modules


def _load_modules(target: str) -> tuple[list[ModuleType], str]:
    """Return the modules of a target, and the name in it; empty for all."""
    file, _, name = target.rpartition(":")
    if Path(target).is_dir():
        return [_load_file(file) for file in _module_files(Path(target))], ""
    if target.endswith(".py"):
        return [_load_file(Path(target))], ""
    if file.endswith(".py"):
        return [_load_file(Path(file))], name
    module_name, _, name = target.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise TargetNotFound(f"File, folder or module {target!r} not found.")
    _add_to_path(Path.cwd())
    return [_import_module(module_name, target)], name


def _import_module(name: str, target: str) -> ModuleType:
    with _convert_load_errors(target):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and f"{name}.".startswith(f"{error.name}."):
                raise TargetNotFound(f"File, folder or module {target!r} not found.") from None
            raise  # The module exists, but one of its imports does not.


# Files


def _module_files(folder: Path) -> list[Path]:
    """Return the modules of a folder, the package itself first."""
    files = sorted(file for file in folder.glob("*.py") if not file.name.startswith("_"))
    package = folder / "__init__.py"
    return [package, *files] if package.is_file() else files


def _load_file(path: Path) -> ModuleType:
    """Import a file once. Its folder is added to the import path."""
    if not path.is_file():
        raise TargetNotFound(f"File {str(path)!r} not found.")
    path = path.resolve()
    if (path.parent / "__init__.py").is_file():
        return _load_from_package(path)
    _add_to_path(path.parent)
    module_name = path.stem
    if _is_from(sys.modules.get(module_name), path):
        return sys.modules[module_name]
    if module_name in sys.modules or module_name in sys.stdlib_module_names:
        # Two files of the same name need different modules; the hash makes it stable.
        module_name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
        if module_name in sys.modules:
            return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    try:
        with _convert_load_errors(path.name):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def _load_from_package(path: Path) -> ModuleType:
    """Import a file of a package as its submodule, so that relative imports work."""
    names = [] if path.stem == "__init__" else [path.stem]
    root = path.parent
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    _add_to_path(root)
    name = ".".join(names)
    module = _import_module(name, path.name)
    if not _is_from(module, path):
        raise LoadFailed(f"Cannot load {path.name}: another module is named {name!r}.")
    return module


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _is_from(module: ModuleType | None, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


@contextmanager
def _convert_load_errors(target: str) -> Generator[None]:
    """Turn exceptions of the author's module into a LoadFailed of one line."""
    try:
        yield
    except (PalaverError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        raise LoadFailed(f"Cannot load {target}: it calls sys.exit({error.code!r}).") from error
    except BaseException as error:
        # The line at the top level of a module.
        module_frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
        where = f" ({Path(module_frames[-1].filename).name}, line {module_frames[-1].lineno})" if module_frames else ""
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise LoadFailed(f"Cannot load {target}: {printable(text)}{where}") from error


# Values of a module


def _public_values(modules: Iterable[ModuleType]) -> list[object]:
    return [value for module in modules for name, value in vars(module).items() if not name.startswith("_")]


def _named_workflow(module: ModuleType, name: str, target: str) -> Workflow:
    if not hasattr(module, name):
        names = ", ".join(name for name, value in vars(module).items() if _is_workflow(value)) or "none"
        raise TargetNotFound(f"Workflow {name!r} not found in {target.rpartition(':')[0]}. Available: {names}.")
    value = getattr(module, name)
    if not _is_workflow(value):
        raise NotAWorkflow(f"{target} is not a workflow ({type(value).__name__}). Decorate it with @chat or @workflow.")
    return value


def _is_workflow(value: object) -> TypeGuard[Workflow]:
    return _has_attributes(value, _WORKFLOW_ATTRIBUTES)


def _is_evaluator(value: object) -> TypeGuard[DeclaredEvaluator]:
    return _has_attributes(value, _EVALUATOR_ATTRIBUTES)


def _has_attributes(value: object, names: Iterable[str]) -> bool:
    # Without calling __getattr__: proxies and mocks have any name, or raise.
    return not isinstance(value, type) and all(inspect.getattr_static(value, name, None) is not None for name in names)


def _unique(values: Iterable[_T]) -> list[_T]:
    return list({id(value): value for value in values}.values())
