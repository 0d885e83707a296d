"""The workflows that are served, by name, and the author's evaluators."""

from collections.abc import Iterable, Iterator

from palaver.core.descriptions import Description
from palaver.discovery.workflow_loader import DeclaredEvaluator
from palaver.errors import DuplicateName, WorkflowNotFound
from palaver.workflows.workflow import Workflow


class Registry:
    """Workflows by name. One of them may be the default, which is served at the root."""

    def __init__(
        self,
        workflows: Iterable[Workflow] = (),
        *,
        connections: Iterable[Workflow] = (),
        default: str | None = None,
        evaluators: Iterable[DeclaredEvaluator] = (),
    ) -> None:
        self.evaluators = tuple(evaluators)
        """The author's evaluators."""
        self._workflows: dict[str, Workflow] = {}
        self._connections: frozenset[str] = frozenset()
        self._sole_workflow: str | None = None
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
        """Add a workflow; adding it twice is allowed. Raises DuplicateName if another one has its name."""
        name = workflow.description.name
        existing = self._workflows.setdefault(name, workflow)
        if existing is not workflow:
            raise DuplicateName(f"Duplicate workflow name {name!r}: {existing.place} and {workflow.place}.")
        local_names = self._workflows.keys() - self._connections
        self._sole_workflow = next(iter(local_names)) if len(local_names) == 1 else None

    def put(self, workflow: Workflow) -> None:
        """Add a connection, at any time. It never becomes the default."""
        name = workflow.description.name
        existing = self._workflows.get(name)
        if existing is not None:
            raise DuplicateName(f"Duplicate workflow name {name!r}: {existing.place} and {workflow.place}.")
        # A new mapping, so that iterations over the old one are not disturbed.
        self._workflows, self._connections = {**self._workflows, name: workflow}, self._connections | {name}

    def remove(self, name: str) -> None:
        """Remove a connection. Its runs continue."""
        if name in self._connections:
            self._workflows = {other: self._workflows[other] for other in self._workflows if other != name}
            self._connections -= {name}

    @property
    def default(self) -> str | None:
        """The name of the default workflow: the chosen one, or the only one that is not a connection."""
        return self._default if self._default is not None else self._sole_workflow

    def workflow(self, name: str | None) -> Workflow:
        """Return the workflow of that name, or the default one. Raises WorkflowNotFound."""
        workflow = self._workflows.get(name if name is not None else self.default or "")
        if workflow is None:
            raise WorkflowNotFound(name, known=self._workflows)
        return workflow

    def find(self, name: str | None) -> Description:
        return self.workflow(name).description

    def names(self) -> list[str]:
        return list(self._workflows)

    def descriptions(self) -> list[Description]:
        """All descriptions, ordered by name."""
        return [self._workflows[name].description for name in sorted(self._workflows)]
