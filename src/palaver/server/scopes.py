"""The scope that each route requires of a caller."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, assert_never

from palaver.core.api_keys import Scope
from palaver.errors import MissingScope
from palaver.server.auth import Caller
from palaver.server.routing import RouteMatch

Requirement = Literal["nothing", "credential"] | Scope
"""No credential, any valid credential, or one with that scope."""


class ScopeRule(NamedTuple):
    """What a section of the REST API needs, by method."""

    on_read: Requirement
    """GET, HEAD and a POST to …/query."""
    on_post: Requirement
    on_change: Requirement
    """Every other method."""


_ORDINARY = ScopeRule("read", "invoke", "invoke")
_ADMIN = ScopeRule("admin", "admin", "admin")
_READ_ONLY = ScopeRule("read", "read", "admin")
"""Data that is written by other routes: a POST here is a query or an export."""

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
    "projects": _ADMIN,  # Only for keys of the project `default`, which the routes check.
    "reviews": _ORDINARY,
    "runs": _ORDINARY,
    "session": ScopeRule("credential", "nothing", "credential"),
    "sessions": _READ_ONLY,
    "settings": _ADMIN,
    "socket": _ORDINARY,
    "spans": _READ_ONLY,
    "testsets": _ORDINARY,  # Erasing one for good needs `admin`, which its route checks.
    "threads": _ORDINARY,
    "traces": _READ_ONLY,
    "variants": _ORDINARY,
    "views": _ORDINARY,
    "workflows": _ORDINARY,
}
"""By the first segment after /api/."""

_MUTATING_READS = frozenset({("reviews", "next")})
"""First and last segments of GETs that change something: the next item of a review is assigned to the caller."""

SERVER_RULES: Mapping[str, Requirement] = {
    "health": "nothing",
    "ready": "nothing",
    "livez": "nothing",
    "version": "credential",
    "status": "credential",
    "metrics": "read",
    "openapi.json": "credential",
}


def required_scope(route: RouteMatch | None, method: str, path: str, *, web: bool = False) -> Requirement:
    """Return the requirement of a request. `path` has no proxy prefix. An unknown path needs a credential, too.

    `web`: whether the page is built. Then it is public, as its data comes over the API. The plain page lists workflows.
    """
    if route is None:
        return "credential"
    match route.endpoint.kind:
        case "call" | "metadata" | "stored" | "resume" | "stop" | "files" | "traces":
            return "invoke"
        case "service":
            return "nothing" if method == "HEAD" and route.name == "services/{w}" else "invoke"
        case "api":
            return _api_requirement(method, path)
        case "server":
            return SERVER_RULES.get(route.name, "admin")
        case "page":
            return "nothing" if web or route.name in ("asset", "docs") or method == "HEAD" else "read"
        case _:
            assert_never(route.endpoint.kind)


def _api_requirement(method: str, path: str) -> Requirement:
    section, _, subpath = path.strip("/").removeprefix("api").strip("/").partition("/")
    rule = API_RULES.get(section, _ADMIN)
    if (section, subpath.rpartition("/")[2]) in _MUTATING_READS:
        return rule.on_change
    if method in ("GET", "HEAD") or (method == "POST" and subpath.rpartition("/")[2] == "query"):
        return rule.on_read
    if method != "POST" or (subpath and rule.on_post == "nothing"):  # Only the section's own path is public.
        return rule.on_change
    return rule.on_post


def require_scope(requirement: Requirement, caller: Caller) -> None:
    """Raise MissingScope if the caller lacks the scope."""
    if requirement not in ("nothing", "credential") and requirement not in caller.scopes:
        raise MissingScope(requirement)
