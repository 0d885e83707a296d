"""An object of somebody's framework as a workflow: a function that runs it, and the object itself."""

from collections.abc import Callable, Mapping
from typing import Any

from palaver.core.messages import APPROVAL_RESPONSE, Data
from palaver.core.runs import Call
from palaver.errors import NotImplementedYet
from palaver.workflows.options import Options
from palaver.workflows.workflow import FunctionWorkflow, Producer


class Adopted(FunctionWorkflow):
    """A graph, an agent, a runnable, served as it is."""

    reads_ids = False

    def __init__(
        self,
        thing: Any,
        function: Callable[..., Any],
        *,
        place: str,
        resumes: bool,
        name: str,
        description: str,
        flags: Mapping[str, bool],
        options: Options,
    ) -> None:
        self.thing = thing
        self._place = place
        self._resumes = resumes
        super().__init__(function, name=name, description=description, flags=dict(flags), options=options)

    @property
    def place(self) -> str:
        """Its framework and its own name: an object knows no file and line."""
        return self._place

    def bind(self, call: Call) -> Producer:
        """The object with its history, ready to run."""
        last = call.messages[-1].parts if call.messages else ()
        approves = any(isinstance(part, Data) and part.name == APPROVAL_RESPONSE for part in last)
        if approves and not self._resumes:
            raise NotImplementedYet(f"{self.description.name} cannot go on after an approval: its run was not kept.")
        return super().bind(call)
