"""Authentication: credentials become callers, and revoked credentials are refused within seconds."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from palaver.core.api_keys import ALL_SCOPES, Scope, hash_secret
from palaver.errors import ConflictingFields, Overloaded, SettingsError, Unauthorized
from palaver.server.auth import LOOPBACK_CALLER, Authenticator, Caller, steady_clock
from palaver.server.exposure import check_exposure
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage import api_keys, projects
from palaver.storage.api_keys import ApiKey
from palaver.storage.database import MEMORY_URL, Database, open_database

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LOCAL, PUBLIC = Settings(), Settings(host="0.0.0.0")


class AuthSetup:
    """A database that records its calls, clocks that are set by hand, and the authenticator of one server."""

    def __init__(self, database: Database, settings: Settings = LOCAL) -> None:
        self.database = database
        self.now = NOW
        self.seconds = 0.0
        self.asked: list[str] = []
        self.away = False
        self.callers = self.another(settings)

    def another(self, settings: Settings = LOCAL) -> Authenticator:
        """The authenticator of another process."""
        return Authenticator(self, settings, clock=lambda: self.now, monotonic=lambda: self.seconds)  # type: ignore[arg-type]

    def later(self, **time: float) -> None:
        passed = timedelta(**time)
        self.now += passed
        self.seconds += passed.total_seconds()

    async def read(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._do(self.database.read, work, args, kwargs)

    async def write(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._do(self.database.write, work, args, kwargs)

    async def _do(self, way: Any, work: Any, args: Any, kwargs: Any) -> Any:
        self.asked.append(work.__name__)
        if self.away:
            raise Overloaded("The database cannot be reached.")
        return await way(work, *args, **kwargs)

    async def create_key(self, scopes: frozenset[Scope] = ALL_SCOPES, **more: Any) -> tuple[ApiKey, str]:
        """Store a key as another process would; return it with its secret."""
        options: dict[str, Any] = {"project": "default", "name": "test", "now": self.now} | more
        key, secret = api_keys.new_api_key(scopes=scopes, **options)
        await self.database.write(api_keys.insert_key, key)
        return key, secret

    async def ask(self, *headers: tuple[str, str], callers: Authenticator | None = None) -> Caller:
        return await (callers or self.callers).resolve(request(*headers))

    async def is_refused(self, *headers: tuple[str, str]) -> bool:
        try:
            await self.ask(*headers)
        except Unauthorized:
            return True
        return False


def request(*headers: tuple[str, str]) -> Exchange:
    async def nothing(*_: Any) -> Any:
        raise AssertionError("a credential is looked at before anything is read or sent")

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": raw}
    return Exchange(scope, nothing, nothing)


def bearer(secret: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {secret}")


@pytest.fixture
async def setup() -> AsyncIterator[AuthSetup]:
    database = open_database(MEMORY_URL)
    auth_setup = AuthSetup(database)
    yield auth_setup
    await auth_setup.callers.close()
    await database.close()


async def test_without_any_key_loopback_callers_have_all_scopes(setup: AuthSetup) -> None:
    assert await setup.ask() == LOOPBACK_CALLER == Caller("default", ALL_SCOPES, None, "loopback")
    assert await setup.ask(bearer("whatever"), ("x-api-key", "else")) == LOOPBACK_CALLER  # SDKs must send something.
    assert setup.asked == ["has_keys"]


async def test_without_any_key_a_publicly_bound_server_refuses_every_caller(setup: AuthSetup) -> None:
    with pytest.raises(Unauthorized):
        await setup.ask(callers=setup.another(PUBLIC))


async def test_a_key_created_by_another_process_is_required_within_two_seconds(setup: AuthSetup) -> None:
    await setup.ask()
    key, secret = await setup.create_key(frozenset({"read"}), project="team-a")
    setup.later(seconds=2)

    assert await setup.is_refused()
    assert await setup.ask(bearer(secret)) == Caller("team-a", frozenset({"read"}), key.id, "key")


async def test_a_key_created_by_this_process_is_required_at_once(setup: AuthSetup) -> None:
    await setup.ask()
    key, _ = await setup.create_key()
    setup.callers.invalidate(key.id)

    assert await setup.is_refused()


async def test_a_server_stays_closed_after_its_only_key_expired_or_was_revoked(setup: AuthSetup) -> None:
    key, _ = await setup.create_key(expires_at=NOW + timedelta(hours=1))
    assert await setup.is_refused()
    setup.later(hours=2)
    assert await setup.is_refused()
    await setup.database.write(api_keys.revoke_key, "default", key.id, at=setup.now)
    setup.later(hours=2)
    assert await setup.is_refused()

    with pytest.raises(Unauthorized):
        await setup.ask(callers=setup.another())


@pytest.mark.parametrize("header", ["authorization", "x-api-key", "api-key"])
async def test_only_the_complete_key_is_accepted(setup: AuthSetup, header: str) -> None:
    _, secret = await setup.create_key()
    header_value = "ApiKey {}".format if header == "authorization" else str
    other = secret[:-1] + ("0" if secret[-1] != "0" else "1")

    assert (await setup.ask((header, header_value(secret)))).kind == "key"
    for wrong in (other, secret[:-1], secret[4:], secret.upper(), secret + secret, "é", "x" * 10_240, ""):
        assert await setup.is_refused((header, header_value(wrong))), wrong


async def test_two_credentials_are_refused_even_if_one_is_good(setup: AuthSetup) -> None:
    _, secret = await setup.create_key()
    with pytest.raises(ConflictingFields):
        await setup.ask(bearer(secret), ("x-api-key", "other"))


async def test_an_unknown_key_id_is_looked_up_and_compared_like_a_known_one(
    setup: AuthSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = await setup.create_key()
    await setup.ask(bearer(secret))
    compared: list[bytes | None] = []
    monkeypatch.setattr(
        "palaver.core.api_keys.verify_secret", lambda _, stored_hash: compared.append(stored_hash) and False
    )
    await setup.callers.close()
    setup.asked.clear()
    setup.later(seconds=5)
    unknown = "plv_00000000_" + "0" * 40

    for text in (unknown, secret):
        assert await setup.is_refused(bearer(text))

    assert setup.asked == ["find_keys", "find_keys"]
    assert [stored_hash is None for stored_hash in compared] == [True, False]


async def test_the_database_is_queried_once_in_two_seconds(setup: AuthSetup) -> None:
    _, secret = await setup.create_key()
    for _ in range(5):
        await setup.ask(bearer(secret))
    await setup.callers.close()
    assert setup.asked == ["has_keys", "find_keys", "set_last_used"]

    setup.later(seconds=2)
    await asyncio.gather(*(setup.ask(bearer(secret)) for _ in range(5)))
    assert setup.asked == ["has_keys", "find_keys", "set_last_used", "find_keys"]


async def test_the_last_use_is_written_at_most_once_a_minute(setup: AuthSetup) -> None:
    key, secret = await setup.create_key()
    last_uses: list[datetime | None] = []
    for seconds in (0, 30, 29.9, 0.2, 100):
        setup.later(seconds=seconds)
        await setup.ask(bearer(secret))
        await setup.callers.close()
        stored = await setup.database.read(api_keys.get_key, "default", key.id)
        assert stored is not None
        last_uses.append(stored.last_used_at)

    first, second, third = NOW, NOW + timedelta(seconds=60.1), NOW + timedelta(seconds=160.1)
    assert last_uses == [first, first, first, second, third]


async def test_a_failed_write_of_the_last_use_does_not_fail_the_request(setup: AuthSetup) -> None:
    _, secret = await setup.create_key()
    await setup.ask(bearer(secret))
    await setup.callers.close()
    setup.later(minutes=2)
    await setup.callers.find_revoked(
        [Caller("default", ALL_SCOPES, secret.split("_")[1], "key")]
    )  # Caches the key again.
    setup.away = True

    assert (await setup.ask(bearer(secret))).kind == "key"
    await setup.callers.close()
    assert setup.asked[-1] == "set_last_used"


async def test_a_revoked_key_is_refused_at_once_and_by_other_processes_in_two_seconds(setup: AuthSetup) -> None:
    key, secret = await setup.create_key()
    other_process = setup.another()
    await setup.ask(bearer(secret))
    await setup.ask(bearer(secret), callers=other_process)

    await setup.database.write(api_keys.revoke_key, "default", key.id, at=setup.now)
    setup.callers.invalidate(key.id)

    assert await setup.is_refused(bearer(secret))
    setup.later(seconds=2)
    with pytest.raises(Unauthorized):
        await setup.ask(bearer(secret), callers=other_process)
    await other_process.close()


async def test_an_expired_key_is_refused_and_does_not_revive_when_the_clock_is_set_back(
    setup: AuthSetup,
) -> None:
    _, secret = await setup.create_key(expires_at=NOW + timedelta(hours=1))
    setup.later(minutes=59, seconds=59)
    assert (await setup.ask(bearer(secret))).kind == "key"
    setup.later(seconds=1)
    assert await setup.is_refused(bearer(secret))
    setup.now -= timedelta(hours=1)

    assert await setup.is_refused(bearer(secret))


def test_the_steady_clock_follows_forward_jumps_but_not_backward_ones() -> None:
    wall, monotonic = [NOW], [50.0]
    now = steady_clock(lambda: wall[0], lambda: monotonic[0])
    hour = timedelta(hours=1)

    readings = [now()]
    wall[0] += hour  # The machine slept, or was set.
    readings.append(now())
    wall[0] -= 2 * hour
    monotonic[0] += 60
    readings.append(now())

    assert readings == [NOW, NOW + hour, NOW + timedelta(seconds=60)]


async def test_while_the_database_is_down_a_cached_key_is_accepted_for_two_seconds(setup: AuthSetup) -> None:
    _, secret = await setup.create_key()
    await setup.ask(bearer(secret))
    setup.away = True
    assert (await setup.ask(bearer(secret))).kind == "key"  # For two seconds more.
    setup.later(seconds=2)

    with pytest.raises(Overloaded):
        await setup.ask(bearer(secret))


# Sessions


async def log_in(setup: AuthSetup, **more: Any) -> tuple[Caller, tuple[str, str]]:
    _, secret = await setup.create_key(frozenset({"read", "invoke"}), project="team-a", **more)
    caller = await setup.ask(bearer(secret))
    value, _ = await setup.callers.create_session(caller)
    return caller, ("cookie", f"palaver={value}")


async def test_a_session_has_the_rights_of_its_key_for_twelve_hours(setup: AuthSetup) -> None:
    caller, cookie = await log_in(setup)
    by_cookie = await setup.ask(cookie)

    value = cookie[1].removeprefix("palaver=")
    assert by_cookie == msgspec.structs.replace(caller, kind="session", session=hash_secret(value))
    assert await setup.callers.expires_at(by_cookie) == NOW + timedelta(hours=12)
    assert await setup.callers.expires_at(caller) is None
    setup.later(hours=11.99)
    assert await setup.ask(cookie) == by_cookie
    setup.later(hours=0.01)
    assert await setup.is_refused(cookie)


async def test_a_session_does_not_outlive_its_key(setup: AuthSetup) -> None:
    _, cookie = await log_in(setup, expires_at=NOW + timedelta(hours=1))
    by_cookie = await setup.ask(cookie)

    assert await setup.callers.expires_at(by_cookie) == NOW + timedelta(hours=1)
    setup.later(hours=1)
    assert await setup.is_refused(cookie)


async def test_a_session_ends_when_its_key_is_revoked(setup: AuthSetup) -> None:
    caller, cookie = await log_in(setup)
    await setup.ask(cookie)
    assert caller.key is not None
    await setup.database.write(lambda db: api_keys.revoke_key(db, "team-a", caller.key or "", at=NOW) and None)
    setup.callers.invalidate(caller.key)

    assert await setup.is_refused(cookie)


async def test_logging_out_ends_the_session_at_once(setup: AuthSetup) -> None:
    caller, cookie = await log_in(setup)
    by_cookie = await setup.ask(cookie)
    await setup.callers.end_session(by_cookie)
    await setup.callers.end_session(caller)  # By a key: there is nothing to end.

    assert await setup.is_refused(cookie)
    assert await setup.callers.expires_at(by_cookie) is None
    assert await setup.database.read(api_keys.find_sessions, [by_cookie.session or b""]) == []


@pytest.mark.parametrize("value", ["", "0" * 40, "0" * 39, "é" * 40, "x" * 10_240])
async def test_an_invalid_session_cookie_is_refused(setup: AuthSetup, value: str) -> None:
    await log_in(setup)

    assert await setup.is_refused(("cookie", f"palaver={value}"))


# Open connections


async def test_find_revoked_reports_callers_whose_key_is_revoked_erased_or_expired(setup: AuthSetup) -> None:
    callers = setup.callers
    active, revoked, expiring = (
        await setup.create_key(),
        await setup.create_key(),
        await setup.create_key(expires_at=NOW + timedelta(seconds=9)),
    )
    erased = await setup.create_key(project="team-b")
    open_ = [await setup.ask(bearer(secret)) for _, secret in (active, revoked, expiring, erased)]
    assert await callers.find_revoked([*open_, LOOPBACK_CALLER]) == set()

    await setup.database.write(api_keys.revoke_key, "default", revoked[0].id, at=NOW)
    await setup.database.write(projects.revoke_access, "team-b")
    setup.asked.clear()
    setup.later(seconds=2)
    assert await callers.find_revoked(open_) == {open_[1], open_[3]}
    assert setup.asked == ["find_keys"]  # One query for all callers.
    setup.later(seconds=7)
    assert await callers.find_revoked(open_) == {open_[1], open_[2], open_[3]}
    await callers.close()


async def test_find_revoked_reports_callers_whose_session_ended(setup: AuthSetup) -> None:
    _, cookie = await log_in(setup)
    by_cookie = await setup.ask(cookie)
    assert await setup.callers.find_revoked([by_cookie]) == set()
    await setup.database.write(api_keys.delete_session, by_cookie.session or b"")
    setup.later(seconds=2)

    assert await setup.callers.find_revoked([by_cookie]) == {by_cookie}


async def test_while_the_database_is_down_only_keys_known_to_have_expired_are_revoked(setup: AuthSetup) -> None:
    (_, active), (_, expiring) = (
        await setup.create_key(),
        await setup.create_key(expires_at=NOW + timedelta(seconds=9)),
    )
    open_ = [await setup.ask(bearer(active)), await setup.ask(bearer(expiring))]
    await setup.callers.close()
    unknown = Caller("default", ALL_SCOPES, "00000000", "key")
    setup.away = True
    setup.later(seconds=5)
    assert await setup.callers.find_revoked([*open_, unknown]) == set()
    setup.later(seconds=5)

    assert await setup.callers.find_revoked([*open_, unknown]) == {open_[1]}


# Exposure


@pytest.mark.parametrize(
    ("host", "has_key", "refused"),
    [
        ("127.0.0.1", False, False),
        ("::1", False, False),
        ("localhost", True, False),
        ("0.0.0.0", True, False),
        ("0.0.0.0", False, True),
        ("192.0.2.1", False, True),
        ("example.org", False, True),
    ],
)
def test_without_a_key_only_loopback_hosts_are_allowed(host: str, has_key: bool, refused: bool) -> None:
    settings = Settings(host=host)
    if not refused:
        check_exposure(settings, has_key=has_key, database="/srv/palaver.db")
        return
    with pytest.raises(SettingsError) as raised:
        check_exposure(settings, has_key=has_key, database="/srv/palaver.db")

    assert raised.value.message == (
        f"Refusing to listen on {host}: no valid API key found in /srv/palaver.db."
        " Run `palaver key create --db /srv/palaver.db` or use --host 127.0.0.1."
    )
