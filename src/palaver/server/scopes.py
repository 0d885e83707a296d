"""Which scope each route and method needs: one table for all, read from the router's own.

What the tables do not name needs an admin, so that a route somebody forgot is closed; and a test names it.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, assert_never

from palaver.core.api_keys import Scope
from palaver.errors import MissingScope
from palaver.server.auth import Caller
from palaver.server.routing import RouteMatch

Requirement = Literal["nothing", "credential"] | Scope
"""Nothing at all; any good credential; or one with that scope."""


class ScopeRule(NamedTuple):
    """What a part of the REST API needs."""

    looking: Requirement
    """For GET, HEAD and a POST to …/query."""
    posting: Requirement
    changing: Requirement
    """For every other method."""


_ORDINARY = ScopeRule("read", "invoke", "invoke")
_ADMIN = ScopeRule("admin", "admin", "admin")
_READ_ONLY = ScopeRule("read", "read", "admin")
"""What comes in elsewhere: a POST here only asks, or makes ready what the page goes on with."""

API_RULES: Mapping[str, ScopeRule] = {
    "about": _ORDINARY,
    "boards": _ORDINARY,
    "bootstrap": _ORDINARY,
    "connections": ScopeRule("read", "admin", "admin"),
    "erase": _ADMIN,
    "evaluations": _ORDINARY,
    "evaluators": _ORDINARY,
    "extract": _ORDINARY,
    "feedback": _ORDINARY,
    "files": _ORDINARY,
    "keys": _ADMIN,
    "online": _ORDINARY,
    "projects": _ADMIN,  # Of the project `default`: the routes see to that.
    "reviews": _ORDINARY,
    "runs": _ORDINARY,
    "session": ScopeRule("credential", "nothing", "credential"),
    "sessions": _READ_ONLY,
    "settings": _ADMIN,
    "socket": _ORDINARY,
    "spans": _READ_ONLY,
    "testsets": _ORDINARY,  # To erase one for ever needs an admin: its route sees to that.
    "threads": _ORDINARY,
    "traces": _READ_ONLY,
    "variants": _ORDINARY,
    "views": _ORDINARY,
    "workflows": _ORDINARY,
}
"""By what follows /api/ in the path."""

_MUTATING_READS = frozenset({("reviews", "next")})
"""What begins and ends so takes something, even where it is only asked for: an item of a review is held then."""

SERVER_RULES: Mapping[str, Requirement] = {
    "health": "nothing",
    "ready": "nothing",
    "livez": "nothing",
    "version": "credential",
    "status": "credential",
    "metrics": "read",
    "openapi.json": "credential",
}
"""Routes of the server itself."""


def required_scope(found: RouteMatch | None, method: str, path: str, *, web: bool = False) -> Requirement:
    """What a request must have; `path` is without a proxy's prefix. What is not there, too, is for callers to know.

    `web`: the page is a document that knows nothing, and asks for everything itself; else it shows what is served.
    """
    if found is None:
        return "credential"
    match found.endpoint.kind:
        case "call" | "question" | "stored" | "resume" | "stop" | "traces":
            return "invoke"
        case "service":
            return "nothing" if method == "HEAD" and found.name == "services/{w}" else "invoke"
        case "api":
            return _api_requirement(method, path)
        case "own":
            return SERVER_RULES.get(found.name, "admin")
        case "page":
            return "nothing" if web or found.name == "asset" or method == "HEAD" else "read"
        case _:
            assert_never(found.endpoint.kind)


def _api_requirement(method: str, path: str) -> Requirement:
    section, _, rest = path.strip("/").removeprefix("api").strip("/").partition("/")
    rule = API_RULES.get(section, _ADMIN)
    if (section, rest.rpartition("/")[2]) in _MUTATING_READS:
        return rule.changing
    if method in ("GET", "HEAD") or (method == "POST" and rest.rpartition("/")[2] == "query"):
        return rule.looking
    if method != "POST" or (rest and rule.posting == "nothing"):  # What is open to all is open at its one path.
        return rule.changing
    return rule.posting


def require_scope(need: Requirement, caller: Caller) -> None:
    """Raise if the caller has not the scope that is needed."""
    match need:
        case "nothing" | "credential":
            return
        case scope:
            if scope not in caller.scopes:
                raise MissingScope(scope)
