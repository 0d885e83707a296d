"""The registry: what is served, by name; and the evaluators that stand beside it."""

from collections.abc import Iterable, Iterator

from palaver.core.descriptions import Description
from palaver.discovery.targets import DeclaredEvaluator
from palaver.errors import DuplicateName, WorkflowNotFound
from palaver.workflows.workflow import Workflow


class Registry:
    """Workflows by name, and the one that also answers at the root: the only one, or the one chosen."""

    def __init__(
        self,
        workflows: Iterable[Workflow] = (),
        *,
        connections: Iterable[Workflow] = (),
        default: str | None = None,
        evaluators: Iterable[DeclaredEvaluator] = (),
    ) -> None:
        self.evaluators = tuple(evaluators)
        """Of the authors' own."""
        self._workflows: dict[str, Workflow] = {}
        self._put: frozenset[str] = frozenset()
        self._only: str | None = None
        for workflow in workflows:
            self.add(workflow)
        for workflow in connections:
            self.put(workflow)
        if default is not None and default not in self._workflows:
            raise WorkflowNotFound(default, known=self._workflows)
        self._default = default

    def __iter__(self) -> Iterator[Workflow]:
        return iter(self._workflows.values())

    def __contains__(self, name: str) -> bool:
        return name in self._workflows

    def __len__(self) -> int:
        return len(self._workflows)

    def add(self, workflow: Workflow) -> None:
        """Serve one more; the same one twice is not an error, two of one name are."""
        name = workflow.description.name
        known = self._workflows.setdefault(name, workflow)
        if known is not workflow:
            raise DuplicateName(f"Two workflows are called {name!r}: {known.place} and {workflow.place}.")
        own = self._workflows.keys() - self._put
        self._only = next(iter(own)) if len(own) == 1 else None

    def put(self, workflow: Workflow) -> None:
        """Serve one more beside those that were loaded, at any time: it never becomes the default by being there."""
        name = workflow.description.name
        known = self._workflows.get(name)
        if known is not None:
            raise DuplicateName(f"Two workflows are called {name!r}: {known.place} and {workflow.place}.")
        # A new mapping: whoever goes through the old one is not disturbed.
        self._workflows, self._put = {**self._workflows, name: workflow}, self._put | {name}

    def remove(self, name: str) -> None:
        """Serve one that was put here no longer. Its runs have what they need, and go on to their end."""
        if name in self._put:
            self._workflows = {known: self._workflows[known] for known in self._workflows if known != name}
            self._put -= {name}

    @property
    def default(self) -> str | None:
        """The name of the workflow that answers at the root, if there is one."""
        return self._default if self._default is not None else self._only

    def workflow(self, name: str | None) -> Workflow:
        """The workflow of that name, or the default one; WorkflowNotFound lists the known names."""
        found = self._workflows.get(name if name is not None else self.default or "")
        if found is None:
            raise WorkflowNotFound(name, known=self._workflows)
        return found

    def find(self, name: str | None) -> Description:
        """What is served under that name."""
        return self.workflow(name).description

    def names(self) -> list[str]:
        """What they are called."""
        return list(self._workflows)

    def descriptions(self) -> list[Description]:
        """All of them, by name."""
        return [self._workflows[name].description for name in sorted(self._workflows)]
