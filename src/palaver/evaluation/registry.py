"""Known evaluators: the built-in ones, those of the authors whose workflows are served, those of installed packages.

What is installed is found by its key everywhere, but shown only where a workflow of the same package is served: who
serves a tutor need not choose among the rules for somebody else's jobs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import Any

from palaver.discovery.targets import installed_evaluators, installed_workflows
from palaver.errors import DuplicateName, InvalidValue
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.evaluators import built_in
from palaver.workflows.signature import callable_name


class EvaluatorRegistry:
    """By key. An author's own must not take the key of a built-in one."""

    def __init__(self, own: Iterable[Any] = (), *, served: Callable[[], Collection[str]] = tuple) -> None:
        """`served` tells the names of the workflows that are."""
        self._built_in = built_in()
        self._served = served
        self._own: dict[str, Evaluator] = {}
        for one in own:
            known = self._built_in[one.key] if one.key in self._built_in else self._own.get(one.key)
            if known is one:
                continue
            if known is not None:
                raise DuplicateName(f"Two evaluators have the key {one.key!r}: {known.place} and {one.place}.")
            self._own[one.key] = one

    def __iter__(self) -> Iterator[Evaluator]:
        return iter(self.all())

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> Evaluator | None:
        """The evaluator of that key, if there is one; an author's also by `module:name`."""
        if key in self._built_in:
            return self._built_in[key]
        if (found := self._own.get(key)) is not None:
            return found
        if ":" in key:
            return next((one for one in self._own.values() if _reference(one) == key), None)
        return self._installed.get(key)

    def find(self, key: str) -> Evaluator:
        """The evaluator of that key; InvalidValue lists the known ones."""
        found = self.get(key)
        if found is None:
            raise InvalidValue(
                f"No evaluator {key[:80]!r}. Known: {', '.join([*self._built_in, *(one.key for one in self.own())])}."
            )
        return found

    def own(self) -> list[Evaluator]:
        """Those of the authors whose workflows are served, by key."""
        names = set(self._served())
        packages = {_top_package(place) for name, place in installed_workflows().items() if name in names}
        found = self._installed.items() if packages else ()
        theirs = {key: one for key, one in found if _top_package(_reference(one)) in packages}
        every = {**theirs, **self._own}
        return [every[key] for key in sorted(every)]

    def all(self) -> list[Evaluator]:
        """All of them: the built-in ones first."""
        return [*(self._built_in[key] for key in self._built_in), *self.own()]

    @cached_property
    def _installed(self) -> dict[str, Evaluator]:
        """Looked for when somebody asks for what is not here: it takes a look at every package."""
        found: list[Any] = list(installed_evaluators())
        return {one.key: one for one in found if one.key not in self._built_in}


def _top_package(place: str) -> str:
    return place.partition(":")[0].partition(".")[0]


def _reference(one: Evaluator) -> str:
    return f"{one.function.__module__}:{callable_name(one.function)}"
