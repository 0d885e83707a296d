"""What a program did before somebody opens the page: test sets, and evaluations that have ended."""

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
    """A set with these rows; its id."""
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=120) as http:
        made = await http.post("/api/testsets", json={"name": name, "rows": [{"data": row} for row in rows]})
        assert made.status_code == 201, made.text
        return made.json()["id"]


def country_rows(more: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    return [{"country": land, "expected": town, "region": region} for land, town, region in COUNTRIES] + list(more)


async def run_evaluation(site: ServerProcess, **request: Any) -> str:
    """An evaluation that has ended; its id."""
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=120) as http:
        begun = await http.post("/api/evaluations", json=request)
        assert begun.status_code == 202, begun.text
        evaluation = begun.json()["id"]
        # Its stream ends when it does.
        (await http.get(f"/api/evaluations/{evaluation}/events")).raise_for_status()
        return evaluation


def result_rows(page: Page) -> Locator:
    """The rows of the results; the line of titles is none."""
    return page.get_by_role("grid", name="Results").locator("[data-place]")


def drawer(page: Page) -> Locator:
    """One cell, over the page."""
    return page.get_by_role("dialog")


async def wait_for_state(page: Page, word: str = "Succeeded") -> None:
    """Wait until the evaluation that is shown has ended so."""
    await expect(page.locator("header").get_by_text(word, exact=True)).to_be_visible()
