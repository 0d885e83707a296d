"""Sessions, keys and projects over REST."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from palaver.core import api_keys as core_keys
from palaver.errors import Overloaded
from palaver.server import auth
from palaver.storage import api_keys as kept
from palaver.storage import projects
from tests.server.keyed_server import KeyedServer, keyed_server

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.fixture
async def backend() -> AsyncIterator[KeyedServer]:
    async with keyed_server() as keyed:
        yield keyed


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: "<time>" if TIME.fullmatch(str(value)) else value for name, value in row.items()}


# Keys


async def test_a_new_key_is_shown_once_and_listed_without_its_secret(backend: KeyedServer) -> None:
    admin, by_admin = await backend.create_key()
    body = {"name": "laptop", "scopes": ["read", "invoke"], "expires_at": "2099-01-01T00:00:00Z"}
    made = await backend.http.post("/api/keys", json=body, headers=by_admin)
    created = made.json()
    secret = core_keys.parse_key(created["secret"])

    assert secret is not None
    assert made.status_code == 201
    assert made.headers["location"] == f"/api/keys/{created['id']}"
    assert without_times(created) == {
        "id": f"key_{secret.id}",
        "name": "laptop",
        "scopes": ["invoke", "read"],
        "created_at": "<time>",
        "expires_at": "<time>",
        "last_used_at": None,
        "revoked_at": None,
        "secret": created["secret"],
    }
    assert created["expires_at"] == "2099-01-01T00:00:00.000000Z"
    (key,) = await backend.database.read(kept.find_keys, [secret.id])
    assert (key.project, key.made_by, key.hash) == ("default", admin.id, core_keys.hash_secret(secret.secret))
    await backend.server.authenticator.close()
    listed = (await backend.http.get("/api/keys", headers=by_admin)).json()
    assert [row["id"] for row in listed["data"]] == [created["id"], f"key_{admin.id}"]
    assert listed["next"] is None
    assert listed["data"][0] == {name: value for name, value in created.items() if name != "secret"}
    by_new = {"x-api-key": created["secret"]}
    assert (await backend.http.post("/echo/invoke", json={}, headers=by_new)).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({}, 400, {"code": "invalid_body", "message": "Missing required field /name.", "path": "/name"}),
        (
            {"name": "x", "scopes": []},
            422,
            {
                "code": "invalid_value",
                "message": "An API key needs at least one scope: invoke, read, admin.",
                "path": "/scopes",
            },
        ),
        (
            {"name": "x", "scopes": ["root"]},
            422,
            {
                "code": "invalid_value",
                "message": "Unknown scope 'root'. Available: invoke, read, admin.",
                "path": "/scopes",
            },
        ),
        (
            {"name": "\x1b[2J", "scopes": ["read"]},
            422,
            {
                "code": "invalid_value",
                "message": "The name of an API key must be 1 to 100 printable characters.",
                "path": "/name",
            },
        ),
        (
            {"name": "x", "scopes": ["read"], "expires_at": "2001-01-01T00:00:00Z"},
            422,
            {"code": "invalid_value", "message": "expires_at must be in the future.", "path": "/expires_at"},
        ),
    ],
)
async def test_an_invalid_key_request_is_rejected(backend: KeyedServer, body: Any, status: int, error: Any) -> None:
    answer = await backend.http.post("/api/keys", json=body)

    assert (answer.status_code, answer.json()) == (status, {"error": error})


@pytest.mark.parametrize("expires", ["tomorrow", "2099-01-01T00:00:00", "90d", 5])
async def test_the_expiry_of_a_key_must_be_a_time_with_a_zone(backend: KeyedServer, expires: Any) -> None:
    answer = await backend.http.post("/api/keys", json={"name": "x", "scopes": ["read"], "expires_at": expires})

    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["path"] == "/expires_at"


async def test_name_and_expiry_of_a_key_can_change_but_not_its_scopes(backend: KeyedServer) -> None:
    _, by_admin = await backend.create_key()
    key, by_key = await backend.create_key("read")
    url = f"/api/keys/{core_keys.format_key_id(key.id)}"
    end = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    renamed = await backend.http.patch(url, json={"name": "new", "expires_at": end}, headers=by_admin)
    same = await backend.http.patch(url, json={"expires_at": None}, headers=by_admin)
    more = await backend.http.patch(url, json={"scopes": ["admin"]}, headers=by_admin)
    nothing = await backend.http.patch(url, json={}, headers=by_admin)

    assert (renamed.status_code, renamed.json()["name"], renamed.json()["expires_at"]) == (
        200,
        "new",
        end.replace("+00:00", "Z"),
    )
    assert (same.json()["name"], same.json()["expires_at"]) == ("new", None)
    assert nothing.json() == same.json()
    assert (more.status_code, more.json()["error"]["path"]) == (422, "/scopes")
    assert (await backend.http.get("/metrics", headers=by_key)).status_code == 200


async def test_a_change_with_a_stale_etag_is_rejected(backend: KeyedServer) -> None:
    _, by_admin = await backend.create_key()
    key, _ = await backend.create_key("read")
    url = f"/api/keys/{core_keys.format_key_id(key.id)}"
    first = await backend.http.patch(url, json={"name": "one"}, headers=by_admin)
    (await backend.http.patch(url, json={"name": "two"}, headers=by_admin)).raise_for_status()

    stale = {**by_admin, "if-match": first.headers["etag"]}
    refused = [await backend.http.patch(url, json={}, headers=stale), await backend.http.delete(url, headers=stale)]

    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in refused] == [(412, "stale_base")] * 2


async def test_a_revoked_key_is_rejected_by_the_next_request_and_stays_listed(backend: KeyedServer) -> None:
    _, by_admin = await backend.create_key()
    key, by_key = await backend.create_key("read")
    url = f"/api/keys/{core_keys.format_key_id(key.id)}"
    before = await backend.http.get("/metrics", headers=by_key)

    revoked = [await backend.http.delete(url, headers=by_admin) for _ in range(2)]

    after = await backend.http.get("/metrics", headers=by_key)
    assert [answer.status_code for answer in (before, *revoked, after)] == [200, 204, 204, 401]
    rows = (await backend.http.get("/api/keys", headers=by_admin)).json()["data"]
    assert [row["revoked_at"] is not None for row in rows if row["id"] == core_keys.format_key_id(key.id)] == [True]


async def test_a_key_of_another_project_gets_the_same_404_as_an_unknown_one(backend: KeyedServer) -> None:
    _, by_admin = await backend.create_key()
    other, by_other = await backend.create_key(project="team-a")
    names = {"other": core_keys.format_key_id(other.id), "unknown": "key_00000000", "odd": "no_key"}

    answers = {
        which: [
            await backend.http.patch(f"/api/keys/{name}", json={"name": "x"}, headers=by_admin),
            await backend.http.delete(f"/api/keys/{name}", headers=by_admin),
        ]
        for which, name in names.items()
    }

    for which, responses in answers.items():
        for answer in responses:
            assert answer.status_code == 404
            assert answer.content == (
                b'{"error":{"code":"not_found","message":"API key \'' + names[which].encode() + b"' not found.\"}}"
            )
    assert [row["id"] for row in (await backend.http.get("/api/keys", headers=by_other)).json()["data"]] == [
        core_keys.format_key_id(other.id)
    ]


async def test_keys_are_listed_a_page_at_a_time(backend: KeyedServer) -> None:
    _, by_admin = await backend.create_key()
    for _ in range(4):
        await backend.create_key("read")

    first = (await backend.http.get("/api/keys?limit=3", headers=by_admin)).json()
    second = (await backend.http.get(f"/api/keys?limit=3&after={first['next']}", headers=by_admin)).json()
    _, by_other = await backend.create_key(project="team-a")
    stolen = await backend.http.get(f"/api/keys?after={first['next']}", headers=by_other)

    assert (len(first["data"]), len(second["data"]), second["next"]) == (3, 2, None)
    assert (stolen.status_code, stolen.json()["error"]["path"]) == (400, "?after")


# Sessions


async def log_in(backend: KeyedServer, secret: str) -> Any:
    return await backend.http.post("/api/session", json={"key": secret})


def bearer_secret(header: dict[str, str]) -> str:
    return header["authorization"].removeprefix("Bearer ")


async def test_login_sets_a_session_cookie_and_logout_ends_the_session(backend: KeyedServer) -> None:
    key, header = await backend.create_key("read", "invoke", project="team-a")
    answer = await log_in(backend, bearer_secret(header))
    set_cookie = answer.headers["set-cookie"]

    assert (answer.status_code, answer.content) == (204, b"")
    assert re.fullmatch(
        r"palaver=[0-9a-z]{40}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict", set_cookie
    )  # The client stores the cookie, as a browser does.
    session = (await backend.http.get("/api/session")).json()
    assert without_times(session) == {
        "project": "team-a",
        "scopes": ["invoke", "read"],
        "key": core_keys.format_key_id(key.id),
        "expires_at": "<time>",
    }
    assert (await backend.http.get("/metrics")).status_code == 200

    cookie = set_cookie.partition(";")[0]
    logout = await backend.http.delete("/api/session")

    assert (logout.status_code, logout.headers["set-cookie"]) == (
        204,
        "palaver=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict",
    )
    assert (await backend.http.get("/metrics", headers={"cookie": cookie})).status_code == 401


async def test_the_session_cookie_of_a_public_server_is_secure_and_host_prefixed() -> None:
    async with keyed_server(host="0.0.0.0") as backend:
        _, header = await backend.create_key("read")
        answer = await log_in(backend, bearer_secret(header))

        cookie = answer.headers["set-cookie"].partition(";")[0]
        assert re.fullmatch(
            r"__Host-palaver=\w{40}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure",
            answer.headers["set-cookie"],
        )
        assert (await backend.http.get("/metrics", headers={"cookie": cookie})).status_code == 200
        plain = cookie.removeprefix("__Host-")
        assert (await backend.http.get("/metrics", headers={"cookie": plain})).status_code == 401


async def test_the_session_route_describes_callers_with_and_without_a_key(backend: KeyedServer) -> None:
    without_key = (await backend.http.get("/api/session")).json()
    end = datetime.now(UTC) + timedelta(hours=1)
    key, header = await backend.create_key(expires_at=end)
    by_key = (await backend.http.get("/api/session", headers=header)).json()

    assert without_key == {"project": "default", "scopes": ["admin"], "key": None, "expires_at": None}
    assert by_key == {
        "project": "default",
        "scopes": ["admin"],
        "key": core_keys.format_key_id(key.id),
        "expires_at": end.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }


async def test_a_failed_login_does_not_reveal_the_reason(backend: KeyedServer) -> None:
    _, header = await backend.create_key("read")
    revoked, of_revoked = await backend.create_key("read")
    await backend.database.write(kept.revoke_key, "default", revoked.id, at=datetime.now(UTC))
    backend.server.authenticator.invalidate(revoked.id)
    _, of_expired = await backend.create_key("read", expires_at=datetime.now(UTC) - timedelta(hours=1))
    wrong = bearer_secret(header)[:-4] + "0000"

    answers = [
        await log_in(backend, secret)
        for secret in (
            "plv_00000000_" + "0" * 40,
            wrong,
            bearer_secret(of_revoked),
            bearer_secret(of_expired),
            "",
            "x" * 2000,
        )
    ]

    assert {(answer.status_code, answer.content) for answer in answers} == {
        (401, b'{"error":{"code":"unauthorized","message":"Invalid API key."}}')
    }
    assert not any("set-cookie" in answer.headers for answer in answers)


async def test_an_address_is_limited_to_ten_failed_logins_a_minute(backend: KeyedServer) -> None:
    _, header = await backend.create_key("read")
    for _ in range(15):
        assert (await log_in(backend, bearer_secret(header))).status_code == 204
    failed = await asyncio.gather(*(log_in(backend, "plv_wrong") for _ in range(12)))

    assert sorted(answer.status_code for answer in failed) == [401] * 10 + [429] * 2
    refused = await log_in(backend, bearer_secret(header))
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limited"
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_a_large_login_body_is_rejected(backend: KeyedServer) -> None:
    answer = await log_in(backend, "x" * 5000)

    assert answer.status_code == 413


# Projects


async def test_a_project_is_created_with_its_first_key(backend: KeyedServer) -> None:
    _, by_admin = await backend.create_key()
    made = await backend.http.post("/api/projects", json={"name": "team-a"}, headers=by_admin)
    created = made.json()

    assert made.status_code == 201
    assert made.headers["location"] == "/api/projects/team-a"
    assert without_times(created | {"key": None}) == {"name": "team-a", "created_at": "<time>", "key": None}
    assert (created["key"]["name"], created["key"]["scopes"]) == ("Initial key", ["admin"])
    session = await backend.http.get("/api/session", headers={"api-key": created["key"]["secret"]})
    assert (session.json()["project"], session.json()["scopes"]) == ("team-a", ["admin"])
    listed = (await backend.http.get("/api/projects", headers=by_admin)).json()
    assert listed == {
        "data": [
            {"name": "default", "created_at": None},
            {"name": "team-a", "created_at": created["created_at"]},
        ],
        "next": None,
    }


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("team-a", 409, "name_taken"), ("default", 409, "name_taken"), ("Team A", 422, "invalid_value")],
)
async def test_a_taken_or_invalid_project_name_is_rejected(
    backend: KeyedServer, name: str, status: int, code: str
) -> None:
    (await backend.http.post("/api/projects", json={"name": "team-a"})).raise_for_status()
    answer = await backend.http.post("/api/projects", json={"name": name}, headers=(await backend.create_key())[1])

    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["path"]) == (
        status,
        code,
        "/name",
    )


async def test_only_admins_of_the_default_project_can_manage_projects(backend: KeyedServer) -> None:
    _, by_other = await backend.create_key(project="team-a")

    answers = [
        await backend.http.get("/api/projects", headers=by_other),
        await backend.http.post("/api/projects", json={"name": "mine"}, headers=by_other),
        await backend.http.delete("/api/projects/team-a?confirm=team-a", headers=by_other),
        await backend.http.delete("/api/projects/nowhere", headers=by_other),
    ]

    assert {(answer.status_code, answer.json()["error"]["message"]) for answer in answers} == {
        (403, "This request needs an API key of the project 'default' with the scope 'admin'.")
    }


async def test_a_project_is_erased_only_with_its_name_as_confirmation(
    backend: KeyedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "CACHE_TTL_S", -1)  # No other server's cache to wait for.
    _, by_admin = await backend.create_key()
    made = (await backend.http.post("/api/projects", json={"name": "team-a"}, headers=by_admin)).json()
    by_team = {"api-key": made["key"]["secret"]}
    await backend.http.get("/api/session", headers=by_team)

    refused = [
        await backend.http.delete(f"/api/projects/{path}", headers=by_admin)
        for path in ("team-a", "team-a?confirm=team-b", "default?confirm=default", "team-b?confirm=team-b")
    ]
    erased = await backend.http.delete("/api/projects/team-a?confirm=team-a", headers=by_admin)
    after = await backend.http.get("/api/session", headers=by_team)

    assert [answer.status_code for answer in (*refused, erased, after)] == [400, 400, 400, 404, 202, 401]
    async with asyncio.timeout(60):
        while await backend.database.read(projects.get_project, "team-a"):  # noqa: ASYNC110 - it is done behind the answer
            await asyncio.sleep(0.01)
    assert await backend.database.read(kept.list_all_keys, "team-a") == []


async def test_an_interrupted_project_erasure_is_logged_and_can_be_repeated(
    backend: KeyedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(auth, "CACHE_TTL_S", -1)
    (await backend.http.post("/api/projects", json={"name": "team-a"})).raise_for_status()
    _, by_admin = await backend.create_key()
    outage = Overloaded("The database cannot be reached.")
    with monkeypatch.context() as broken:
        broken.setattr(projects, "delete_project_batch", Mock(side_effect=outage))
        first = await backend.http.delete("/api/projects/team-a?confirm=team-a", headers=by_admin)
        async with asyncio.timeout(60):
            while not caplog.records:  # noqa: ASYNC110 - it is done behind the answer
                await asyncio.sleep(0.01)
    second = await backend.http.delete("/api/projects/team-a?confirm=team-a", headers=by_admin)
    async with asyncio.timeout(60):
        while await backend.database.read(projects.get_project, "team-a"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert (first.status_code, second.status_code) == (202, 202)
    assert [record.getMessage() for record in caplog.records] == [
        "The project 'team-a' was only partly erased: The database cannot be reached. Erase it again."
    ]


async def test_a_stored_default_project_is_listed_once(backend: KeyedServer) -> None:
    made = datetime(2026, 11, 15, tzinfo=UTC)
    await backend.database.write(projects.insert_project, projects.Project(name="default", created_at=made))

    assert (await backend.http.get("/api/projects")).json() == {
        "data": [{"name": "default", "created_at": "2026-11-15T00:00:00.000000Z"}],
        "next": None,
    }


async def test_a_project_with_active_runs_cannot_be_erased(
    backend: KeyedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend.database.write(projects.insert_project, projects.Project(name="team-a", created_at=datetime.now(UTC)))
    monkeypatch.setattr(projects, "has_active_runs", lambda *_: True)

    answer = await backend.http.delete("/api/projects/team-a?confirm=team-a")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "still_running")
