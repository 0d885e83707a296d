"""Every route is documented."""

import re

import pytest

from palaver.server.scopes import API_RULES
from tests.docs import routes
from tests.docs.pages import DOCS


@pytest.mark.parametrize("route", routes.every_route(), ids=lambda route: f"{','.join(route.methods)} {route.path}")
def test_every_route_is_mentioned_on_its_page(route: routes.Route) -> None:
    page = (routes.REFERENCE / route.page).read_text("utf-8")
    fixed = "/".join(route.path.split("/")[:3]) if route.group == routes.REST_API else route.path.partition("/{")[0]

    assert fixed.strip("/") in page


def test_every_part_of_the_rest_api_that_has_a_scope_has_a_page() -> None:
    assert API_RULES.keys() - {"socket"} == routes.API_PAGES.keys()


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/tutor/inspect", True),
        ("PUT", "/tutor/inspect", False),
        ("GET", "/conversations/conv_…/items", True),
        ("GET", "/tutor/v1/conversations/conv_1/items", True),
        ("POST", "/api/threads/conv_…/turns", True),
        ("POST", "/tutor/api/threads", False),
        ("GET", "/services/eliza/stream", False),
        ("GET", "/nowhere", False),
    ],
)
def test_methods_and_paths_are_looked_up_in_the_route_table(method: str, path: str, expected: bool) -> None:
    assert routes.is_route(method, path) is expected


def test_every_path_in_the_docs_is_a_route() -> None:
    """Checks METHOD `/path` on pages, with or without names in braces."""
    unknown = [
        f"{page.name}: {method} {path}"
        for page in sorted(set(DOCS.rglob("*.md")) - set(DOCS.glob("contributing/adding-*.md")))
        for method, path in re.findall(r"\b(GET|POST|PUT|PATCH|DELETE) `(/[^`\s?]*)", page.read_text("utf-8"))
        if not routes.is_route(method, path.rstrip("…/") or "/")
    ]

    assert unknown == []
