"""/api/about, /api/settings and /api/erase."""

from palaver.storage import runs
from palaver.storage.migrations.upgrade import SCHEMA_VERSION
from tests.server.keyed_server import keyed_server


async def test_about_says_what_is_running() -> None:
    async with keyed_server() as house:
        _, reader = await house.create_key("read")
        told = (await house.http.get("/api/about", headers=reader)).json()

    assert (told["database"], told["processes"], told["workers"], told["schema"]) == ("sqlite", 1, 0, SCHEMA_VERSION)
    assert told["limits"]["max_body"] == 8 * 1024 * 1024
    assert "db" not in told["limits"]


async def test_settings_are_for_administrators_and_show_no_password() -> None:
    async with keyed_server(db="postgresql://palaver:hunter2@localhost/x") as house:
        _, reader = await house.create_key("read")
        _, admin = await house.create_key("admin")
        refused = await house.http.get("/api/settings", headers=reader)
        told = await house.http.get("/api/settings", headers=admin)

    assert refused.status_code == 403
    assert {"name": "db", "value": "postgresql://palaver:***@localhost/x", "source": "default"} in told.json()["data"]
    assert "hunter2" not in told.text


async def test_a_user_is_counted_and_then_erased_in_ones_own_project_only() -> None:
    async with keyed_server() as house:
        _, ours = await house.create_key("admin")
        _, theirs = await house.create_key("admin", project="theirs")
        body = {"input": "Hi.", "context": {"user_id": "ada"}}
        made = [await house.http.post("/scripted/v1/responses", json=body, headers=who) for who in (ours, theirs)]
        ids = [answer.json()["id"].replace("resp_", "run_") for answer in made]
        ask = {"user": "ada"}
        counted = await house.http.post("/api/erase", json=ask, headers=ours)
        erased = await house.http.post("/api/erase", json={**ask, "dry_run": False}, headers=ours)
        wrong = await house.http.post("/api/erase", json={"user": "a", "session": "b"}, headers=ours)
        left = [
            await house.database.read(runs.get_run, *where) for where in zip(("default", "theirs"), ids, strict=True)
        ]

    assert (counted.json()["runs"], counted.json()["dry_run"]) == (1, True)
    assert (erased.json()["responses"], erased.json()["dry_run"]) == (1, False)
    assert wrong.status_code == 422
    assert [row is None for row in left] == [True, False]
