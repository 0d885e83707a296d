"""All known evaluators: built-in, declared next to served workflows, and installed by packages.

Installed evaluators can be used by key everywhere, but are listed only where a workflow of the same package is served.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from palaver.discovery.workflow_loader import installed_evaluators, installed_workflows
from palaver.errors import DuplicateName, InvalidValue
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.evaluators import built_in
from palaver.workflows.signature import callable_name


class EvaluatorRegistry:
    """Evaluators by key. A declared one must not have the key of a built-in one."""

    def __init__(self, declared: Iterable[Any] = (), *, served: Callable[[], Collection[str]] = tuple) -> None:
        """`served` returns the names of the served workflows."""
        self._built_in = built_in()
        self._served = served
        self._declared: dict[str, Evaluator] = {}
        for evaluator in declared:
            existing = self._built_in.get(evaluator.key) or self._declared.get(evaluator.key)
            if existing is evaluator:
                continue
            if existing is not None:
                raise DuplicateName(
                    f"Duplicate evaluator key {evaluator.key!r}: {existing.place} and {evaluator.place}."
                )
            self._declared[evaluator.key] = evaluator

    def __iter__(self) -> Iterator[Evaluator]:
        return iter(self.all())

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> Evaluator | None:
        """Return the evaluator with this key; declared ones also as `module:name`. None if unknown."""
        if evaluator := self._built_in.get(key) or self._declared.get(key):
            return evaluator
        if ":" in key:
            return next((evaluator for evaluator in self._declared.values() if _reference(evaluator) == key), None)
        return self._installed.get(key)

    def find(self, key: str) -> Evaluator:
        """Return the evaluator with this key. Raises InvalidValue, which lists the known ones."""
        evaluator = self.get(key)
        if evaluator is None:
            keys = [*self._built_in, *(evaluator.key for evaluator in self.declared())]
            similar = get_close_matches(key[:80], keys, n=1, cutoff=0.7)
            hint = f"Did you mean {similar[0]!r}?" if similar else f"Available: {', '.join(keys)}."
            raise InvalidValue(f"Unknown evaluator {key[:80]!r}. {hint}")
        return evaluator

    def declared(self) -> list[Evaluator]:
        """Return the evaluators that belong to served workflows, sorted by key."""
        names = set(self._served())
        packages = {_top_package(reference) for name, reference in installed_workflows().items() if name in names}
        installed_items = self._installed.items() if packages else ()
        installed = {
            key: evaluator for key, evaluator in installed_items if _top_package(_reference(evaluator)) in packages
        }
        by_key = {**installed, **self._declared}
        return [by_key[key] for key in sorted(by_key)]

    def all(self) -> list[Evaluator]:
        return [*self._built_in.values(), *self.declared()]

    @cached_property
    def _installed(self) -> dict[str, Evaluator]:
        """Evaluators of installed packages, loaded only when an unknown key is looked up: every package is searched."""
        evaluators: list[Any] = list(installed_evaluators())
        return {evaluator.key: evaluator for evaluator in evaluators if evaluator.key not in self._built_in}


def _top_package(reference: str) -> str:
    return reference.partition(":")[0].partition(".")[0]


def _reference(evaluator: Evaluator) -> str:
    return f"{evaluator.function.__module__}:{callable_name(evaluator.function)}"
