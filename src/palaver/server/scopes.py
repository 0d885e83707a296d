"""Which scope each route and method needs: one table for all, read from the router's own.

What the tables do not name needs an admin, so that a route somebody forgot is closed; and a test names it.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, assert_never

from palaver.core.keys import Scope
from palaver.errors import MissingScope
from palaver.server.callers import Caller
from palaver.server.routes import Match

Need = Literal["nothing", "credential"] | Scope
"""Nothing at all; any good credential; or one with that scope."""


class Rule(NamedTuple):
    """What a part of the REST API needs."""

    looking: Need
    """For GET, HEAD and a POST to …/query."""
    posting: Need
    changing: Need
    """For every other method."""


_ORDINARY = Rule("read", "invoke", "invoke")
_ADMIN = Rule("admin", "admin", "admin")
_LOOKED_AT = Rule("read", "read", "admin")
"""What comes in elsewhere: a POST here only asks, or makes ready what the page goes on with."""

API: Mapping[str, Rule] = {
    "about": _ORDINARY,
    "boards": _ORDINARY,
    "bootstrap": _ORDINARY,
    "connections": Rule("read", "admin", "admin"),
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
    "session": Rule("credential", "nothing", "credential"),
    "sessions": _LOOKED_AT,
    "settings": _ADMIN,
    "socket": _ORDINARY,
    "spans": _LOOKED_AT,
    "testsets": _ORDINARY,  # To erase one for ever needs an admin: its route sees to that.
    "threads": _ORDINARY,
    "traces": _LOOKED_AT,
    "variants": _ORDINARY,
    "views": _ORDINARY,
    "workflows": _ORDINARY,
}
"""By what follows /api/ in the path."""

_TAKING = frozenset({("reviews", "next")})
"""What begins and ends so takes something, even where it is only asked for: an item of a review is held then."""

OWN: Mapping[str, Need] = {
    "health": "nothing",
    "ready": "nothing",
    "livez": "nothing",
    "version": "credential",
    "status": "credential",
    "metrics": "read",
    "openapi.json": "credential",
}
"""Routes of the server itself."""


def needed(found: Match | None, method: str, path: str, *, web: bool = False) -> Need:
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
            return _in_api(method, path)
        case "own":
            return OWN.get(found.name, "admin")
        case "page":
            return "nothing" if web or found.name == "asset" or method == "HEAD" else "read"
        case _:
            assert_never(found.endpoint.kind)


def _in_api(method: str, path: str) -> Need:
    section, _, rest = path.strip("/").removeprefix("api").strip("/").partition("/")
    rule = API.get(section, _ADMIN)
    if (section, rest.rpartition("/")[2]) in _TAKING:
        return rule.changing
    if method in ("GET", "HEAD") or (method == "POST" and rest.rpartition("/")[2] == "query"):
        return rule.looking
    if method != "POST" or (rest and rule.posting == "nothing"):  # What is open to all is open at its one path.
        return rule.changing
    return rule.posting


def check(need: Need, caller: Caller) -> None:
    """Raise if the caller has not the scope that is needed."""
    match need:
        case "nothing" | "credential":
            return
        case scope:
            if scope not in caller.scopes:
                raise MissingScope(scope)
