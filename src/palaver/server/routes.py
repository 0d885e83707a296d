"""Which path means what. Adding a protocol is one line in the table of what every workflow answers."""

from collections.abc import Mapping
from types import ModuleType
from typing import Literal, NamedTuple, cast

from palaver.core.descriptions import RESERVED
from palaver.errors import MethodNotAllowed, NotFound
from palaver.protocols import invoke, run
from palaver.protocols.base import Adapter
from palaver.server.status import Column

Kind = Literal["call", "inspect", "own", "api", "page"]


class Endpoint(NamedTuple):
    """What stands at a path."""

    kind: Kind
    methods: tuple[str, ...]
    adapter: Adapter | None = None
    """For a call: the protocol it is made in."""
    cancels: bool = True
    """For a call: does a client that leaves end the run, where the author says nothing?"""
    column: Column = "a"


class Match(NamedTuple):
    """An endpoint, and the workflow that the path names (None: the default one)."""

    endpoint: Endpoint
    workflow: str | None
    name: str


def _calls(adapter: ModuleType) -> Endpoint:
    return Endpoint("call", ("POST",), cast("Adapter", adapter))


OF_WORKFLOWS: Mapping[str, Endpoint] = {
    "inspect": Endpoint("inspect", ("GET", "POST")),
    "invoke": _calls(invoke),
    "run": _calls(run),
    "test": _calls(run),
}
"""Below `/{w}`, and at the root for the default workflow."""

OWN: Mapping[str, Endpoint] = {
    path: Endpoint("own", ("GET", "HEAD")) for path in ("health", "ready", "version", "metrics", "openapi.json")
}
_API = Endpoint("api", ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_PAGE = Endpoint("page", ("GET", "HEAD"))


def match(path: str) -> Match | None:
    """What a path means; None where it means nothing."""
    first, _, rest = path.strip("/").partition("/")
    if not first:
        return Match(_PAGE, None, "page")
    if first == "api":
        return Match(_API, None, "api")
    if not rest and first in OWN:
        return Match(OWN[first], None, first)
    whole = path.strip("/")
    if whole in OF_WORKFLOWS:
        return Match(OF_WORKFLOWS[whole], None, whole)
    if first not in RESERVED and rest in OF_WORKFLOWS:
        return Match(OF_WORKFLOWS[rest], first, rest)
    return None


def nothing(path: str) -> NotFound:
    """The answer to a path that means nothing."""
    return NotFound(f"There is nothing at {path[:80]}.")


def below(prefix: str, path: str) -> str:
    """The path without the prefix that a proxy may have left on it."""
    return path[len(prefix) :] or "/" if path == prefix or path.startswith(f"{prefix}/") else path


def check_method(endpoint: Endpoint, method: str, path: str) -> None:
    """Raise for a method that the endpoint does not take."""
    if method not in endpoint.methods:
        raise MethodNotAllowed(method, path, allowed=endpoint.methods)


def of(workflow: str) -> dict[str, str]:
    """The paths under which a workflow can be called, by protocol."""
    return {"invoke": f"/{workflow}/invoke"}
