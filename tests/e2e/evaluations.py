"""Test sets and evaluations created over the API, and locators of the evaluation page."""

from collections.abc import Sequence
from typing import Any

import httpx
from playwright.async_api import Locator, Page, expect

from tests.server_process import ServerProcess

COUNTRIES = [
    ("France", "Paris", "europe"),
    ("Norway", "Oslo", "europe"),
    ("Japan", "Tokyo", "asia"),
    ("Peru", "Lima", "america"),
    ("Kenya", "Nairobi", "africa"),
    ("Chile", "Santiago", "america"),
    ("Wales", "Cardiff", "europe"),
]


async def create_testset(site: ServerProcess, name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Create a test set with these rows; return its id."""
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=120) as http:
        response = await http.post("/api/testsets", json={"name": name, "rows": [{"data": row} for row in rows]})
        assert response.status_code == 201, response.text
        return response.json()["id"]


def country_rows(extra_rows: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    rows = [{"country": country, "expected": capital, "region": region} for country, capital, region in COUNTRIES]
    return [*rows, *extra_rows]


async def run_evaluation(site: ServerProcess, **request: Any) -> str:
    """Run an evaluation to its end; return its id."""
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=120) as http:
        response = await http.post("/api/evaluations", json=request)
        assert response.status_code == 202, response.text
        evaluation = response.json()["id"]
        # The event stream ends with the evaluation.
        (await http.get(f"/api/evaluations/{evaluation}/events")).raise_for_status()
        return evaluation


def result_rows(page: Page) -> Locator:
    """The rows of the results, without the header."""
    return page.get_by_role("grid", name="Results").locator("[data-place]")


def drawer(page: Page) -> Locator:
    """The drawer with one result."""
    return page.get_by_role("dialog")


async def wait_for_state(page: Page, state: str = "Succeeded") -> None:
    """Wait until the page shows this state of the evaluation."""
    await expect(page.locator("header").get_by_text(state, exact=True)).to_be_visible()
