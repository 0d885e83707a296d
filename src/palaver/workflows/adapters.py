"""Frameworks: whose object is this? Asked of what an author declares, and of what a workflow gives.

An adapter is a module, found by its entry point in the group `palaver.frameworks`; a package of anybody's may have one:

    [project.entry-points."palaver.frameworks"]
    haystack = "my_package.haystack"

It offers what `Framework` says below. We are given objects and know them by the packages that their classes come from,
so that an author's own subclass is known too. No adapter is loaded before something was given that is neither plain nor
Python's own; and since all of them are loaded then, an adapter imports its framework only inside its functions.
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
from palaver.workflows.options import Options

if TYPE_CHECKING:
    from palaver.workflows.workflow import Workflow

ENTRY_POINTS = "palaver.frameworks"

log = logging.getLogger("palaver.frameworks")


class OutputReader(Protocol):
    """Understands what one run gives; a sync machine."""

    def feed(self, value: Any) -> Iterable[OutputValue] | None:
        """What one object amounts to, or a list of objects of this framework; None for what it does not know."""
        ...

    def end(self) -> Iterable[OutputValue]:
        """What remains to be said when the workflow has come to its end."""
        ...


class FrameworkAdapter(Protocol):
    """What an adapter's module offers."""

    @property
    def PACKAGES(self) -> Sequence[str]:  # noqa: N802 - a module's constant
        """Top-level packages whose objects it knows."""
        ...

    @property
    def MESSAGES(self) -> type | None:  # noqa: N802
        """The class of the framework's messages: a function that asks for a list of them receives `written(…)`."""
        ...

    def adopt(
        self, thing: Any, *, name: str | None, description: str | None, flags: Mapping[str, bool], options: Options
    ) -> "Workflow | None":
        """The workflow that `chat(thing)` or `workflow(thing)` declares; None where it is nothing that runs.

        `flags["is_chat"]` says which of the two it was. What the author did not say, `named` and the thing itself tell.
        """
        ...

    def Reader(self, history: Sequence[Message]) -> OutputReader:  # noqa: N802 - a class, mostly
        """A machine for one run; the history is that of its call, as a workflow may give it back."""
        ...

    def written(self, messages: Sequence[Message]) -> list[Any]:
        """Our messages as the framework's."""
        ...


_PLAIN: dict[type, None] = dict.fromkeys((str, dict, list, tuple, int, float, bool, type(None), bytes))
"""No framework's, known at one look: most of what workflows give is such."""
_KNOWN: WeakKeyDictionary[type, FrameworkAdapter | None] = WeakKeyDictionary()
_OURS_OR_PYTHONS = sys.stdlib_module_names | {"palaver", "msgspec"}
_UNLAWFUL = re.compile(r"[^A-Za-z0-9_.-]+")


def adapter_for(thing: object) -> FrameworkAdapter | None:
    """The adapter for a thing's class; None for everything plain, Python's, ours or unheard of."""
    kind = type(thing)
    return None if kind in _PLAIN else adapter_for_class(kind)


def adapter_for_class(kind: type) -> FrameworkAdapter | None:
    """The adapter for things of a class, known by it or by one of its bases."""
    if kind not in _KNOWN:
        roots = {base.__module__.partition(".")[0] for base in kind.__mro__} - _OURS_OR_PYTHONS
        _KNOWN[kind] = next((found for root in roots if (found := _adapters().get(root))), None) if roots else None
    return _KNOWN[kind]


def choose_name(given: str | None, *known: str | None) -> str:
    """The name of an adopted thing: the author's, else the first that the thing knows itself by, made lawful."""
    if given is not None:
        return check_workflow_name(given)
    for name in known:
        if lawful := _UNLAWFUL.sub("-", name or "").strip("-.")[:64]:
            return check_workflow_name(lawful)
    raise InvalidName("What is declared has no name that can stand in a URL: pass name= to choose one.")


@cache
def _adapters() -> Mapping[str, FrameworkAdapter]:
    """By package, the adapters that are installed."""
    from importlib.metadata import entry_points  # Not cheap, and most who import us never get here.

    adapters: dict[str, FrameworkAdapter] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            adapter = cast("FrameworkAdapter", entry.load())
        except ImportError as error:  # Somebody's adapter is broken: what others adapt still works.
            log.warning("The framework adapter %s (%s) cannot be loaded: %s", entry.name, entry.value, error)
            continue
        for package in adapter.PACKAGES:
            adapters.setdefault(package, adapter)
    return adapters
