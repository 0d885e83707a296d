"""The registry: what is served, by name."""

from collections.abc import Iterable, Iterator

from palaver.core.descriptions import Description
from palaver.errors import DuplicateName, WorkflowNotFound
from palaver.workflows.workflow import Workflow


class Registry:
    """Workflows by name, and the one that also answers at the root: the only one, or the one chosen."""

    def __init__(self, workflows: Iterable[Workflow] = (), *, default: str | None = None) -> None:
        self._workflows: dict[str, Workflow] = {}
        for workflow in workflows:
            self.add(workflow)
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

    @property
    def default(self) -> str | None:
        """The name of the workflow that answers at the root, if there is one."""
        if self._default is not None:
            return self._default
        return next(iter(self._workflows)) if len(self._workflows) == 1 else None

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
