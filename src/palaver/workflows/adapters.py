"""Find the framework adapter for an object that an author declares or a workflow yields.

An adapter is a module with an entry point in the group `palaver.frameworks`; any package may have one:

    [project.entry-points."palaver.frameworks"]
    haystack = "my_package.haystack"

It implements FrameworkAdapter. Objects are matched by the packages of their classes and base classes, so subclasses by
the author match too. Adapters are loaded when the first object occurs that is not plain or from the standard library;
since all of them are loaded then, an adapter must import its framework inside its functions.
"""

import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast
from weakref import WeakKeyDictionary

from palaver.core.descriptions import check_workflow_name
from palaver.core.grammar import OutputValue
from palaver.core.messages import Message
from palaver.errors import InvalidName

if TYPE_CHECKING:
    from palaver.workflows.workflow import Options, Workflow

ENTRY_POINTS = "palaver.frameworks"

log = logging.getLogger("palaver.frameworks")


class OutputReader(Protocol):
    """Converts the framework's objects of one run; a sync state machine."""

    def feed(self, value: Any) -> Iterable[OutputValue] | None:
        """Convert an object, or a list of objects, of this framework; None if it is unknown."""
        ...

    def end(self) -> Iterable[OutputValue]:
        """Return the remaining output when the workflow has ended."""
        ...


class FrameworkAdapter(Protocol):
    """The interface of an adapter module."""

    @property
    def PACKAGES(self) -> Sequence[str]:  # noqa: N802 - a module's constant
        """Top-level packages whose objects it handles."""
        ...

    @property
    def MESSAGES(self) -> type | None:  # noqa: N802
        """The framework's message class: a function annotated with a list of them receives `written(…)`."""
        ...

    def adopt(
        self, thing: Any, *, name: str | None, description: str | None, flags: Mapping[str, bool], options: "Options"
    ) -> "Workflow | None":
        """Create the workflow for `chat(thing)` or `workflow(thing)`; None if the thing cannot be run.

        `flags["is_chat"]` tells the two apart. `choose_name` picks a name if the author gave none.
        """
        ...

    def Reader(self, history: Sequence[Message]) -> OutputReader:  # noqa: N802 - a class, mostly
        """Create the reader for one run; `history` is the call's, which a workflow may repeat in its output."""
        ...

    def written(self, messages: Sequence[Message]) -> list[Any]:
        """Convert our messages to the framework's."""
        ...


_PLAIN_TYPES: dict[type, None] = dict.fromkeys((str, dict, list, tuple, int, float, bool, type(None), bytes))
"""Types that no framework handles, checked first."""
_ADAPTER_BY_CLASS: WeakKeyDictionary[type, FrameworkAdapter | None] = WeakKeyDictionary()
_UNADAPTED_PACKAGES = sys.stdlib_module_names | {"palaver", "msgspec"}
_NOT_URL_SAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def adapter_for(thing: object) -> FrameworkAdapter | None:
    """Return the adapter for an object; None if no framework handles it."""
    kind = type(thing)
    return None if kind in _PLAIN_TYPES else adapter_for_class(kind)


def adapter_for_class(kind: type) -> FrameworkAdapter | None:
    """Return the adapter for a class, by its package or that of a base class."""
    if kind not in _ADAPTER_BY_CLASS:
        roots = {base.__module__.partition(".")[0] for base in kind.__mro__} - _UNADAPTED_PACKAGES
        _ADAPTER_BY_CLASS[kind] = (
            next((adapter for root in roots if (adapter := _adapters().get(root))), None) if roots else None
        )
    return _ADAPTER_BY_CLASS[kind]


def choose_name(declared: str | None, *candidates: str | None) -> str:
    """Return the author's name, else the first known one, made URL-safe. Raises InvalidName."""
    if declared is not None:
        return check_workflow_name(declared)
    for name in candidates:
        if safe_name := _NOT_URL_SAFE.sub("-", name or "").strip("-.")[:64]:
            return check_workflow_name(safe_name)
    raise InvalidName("Cannot derive a URL-safe name for the workflow. Set one with the option 'name'.")


@cache
def _adapters() -> Mapping[str, FrameworkAdapter]:
    """Load the installed adapters, by package."""
    from importlib.metadata import entry_points  # Slow to import, and rarely needed.

    adapters: dict[str, FrameworkAdapter] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            adapter = cast("FrameworkAdapter", entry.load())
        except ImportError as error:  # A broken adapter must not affect the others.
            log.warning("Failed to load the framework adapter %s (%s): %s", entry.name, entry.value, error)
            continue
        for package in adapter.PACKAGES:
            adapters.setdefault(package, adapter)
    return adapters
