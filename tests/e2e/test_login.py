"""A server with keys: login, logout, and key management by administrators."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.e2e.conftest import FLOWS, LAPTOP
from tests.e2e.page_monitor import PageMonitor
from tests.e2e.playground import cell, send_message, take_screenshot, take_screenshots, wait_for_answer
from tests.server_process import ServerProcess, server_process

SECRET_PATTERN = re.compile("^plv_")
UNAUTHORIZED_MESSAGES = "401|HTTP Authentication failed"
"""The browser's console messages about rejected requests and sockets."""


def new_key(db: str, *arguments: str) -> str:
    """Create a key with the CLI, as an operator does."""
    command = [sys.executable, "-m", "palaver.cli", "key", "create", "--db", db, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


class KeyedSite:
    """A server and its first key."""

    def __init__(self, server: ServerProcess, db: str, key: str) -> None:
        self.url, self.server, self.db, self.key = server.url, server, db, key

    def ask(self, path: str, key: str) -> int:
        """Return the status of a request with this key."""
        return request_status(f"{self.url}{path}", key)

    def revoke(self, name: str) -> None:
        """Revoke a key by its name over the API."""
        headers = {"authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30) as client:
            [row] = [row for row in client.get("/api/keys").json()["data"] if row["name"] == name]
            client.delete(f"/api/keys/{row['id']}").raise_for_status()


def request_status(url: str, key: str | None = None) -> int:
    """Return the status of a request with or without a key."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.get(url, headers=headers, trust_env=False, timeout=30).status_code


@pytest.fixture(scope="module")
def keyed_site(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedSite]:
    """A server that requires a key."""
    folder = tmp_path_factory.mktemp("keyed")
    db = str(folder / "palaver.db")
    key = new_key(db, "--name", "admin", "--scope", "admin")
    with server_process(folder, FLOWS.read_text("utf-8"), db=db) as server:
        yield KeyedSite(server, db, key)


@pytest.fixture(scope="module")
def site(keyed_site: KeyedSite) -> ServerProcess:
    """The server process of `keyed_site`."""
    return keyed_site.server


async def log_in(page: Page, key: str) -> None:
    """Log in with a key."""
    await page.get_by_label("API key", exact=True).fill(key)
    await page.get_by_role("button", name="Log in").click()


async def test_a_visitor_without_a_session_is_sent_to_the_login_and_back(
    page: Page, context: BrowserContext, watch: PageMonitor, keyed_site: KeyedSite
) -> None:
    await page.goto("/workflows/tutor?from=here")
    await expect(page).to_have_url(re.compile(r"/login\?next="))
    await expect(page.get_by_text("Enter your API key.")).to_be_visible()
    await take_screenshots(page, "login")

    await log_in(page, "plv_00000000_" + "0" * 40)
    await expect(page.get_by_role("alert")).to_be_visible()
    await take_screenshot(page, "login-wrong")
    await expect(page).to_have_url(re.compile(r"/login\?next="))
    assert await context.cookies() == []

    await log_in(page, keyed_site.key)
    await expect(page).to_have_url(re.compile(r"/workflows/tutor\?from=here$"))
    await expect(page.get_by_role("heading", name="tutor")).to_be_visible()
    [cookie] = await context.cookies()
    assert {name: cookie.get(name) for name in ("name", "httpOnly", "sameSite")} == {
        "name": "palaver",
        "httpOnly": True,
        "sameSite": "Strict",
    }
    assert keyed_site.key not in cookie.get("value", keyed_site.key)
    assert await page.evaluate("document.cookie") == ""
    assert keyed_site.key not in await page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")

    await page.goto("/play?workflow=scripted")
    await send_message(page, "Let in")
    await wait_for_answer(cell(page, 1), "Let in")
    watch.forgive(UNAUTHORIZED_MESSAGES)


async def test_logging_out_ends_the_session(
    page: Page, context: BrowserContext, watch: PageMonitor, keyed_site: KeyedSite
) -> None:
    await page.goto("/login")
    await log_in(page, keyed_site.key)
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_text("Enter your API key.")).to_be_visible()
    assert await context.cookies() == []
    await page.goto("/settings")
    await expect(page).to_have_url(re.compile("/login"))
    watch.forgive(UNAUTHORIZED_MESSAGES)


async def test_login_does_not_redirect_to_another_host(page: Page, watch: PageMonitor, keyed_site: KeyedSite) -> None:
    await page.goto("/login?next=//attacker.example/steal")
    await log_in(page, keyed_site.key)
    await expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
    assert page.url.startswith(keyed_site.url)
    watch.forgive(UNAUTHORIZED_MESSAGES)


async def test_an_admin_creates_a_key_that_works_until_it_is_revoked(
    page: Page, watch: PageMonitor, keyed_site: KeyedSite
) -> None:
    await page.goto("/login?next=/settings")
    await log_in(page, keyed_site.key)
    await page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("textbox", name="Name").fill("nightly job")
    await dialog.get_by_role("combobox", name="Expires").select_option("After 30 days")
    await take_screenshot(page, "new-key")
    await dialog.get_by_role("button", name="Create key").click()
    secret = await dialog.get_by_text(SECRET_PATTERN).inner_text()
    await take_screenshot(page, "new-key-made")
    assert keyed_site.ask("/api/threads", secret) == 200
    assert keyed_site.ask("/api/keys", secret) == 403
    await dialog.get_by_role("button", name="Done").click()

    row = page.get_by_role("listitem").filter(has_text="nightly job")
    await expect(row).to_contain_text("invoke")
    await expect(page.locator("main")).not_to_contain_text(secret)
    await take_screenshots(page, "keys")
    await row.get_by_role("button", name="Revoke nightly job").click()
    await page.get_by_role("dialog", name="Revoke nightly job?").get_by_role("button", name="Revoke").click()
    await expect(row).to_contain_text("Revoked")
    assert keyed_site.ask("/api/threads", secret) == 401
    watch.forgive(UNAUTHORIZED_MESSAGES)


async def test_a_key_without_admin_sees_no_keys_and_no_server_settings(
    page: Page, watch: PageMonitor, keyed_site: KeyedSite
) -> None:
    await page.goto("/login?next=/settings")
    await log_in(page, new_key(keyed_site.db, "--name", "guest"))
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    await expect(page.get_by_role("heading", name="About")).to_be_visible()
    await expect(page.get_by_role("heading", name="API keys", exact=True)).to_have_count(0)
    await expect(page.get_by_role("heading", name="Server", exact=True)).to_have_count(0)
    await page.goto("/workflows")
    await expect(page.get_by_role("link", name="tutor", exact=True)).to_be_visible()
    await expect(page.get_by_role("button", name="Connect a service")).to_have_count(0)
    watch.forgive(UNAUTHORIZED_MESSAGES)


async def test_revoking_a_key_sends_its_session_back_to_the_login(
    page: Page, watch: PageMonitor, keyed_site: KeyedSite
) -> None:
    secret = new_key(keyed_site.db, "--name", "short-lived")
    await page.goto("/login?next=/workflows")
    await log_in(page, secret)
    await expect(page.get_by_role("link", name="tutor", exact=True)).to_be_visible()

    keyed_site.revoke("short-lived")
    await expect(page).to_have_url(re.compile(r"/login\?next=%2Fworkflows$"))
    watch.faults.clear()  # The socket was closed, and every further request was rejected.


async def test_the_first_key_of_an_open_server_does_not_lock_its_creator_out(
    built: Path, browser: Browser, tmp_path: Path
) -> None:
    with server_process(tmp_path, FLOWS.read_text("utf-8"), db=str(tmp_path / "own.db")) as open_server:
        context = await browser.new_context(base_url=open_server.url, viewport=LAPTOP)
        page = await context.new_page()
        await page.goto("/settings")
        await expect(page.get_by_text("No API keys exist")).to_be_visible()
        await page.get_by_role("button", name="New key").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("Once a key exists, every request needs one")
        await dialog.get_by_role("textbox", name="Name").fill("mine")
        await dialog.get_by_role("button", name="Create key").click()
        await expect(dialog.get_by_text(SECRET_PATTERN)).to_be_visible()
        await dialog.get_by_role("button", name="Done").click()
        await expect(page.get_by_role("listitem").filter(has_text="mine")).to_contain_text("admin")
        assert request_status(f"{open_server.url}/api/threads") == 401

        await page.goto("/play?workflow=scripted")
        await send_message(page, "Still here")
        await wait_for_answer(cell(page, 1), "Still here")
        await context.close()
