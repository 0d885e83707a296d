"""/api/about, /api/settings and /api/erase."""

from palaver.storage import runs
from palaver.storage.migrations.upgrade import SCHEMA_VERSION
from tests.server.keyed_server import keyed_server


async def test_about_describes_the_running_server() -> None:
    async with keyed_server() as server:
        _, reader = await server.create_key("read")
        about = (await server.http.get("/api/about", headers=reader)).json()

    assert (about["database"], about["processes"], about["workers"], about["schema"]) == (
        "sqlite",
        1,
        0,
        SCHEMA_VERSION,
    )
    assert about["limits"]["max_body"] == 8 * 1024 * 1024
    assert "db" not in about["limits"]


async def test_settings_are_for_administrators_and_show_no_password() -> None:
    async with keyed_server(db="postgresql://palaver:hunter2@localhost/x") as server:
        _, reader = await server.create_key("read")
        _, admin = await server.create_key("admin")
        refused = await server.http.get("/api/settings", headers=reader)
        allowed = await server.http.get("/api/settings", headers=admin)

    assert refused.status_code == 403
    assert {"name": "db", "value": "postgresql://palaver:***@localhost/x", "source": "default"} in allowed.json()[
        "data"
    ]
    assert "hunter2" not in allowed.text


async def test_a_user_is_counted_and_then_erased_only_in_the_callers_project() -> None:
    async with keyed_server() as server:
        _, ours = await server.create_key("admin")
        _, theirs = await server.create_key("admin", project="theirs")
        body = {"input": "Hi.", "context": {"user_id": "ada"}}
        made = [await server.http.post("/scripted/v1/responses", json=body, headers=who) for who in (ours, theirs)]
        ids = [answer.json()["id"].replace("resp_", "run_") for answer in made]
        selection = {"user": "ada"}
        counted = await server.http.post("/api/erase", json=selection, headers=ours)
        erased = await server.http.post("/api/erase", json={**selection, "dry_run": False}, headers=ours)
        wrong = await server.http.post("/api/erase", json={"user": "a", "session": "b"}, headers=ours)
        remaining = [
            await server.database.read(runs.get_run, *run_key)
            for run_key in zip(("default", "theirs"), ids, strict=True)
        ]

    assert (counted.json()["runs"], counted.json()["dry_run"]) == (1, True)
    assert (erased.json()["responses"], erased.json()["dry_run"]) == (1, False)
    assert wrong.status_code == 422
    assert [row is None for row in remaining] == [True, False]
