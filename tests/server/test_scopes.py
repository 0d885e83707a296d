"""The scope required by each route, and that every route has a rule."""

import pytest

from palaver.core.api_keys import ALL_SCOPES, Scope
from palaver.errors import MissingScope
from palaver.server.auth import Caller
from palaver.server.routing import SERVER_ROUTES, WORKFLOW_ROUTES, Endpoint, RouteMatch, match_path
from palaver.server.scopes import SERVER_RULES, Requirement, require_scope, required_scope

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def route_requirement(method: str, path: str) -> Requirement:
    return required_scope(match_path(path), method, path)


@pytest.mark.parametrize("name", WORKFLOW_ROUTES)
@pytest.mark.parametrize("method", METHODS)
def test_every_protocol_needs_invoke_at_the_root_and_below_a_workflow(name: str, method: str) -> None:
    assert (route_requirement(method, f"/{name}"), route_requirement(method, f"/echo/{name}")) == ("invoke", "invoke")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/responses/resp_1/input_items",
        "/v1/conversations",
        "/v1/conversations/conv_1/items/msg_1",
        "/v1/models/echo",
        "/echo/api/chat/1/stream",
        "/echo/api/chat/1/stop",
        "/echo/v1/responses/resp_1",
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_routes_of_stored_items_and_chats_need_the_scope_invoke(path: str, method: str) -> None:
    assert route_requirement(method, path) == "invoke"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/health", "nothing"),
        ("HEAD", "/health", "nothing"),
        ("GET", "/ready", "nothing"),
        ("GET", "/livez", "nothing"),
        ("GET", "/services", "invoke"),
        ("HEAD", "/services", "invoke"),
        ("GET", "/services/echo", "invoke"),
        ("HEAD", "/services/echo", "nothing"),
        ("POST", "/services/echo", "invoke"),
        ("POST", "/services/echo/stream", "invoke"),
        ("HEAD", "/services/echo/README.md", "invoke"),
        ("GET", "/version", "credential"),
        ("GET", "/metrics", "read"),
        ("GET", "/openapi.json", "credential"),
        ("GET", "/", "read"),
        ("HEAD", "/", "nothing"),
        ("POST", "/", "read"),
        ("GET", "/play/brd_1", "read"),
        ("HEAD", "/login", "nothing"),
        ("GET", "/assets/a.js", "nothing"),
        ("GET", "/api/socket", "read"),
        ("GET", "/api/bootstrap", "read"),
        ("GET", "/nothing/here", "credential"),
        ("GET", "/api", "admin"),
        ("GET", "/api/", "admin"),
        ("GET", "/api/nothing", "admin"),
        ("POST", "/api/session", "nothing"),
        ("POST", "/api/session/", "nothing"),
        ("POST", "/api/session/x", "credential"),
        ("GET", "/api/session", "credential"),
        ("DELETE", "/api/session", "credential"),
        ("GET", "/api/workflows", "read"),
        ("GET", "/api/workflows/echo", "read"),
        ("HEAD", "/api/about", "read"),
        ("POST", "/api/extract", "invoke"),
        ("POST", "/api/threads", "invoke"),
        ("POST", "/api/threads/query", "read"),
        ("PATCH", "/api/threads/query", "invoke"),
        ("POST", "/api/query", "admin"),
        ("GET", "/api/connections", "read"),
        ("POST", "/api/connections", "admin"),
        ("DELETE", "/api/connections/x", "admin"),
        ("GET", "/api/keys", "admin"),
        ("POST", "/api/keys", "admin"),
        ("POST", "/api/keys/query", "admin"),
        ("PATCH", "/api/keys/key_abcd1234", "admin"),
        ("DELETE", "/api/keys/key_abcd1234", "admin"),
        ("GET", "/api/projects", "admin"),
        ("DELETE", "/api/projects/team-a", "admin"),
        ("GET", "/api/settings", "admin"),
        ("POST", "/v1/traces", "invoke"),
        ("GET", "/v1/traces", "invoke"),
        ("POST", "/v1/logs", "invoke"),
        ("POST", "/api/public/otel/v1/traces", "invoke"),
        ("POST", "/api/otlp/v1/traces", "invoke"),
        ("POST", "/v1/metrics", "credential"),
        ("GET", "/api/traces", "read"),
        ("POST", "/api/traces/query", "read"),
        ("POST", "/api/traces/1/thread", "read"),
        ("DELETE", "/api/traces/1", "admin"),
        ("GET", "/api/spans/1/2", "read"),
        ("GET", "/api/sessions/s/thread", "read"),
        ("POST", "/api/erase", "admin"),
        ("POST", "/api/evaluations", "invoke"),
        ("GET", "/api/reviews", "read"),
        ("GET", "/api/reviews/rv_1/next", "invoke"),
        ("HEAD", "/api/reviews/rv_1/next", "invoke"),
        ("GET", "/api/reviews/rv_1/agreement", "read"),
        ("POST", "/api/reviews/rv_1/items/item_0/answers", "invoke"),
        ("GET", "/api/online/on_1/stats", "read"),
        ("POST", "/api/online", "invoke"),
        ("PATCH", "/api/online/on_1", "invoke"),
    ],
)
def test_the_required_scope_of_other_routes(method: str, path: str, expected: Requirement) -> None:
    assert route_requirement(method, path) == expected


@pytest.mark.parametrize("path", ["/", "/play", "/settings/keys", "/assets/a.js"])
def test_pages_of_a_built_web_app_need_no_credential(path: str) -> None:
    assert required_scope(match_path(path), "GET", path, web=True) == "nothing"
    assert required_scope(match_path("/metrics"), "GET", "/metrics", web=True) == "read"


def test_every_server_route_has_a_rule() -> None:
    assert SERVER_RULES.keys() == SERVER_ROUTES.keys()


def test_a_route_without_a_rule_needs_the_scope_admin() -> None:
    forgotten = RouteMatch(Endpoint("server", ("GET",)), None, "forgotten")

    assert required_scope(forgotten, "GET", "/forgotten") == "admin"


@pytest.mark.parametrize(
    ("held", "passed"),
    [
        (frozenset[Scope](), {"nothing", "credential"}),
        (frozenset[Scope]({"invoke"}), {"nothing", "credential", "invoke"}),
        (frozenset[Scope]({"read"}), {"nothing", "credential", "read"}),
        (ALL_SCOPES, {"nothing", "credential", "invoke", "read", "admin"}),
    ],
)
def test_the_error_names_the_missing_scope(held: frozenset[Scope], passed: set[str]) -> None:
    caller = Caller("default", held, "abcd1234", "key")
    requirements: list[Requirement] = ["nothing", "credential", "invoke", "read", "admin"]
    for requirement in requirements:
        if requirement in passed:
            require_scope(requirement, caller)
            continue
        with pytest.raises(MissingScope) as raised:
            require_scope(requirement, caller)
        assert (raised.value.message, raised.value.details) == (
            f"This request needs an API key with the scope {requirement!r}.",
            {"scope": requirement},
        )
