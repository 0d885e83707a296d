"""Credentials of a request: every way to send a key, and lookalikes."""

import pytest

from palaver.errors import ConflictingFields
from palaver.server.auth import Credential, cookie_name, read_credential, session_cookie
from palaver.server.request import RequestHeaders
from palaver.server.settings import Settings

KEY = "plv_abcd1234_" + "0123456789" * 4
OTHER_KEY = "plv_abcd1234_" + "9876543210" * 4
LOOPBACK, PUBLIC = Settings(), Settings(host="0.0.0.0")


def parse_credential(*headers: tuple[str, str], cookie: str = "palaver") -> Credential | None:
    return read_credential(
        RequestHeaders([(name.encode(), value.encode("latin-1")) for name, value in headers]), cookie
    )


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", f"Bearer {KEY}")],
        [("authorization", f"bearer {KEY}")],
        [("authorization", f"BEARER   {KEY} ")],
        [("authorization", f"ApiKey {KEY}")],
        [("x-api-key", KEY)],
        [("api-key", KEY)],
        [("x-api-key", f" {KEY} ")],
        [("authorization", f"Bearer {KEY}"), ("x-api-key", KEY), ("api-key", KEY)],
        [("authorization", "Basic dXNlcjpwYXNz"), ("x-api-key", KEY)],
    ],
)
def test_a_key_is_read_from_any_supported_header(headers: list[tuple[str, str]]) -> None:
    assert parse_credential(*headers) == Credential("key", KEY)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "")],
        [("authorization", KEY)],
        [("authorization", "Basic dXNlcjpwYXNz")],
        [("proxy-authorization", f"Bearer {KEY}")],
        [("cookie", "")],
        [("cookie", "theme=dark; xpalaver=1; palaver2=2")],
    ],
)
def test_other_headers_carry_no_credential(headers: list[tuple[str, str]]) -> None:
    assert parse_credential(*headers) is None


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ([("authorization", "Bearer")], ""),
        ([("authorization", "Bearer ")], ""),
        ([("x-api-key", "")], ""),
        ([("x-api-key", KEY), ("x-api-key", KEY)], f"{KEY}, {KEY}"),
        ([("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {KEY}")], f"{KEY}, Bearer {KEY}"),
        ([("api-key", "é" * 40)], "é" * 40),
    ],
)
def test_an_empty_repeated_or_non_ascii_key_is_read_unchanged(headers: list[tuple[str, str]], text: str) -> None:
    assert parse_credential(*headers) == Credential("key", text)


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", f"Bearer {KEY}"), ("x-api-key", OTHER_KEY)],
        [("x-api-key", KEY), ("api-key", OTHER_KEY)],
        [("x-api-key", KEY), ("api-key", "")],
        [("x-api-key", KEY), ("cookie", "palaver=abc")],
        [("x-api-key", KEY), ("cookie", f"palaver={KEY}")],
    ],
)
def test_two_different_credentials_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ConflictingFields, match="two different credentials"):
        parse_credential(*headers)


@pytest.mark.parametrize(
    ("cookies", "value"),
    [
        (["palaver=abc"], "abc"),
        (["theme=dark; palaver=abc;other=1"], "abc"),
        (["theme=dark", "palaver=abc"], "abc"),
        (["palaver="], ""),
        (["palaver"], ""),
        (["palaver=abc; palaver=abc"], ""),
        (["palaver=abc", "palaver=def"], ""),
    ],
)
def test_a_session_is_read_from_its_cookie_and_empty_if_repeated(cookies: list[str], value: str) -> None:
    assert parse_credential(*(("cookie", text) for text in cookies)) == Credential("session", value)


def test_the_cookie_of_a_public_server_cannot_be_set_by_another_host() -> None:
    assert (cookie_name(LOOPBACK), cookie_name(PUBLIC)) == ("palaver", "__Host-palaver")
    assert parse_credential(("cookie", "palaver=abc"), cookie="__Host-palaver") is None
    assert session_cookie(PUBLIC, "abc", seconds=43200) == (
        "__Host-palaver=abc; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"
    )
    assert session_cookie(LOOPBACK, "", seconds=0) == "palaver=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
