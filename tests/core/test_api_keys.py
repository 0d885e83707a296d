"""API keys: format, comparison, scopes and expiry."""

import random
from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import api_keys
from palaver.core.api_keys import ALL_SCOPES, ApiKey, Scope
from palaver.errors import InvalidValue

NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
KEY = "plv_abcd1234_" + "0123456789" * 4


def test_a_key_consists_of_an_id_and_a_secret() -> None:
    created = api_keys.generate_key(lambda bits: (1 << bits) - 1)

    assert str(created) == f"plv_{'z' * 8}_{'z' * 40}"
    assert api_keys.parse_key(KEY) == ApiKey("abcd1234", "0123456789" * 4)


@given(st.randoms(use_true_random=False))
def test_every_generated_key_can_be_parsed_and_verified(chance: random.Random) -> None:
    created = api_keys.generate_key(chance.getrandbits)

    assert api_keys.parse_key(str(created)) == created
    assert api_keys.parse_key_id(api_keys.format_key_id(created.id)) == created.id
    assert api_keys.is_token(created.secret)
    assert api_keys.verify_secret(created.secret, api_keys.hash_secret(created.secret))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plv_",
        KEY[:-1],
        KEY + "0",
        KEY + "\n",
        " " + KEY,
        KEY.upper(),
        KEY.replace("plv_", "sk-"),
        KEY.replace("_0", "-0"),
        KEY[:-1] + "i",
        KEY[:-1] + "é",
        KEY[:-1] + "٣",
        f"{KEY}, {KEY}",
        "x" * 10_240,
    ],
)
def test_malformed_keys_are_not_parsed(text: str) -> None:
    assert api_keys.parse_key(text) is None


@pytest.mark.parametrize(
    "text", ["", "0" * 39, "0" * 41, "0" * 39 + "_", "0" * 39 + "é", "Z" * 40, "0" * 19 + "--" + "0" * 19]
)
def test_malformed_tokens_are_rejected(text: str) -> None:
    assert not api_keys.is_token(text)


@pytest.mark.parametrize(
    "text", ["", "abcd1234", "key_abcd123", "key_abcd12345", "key_ABCD1234", "run_abcd1234", "key_abcd1234\n"]
)
def test_malformed_key_ids_are_not_parsed(text: str) -> None:
    assert api_keys.parse_key_id(text) is None


def test_the_repr_of_a_key_masks_its_secret() -> None:
    assert repr(api_keys.parse_key(KEY)) == "ApiKey('abcd1234', '***')"


@given(st.text(max_size=60), st.one_of(st.none(), st.binary(min_size=32, max_size=32)))
def test_random_guesses_do_not_verify(guess: str, stored: bytes | None) -> None:
    guess = guess.encode("utf-8", "replace").decode()

    assert not api_keys.verify_secret(guess, stored)


def test_a_missing_or_empty_hash_never_verifies() -> None:
    assert not api_keys.verify_secret("0" * 40, None)
    assert not api_keys.verify_secret("0" * 40, b"")


@pytest.mark.parametrize(
    ("words", "scopes", "minimal"),
    [
        (["invoke"], {"invoke"}, ["invoke"]),
        (["read", "invoke", "read"], {"invoke", "read"}, ["invoke", "read"]),
        (["admin"], ALL_SCOPES, ["admin"]),
        (["read", "admin"], ALL_SCOPES, ["admin"]),
    ],
)
def test_scopes_are_deduplicated_and_admin_includes_all(words: list[str], scopes: set[str], minimal: list[str]) -> None:
    parsed = api_keys.parse_scopes(words)

    assert parsed == scopes
    assert api_keys.minimal_scopes(parsed) == minimal
    assert api_keys.parse_scopes(api_keys.minimal_scopes(parsed)) == parsed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "An API key needs at least one scope: invoke, read, admin."),
        (["root"], "Unknown scope 'root'. Available: invoke, read, admin."),
        (["Read"], "Unknown scope 'Read'. Available: invoke, read, admin."),
    ],
)
def test_missing_or_unknown_scopes_are_rejected(words: list[str], message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        api_keys.parse_scopes(words, pointer="/scopes")

    assert (raised.value.message, raised.value.pointer) == (message, "/scopes")


def test_all_scopes_contains_every_scope() -> None:
    assert set(get_args(Scope)) == ALL_SCOPES


@pytest.mark.parametrize("name", ["default", "a", "0", "team-a", "a" * 32])
def test_valid_project_names_are_accepted(name: str) -> None:
    assert api_keys.check_project(name) == name


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "a" * 33, "a/b", "a b", "é", "a\n"])
def test_invalid_project_names_are_rejected(name: str) -> None:
    with pytest.raises(InvalidValue, match="Invalid project name"):
        api_keys.check_project(name)


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "a\nb", "\x1b[2J", "a\u202eb"])
def test_key_names_must_be_1_to_100_printable_characters(name: str) -> None:
    assert api_keys.check_key_name("Laptop of Zoë") == "Laptop of Zoë"
    with pytest.raises(InvalidValue, match="1 to 100 printable characters"):
        api_keys.check_key_name(name)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90d", datetime(2027, 2, 13, 12, 30, tzinfo=UTC)),
        ("12h", datetime(2026, 11, 16, 0, 30, tzinfo=UTC)),
        ("1h", datetime(2026, 11, 15, 13, 30, tzinfo=UTC)),
        ("2026-12-31", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-11-15", datetime(2026, 11, 16, tzinfo=UTC)),
        (" 2028-02-29 ", datetime(2028, 3, 1, tzinfo=UTC)),
    ],
)
def test_expiry_is_parsed_from_a_duration_or_a_date(text: str, moment: datetime) -> None:
    assert api_keys.parse_expiry(text, now=NOW) == moment


@pytest.mark.parametrize(
    "text",
    ["", "90", "d", "-1d", "1.5h", "90 d", "3w", "999999d", "2027-02-29", "2027-1-1", "9999-12-31", "tomorrow", "٣d"],
)
def test_malformed_expiry_is_rejected(text: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        api_keys.parse_expiry(text, now=NOW)

    assert raised.value.message == f"Invalid expiry {text!r}: use 90d, 12h or 2026-12-31."


@pytest.mark.parametrize("text", ["0d", "0h", "2026-11-14", "1970-01-01"])
def test_an_expiry_in_the_past_is_rejected(text: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        api_keys.parse_expiry(text, now=NOW)

    assert raised.value.message == f"Invalid expiry {text!r}: must be in the future."


@given(st.text(max_size=12))
def test_any_text_is_a_future_expiry_or_is_rejected(text: str) -> None:
    try:
        moment = api_keys.parse_expiry(text, now=NOW)
    except InvalidValue:
        return

    assert moment > NOW
