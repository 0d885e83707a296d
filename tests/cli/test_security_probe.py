"""`palaver doctor --attack`: the verdict of each attack, and which servers may be attacked."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.main import cli
from palaver.cli.security_probe import probe
from palaver.cli.security_probe.attack import ProbedServer, parse_target, run_attack
from palaver.cli.security_probe.probe import ATTACKS
from palaver.core.api_keys import Scope
from palaver.protocols.base import HttpResponse
from palaver.server import auth, routing, security, web
from palaver.server.api import keys
from palaver.server.app import Server
from tests.cli.probe_servers import database_with_key, running_server, vulnerable_server

NAMES = [attack.name for attack in ATTACKS]
ATTACKS_NEEDING_KEYS = {"no-key", "wrong-key", "conflicting-keys", "session-cookie"}
ATTACKS_NEEDING_A_CALLER = {"form-posts", "code-injection", "malformed-json", "large-body", "invalid-history"}
ATTACKS_NEEDING_A_CALLER |= {"internal-urls", "error-details"}
SECTIONS = {"S1.2", "S1.3", "S1.4", "S1.5", "S1.6", "S1.7", "S2.1", "S2.2", "S2.3", "S2.7", "S2.8", "S3.1", "S3.2"}
SECTIONS |= {"S4.1", "S4.2", "S4.3", "S5.4", "S6.2", "S7.1", "S8.1", "S8.2"}


def doctor(*arguments: str, key: str = "", stdin: str = "") -> Result:
    return CliRunner(env={"PALAVER_KEY": key}).invoke(
        cli, ["doctor", "--attack", *arguments], input=stdin, standalone_mode=False
    )


def attack(url: str, *, key: str = "") -> tuple[Any, dict[str, str]]:
    """Return the exit code and the verdicts by name."""
    result = doctor(url, "--json", key=key)
    assert result.exception is None, result.exception
    return result.return_value, {row["name"]: row["verdict"] for row in msgspec.json.decode(result.output)["checks"]}


def limit_attacks(monkeypatch: pytest.MonkeyPatch, names: set[str]) -> None:
    """Limit the probe to these attacks."""
    monkeypatch.setattr(probe, "ATTACKS", [attack for attack in ATTACKS if attack.name in names])


def held_verdicts(but: set[str] | frozenset[str] = frozenset()) -> dict[str, str]:
    return {name: "not applicable" if name in but else "held" for name in NAMES}


def test_attack_names_are_unique_and_cover_these_statements() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {attack.section for attack in ATTACKS} == SECTIONS


def test_a_server_without_keys_holds_against_all_applicable_attacks(tmp_path: Path) -> None:
    with running_server(tmp_path / "web") as url:
        result = attack(url)

    assert result == (0, held_verdicts(but=ATTACKS_NEEDING_KEYS))


def test_a_server_with_keys_holds_against_all_attacks_and_stores_nothing(tmp_path: Path) -> None:
    database, key = database_with_key()
    with running_server(tmp_path / "web", database) as url:
        result = attack(url, key=key)
        header = {"authorization": f"Bearer {key}"}
        paths = ("/api/runs", "/api/traces", "/api/threads", "/api/connections")
        documents = {path: httpx.get(url + path, headers=header, trust_env=False).json() for path in paths}

    assert result == (0, held_verdicts())
    assert [document.get("items", document.get("data")) for document in documents.values()] == [[]] * len(paths)


@pytest.mark.parametrize("key_scopes", [(), ("read",)])
def test_attacks_that_need_a_caller_are_skipped_without_a_key_that_may_invoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_scopes: tuple[Scope, ...]
) -> None:
    selected = ATTACKS_NEEDING_KEYS | ATTACKS_NEEDING_A_CALLER | {"still-healthy"}
    limit_attacks(monkeypatch, selected)
    database, key = database_with_key(*key_scopes)
    with running_server(tmp_path / "web", database) as url:
        result = attack(url, key=key if key_scopes else "")

    left_out = (
        ATTACKS_NEEDING_A_CALLER if key_scopes else ATTACKS_NEEDING_A_CALLER | {"conflicting-keys", "session-cookie"}
    )
    assert result == (0, {name: verdict for name, verdict in held_verdicts(but=left_out).items() if name in selected})


def test_every_attack_is_broken_on_a_vulnerable_server() -> None:
    with vulnerable_server() as url:
        result = attack(url, key="plv_abcd1234_secret")

    assert result == (1, dict.fromkeys(NAMES, "broken"))


# Vulnerabilities


def skip_check(*_: object, **__: object) -> None:
    return None


def return_true(*_: object) -> bool:
    return True


def return_false(*_: object) -> bool:
    return False


def verbose_error(_: Server, error: Exception, *__: object) -> HttpResponse:
    trace = f'Traceback (most recent call last):\n  File "app.py", line 1\n{error}'
    return HttpResponse(status=400, body=trace.encode())


async def resolve_as_loopback(*_: object) -> auth.Caller:
    return auth.LOOPBACK_CALLER


async def keep_session(*_: object) -> None:
    return None


async def serve_password_file(*_: object) -> HttpResponse:
    return HttpResponse(status=200, body=b"root:x:0:0")


def insecure_cookie(_: object, value: str, **__: object) -> str:
    return f"palaver={value}; Path=/; SameSite=Strict"


def policy_with_inline_scripts(**_: object) -> str:
    return "default-src 'none'; script-src 'unsafe-inline'"


def attack_names(names: str) -> set[str]:
    return set(names.split())


VULNERABILITIES: dict[str, tuple[list[tuple[object, str, object]], set[str]]] = {
    "any Host": ([(security, "_is_allowed_host", return_true)], attack_names("foreign-host forwarded-headers")),
    "any Origin": ([(security, "check_origin", skip_check)], attack_names("foreign-origin foreign-websocket")),
    "any type of body": ([(security, "check_json", skip_check)], attack_names("form-posts")),
    "any spelling": ([(routing, "is_unnormalized", return_false)], attack_names("path-spelling")),
    "any size of a head": ([(security, "_check_size", skip_check)], attack_names("large-headers")),
    "any file": (
        [(routing, "is_unnormalized", return_false), (web.WebPages, "_asset_response", serve_password_file)],
        attack_names("path-traversal"),
    ),
    "a page without headers": ([(web, "SECURITY_HEADERS", ())], attack_names("page-headers file-headers")),
    "inline scripts": (
        [(web, "content_security_policy", policy_with_inline_scripts)],
        attack_names("page-headers"),
    ),
    "errors that tell all": ([(Server, "error_response", verbose_error)], attack_names("error-details")),
    "no look at keys": (
        [(auth.Authenticator, "resolve", resolve_as_loopback)],
        attack_names("no-key wrong-key conflicting-keys"),
    ),
    "a cookie for scripts": ([(keys, "session_cookie", insecure_cookie)], attack_names("session-cookie")),
    "no end of sessions": ([(auth.Authenticator, "end_session", keep_session)], attack_names("session-cookie")),
}


@pytest.fixture(scope="module")
def server_with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProbedServer]:
    database, key = database_with_key()
    with running_server(tmp_path_factory.mktemp("holes") / "web", database, rate_per_minute=0) as url:
        yield ProbedServer(parse_target(url), key, wants_key=True, scopes=frozenset({"admin"}))


def verdicts(server: ProbedServer, names: set[str]) -> dict[str, str]:
    async def selected() -> dict[str, str]:
        result = [await run_attack(attack, server) for attack in ATTACKS if attack.name in names]
        return {finding.name: finding.verdict for finding in result}

    routing._resolve_cached.cache_clear()  # Drops the paths that were resolved without the vulnerability.
    try:
        return asyncio.run(selected())
    finally:
        routing._resolve_cached.cache_clear()


@pytest.mark.parametrize("vulnerability", VULNERABILITIES)
def test_a_hole_in_a_real_server_is_found_until_it_is_closed(
    server_with_key: ProbedServer, monkeypatch: pytest.MonkeyPatch, vulnerability: str
) -> None:
    patches, broken = VULNERABILITIES[vulnerability]
    with monkeypatch.context() as patch:
        for owner, name, value in patches:
            patch.setattr(owner, name, value)
        result = verdicts(server_with_key, broken)

    assert result == dict.fromkeys(broken, "broken")
    assert verdicts(server_with_key, broken) == dict.fromkeys(broken, "held")


def test_a_server_that_allows_private_urls_is_reported_as_broken(tmp_path: Path) -> None:
    with running_server(tmp_path / "web", allow_private_urls=True) as url:
        server = ProbedServer(parse_target(url), scopes=frozenset({"admin"}))
        result = verdicts(server, {"internal-urls"})

    assert result == {"internal-urls": "broken"}


def test_a_server_behind_a_path_prefix_is_probed_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selected = {"foreign-host", "foreign-websocket", "path-spelling", "path-traversal", "file-headers", "error-details"}
    limit_attacks(monkeypatch, selected)
    with running_server(tmp_path / "web", root_path="/base") as url:
        result = attack(f"{url}/base/")

    assert result == (0, dict.fromkeys(selected, "held"))


def test_a_public_server_must_require_a_key() -> None:
    server = ProbedServer(parse_target("https://chat.example.org"), scopes=frozenset({"admin"}))

    assert verdicts(server, {"no-key", "foreign-host"}) == {"no-key": "broken", "foreign-host": "not applicable"}


# Output


def test_broken_attacks_are_shown_with_request_and_response_but_without_the_key() -> None:
    key = f"plv_abcd1234_{'s' * 40}"
    with vulnerable_server() as url:
        result = doctor(url, key=key)

    lines = result.output.splitlines()
    first = lines.index("✗ foreign-host        rejects foreign Host headers (DNS rebinding)")
    assert lines[0] == f"{url}: not identified as Palaver, authenticated"
    assert lines[first + 1] == "    request: GET /health with Host: palaver-doctor.invalid"
    assert lines[first + 2].startswith("    response: 200: root:x:0 Traceback")
    assert lines[-1] == f"0 of {len(ATTACKS)} checks passed, {len(ATTACKS)} failed."
    assert "    response: 200, body not shown" in lines
    assert "s" * 20 not in result.output


def test_json_has_all_fields_of_every_finding() -> None:
    with vulnerable_server() as url:
        report = msgspec.json.decode(doctor(url, "--json").output)

    shape = {name: report[name] for name in ("url", "palaver", "wants_key", "with_key", "ok")}
    assert shape == {"url": url, "palaver": None, "wants_key": True, "with_key": False, "ok": False}
    assert report["checks"][1] == {
        "name": "single-host-header",
        "says": "requires exactly one Host header",
        "sent": "GET /health without a Host header",
        "came": "200: root:x:0 Traceback (most recent call last) GET /health HTTP/1.1\\r\\nConnection: close",
        "verdict": "broken",
    }


# Permission, and the key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["https://chat.example.org"], "chat.example.org is not this machine. Only probe servers that you own"),
        (["http://192.0.2.1:8642"], "192.0.2.1 is not this machine."),
        (["http://localhost.example.org"], "localhost.example.org is not this machine."),
        (["http://localhost:1", "--key-file", "nowhere.key"], "Cannot read nowhere.key"),
        (["http://localhost:1", "--key-file", "-"], "Invalid key in standard input"),
        (["http://localhost:1", "app.py"], "--attack can't be combined with TARGET, --db or --all."),
        (["ftp://localhost/"], "must start with http"),
        (["http://127.0.0.1:1"], "Cannot reach http://127.0.0.1:1"),
    ],
)
def test_targets_and_key_files_that_cannot_be_used_are_refused(arguments: list[str], message: str) -> None:
    result = doctor(*arguments, stdin="a key of several words\n")

    assert message in str(result.exception), result.output


def test_a_key_is_not_sent_over_plain_http() -> None:
    result = doctor("http://192.0.2.1", "--yes-it-is-mine", key="plv_abcd1234_x")

    assert str(result.exception) == "Refusing to send a key over plain HTTP. Use https://… or pass no key."


def test_a_key_that_the_server_rejects_is_an_error(tmp_path: Path) -> None:
    database, key = database_with_key()
    with running_server(tmp_path / "web", database) as url:
        refused = doctor(url, "--key-file", "-", stdin=f"{key[:-1]}\n")

    assert str(refused.exception).endswith(" rejected the key as invalid or expired. Use another key or none.")


def test_warns_about_a_key_file_that_others_can_read(tmp_path: Path) -> None:
    path = tmp_path / "admin.key"
    path.write_text("plv_abcd1234_x\n", encoding="utf-8")
    path.chmod(0o644)

    first = doctor("http://127.0.0.1:1", "--key-file", str(path))
    path.chmod(0o600)
    second = doctor("http://127.0.0.1:1", "--key-file", str(path))

    message = f"warning: Other users can read {path}, which contains an API key. Run `chmod 600 {path}`.\n"
    assert (first.stderr, second.stderr) == (message, "")


def test_attack_options_require_attack() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--yes-it-is-mine"], standalone_mode=False)

    assert str(result.exception) == "--key-file and --yes-it-is-mine require --attack."
