"""Detectors: matches, non-matches, and linear time on hostile texts."""

import time
from functools import partial
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.traces.redaction.detectors import DETECTORS, DetectorContext
from tests.growth import assert_linear

MARK = "‹›"


def redact_with(name: str, text: str) -> tuple[str, int]:
    return DETECTORS[name](text, DetectorContext(lambda _: MARK, time.thread_time, inf))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("email", "Write to <bob.smith+x@example.co.uk>.", (f"Write to <{MARK}>.", 1)),
        ("email", "müller@exämple.de, a@b.org", (f"{MARK}, {MARK}", 2)),
        ("email", "@home at a@b or x@1.2, a@@b.de, @", ("@home at a@b or x@1.2, a@@b.de, @", 0)),
        ("email", "x" * 100 + "@example.com", ("x" * 36 + MARK, 1)),
        ("phone", "+49 151 1234-5678, (555) 123-4567 555-123-4567", (f"{MARK}, {MARK} {MARK}", 3)),
        ("phone", "030 1234567 since 2026-11-15 07:20:00", (f"{MARK} since 2026-11-15 07:20:00", 1)),
        ("phone", "0151/12345678; 0049 30 123456", (f"{MARK}; {MARK}", 2)),
        ("phone", "01.02.2026 10:00, 1794727200123, 3.14159265", ("01.02.2026 10:00, 1794727200123, 3.14159265", 0)),
        ("phone", "a0301234567, +12 34, order 12345", ("a0301234567, +12 34, order 12345", 0)),
        ("card", "4111 1111 1111 1111 or 4111111111111111", (f"{MARK} or {MARK}", 2)),
        ("card", "1234 4111-1111-1111-1111, 3782 822463 10005", (f"1234 {MARK}, {MARK}", 2)),
        ("card", "4111111111111112, 1794727200123456789, 0000000000000000", None),
        ("iban", "DE89 3704 0044 0532 0130 00 OK, GB82WEST12345698765432", (f"{MARK} OK, {MARK}", 2)),
        ("iban", "AT61 1904 3002 3457 3201 WIEN", (f"{MARK} WIEN", 1)),
        ("iban", "DE00 3704 0044 0532 0130 00, AB12CDEF", None),
        ("ip", "10.0.0.1:8080 and 192.168.0.1.", (f"{MARK}:8080 and {MARK}.", 2)),
        ("ip", "::1, [2001:db8::8a2e:370:7334]:80, ::ffff:1.2.3.4", (f"{MARK}, [{MARK}]:80, {MARK}", 3)),
        ("ip", "1:2:3:4:5:6:7:8 fe80::1%eth0", (f"{MARK} {MARK}%eth0", 2)),
        ("ip", "999.1.1.1, 1.2.3.4.5, v1.2.3.4, 12:30:45, std::vec, ::, a::b::c", None),
        ("secrets", "Bearer abcdefgh12345 and sk-abcdefgh", ("Bearer *** and ***", 2)),
        ("secrets", "postgresql://ann:***@host, eyJabcdefghijk", None),
    ],
)
def test_a_detector_redacts_its_matches_and_leaves_other_text(
    name: str, text: str, expected: tuple[str, int] | None
) -> None:
    assert redact_with(name, text) == (expected or (text, 0))


HOSTILE_TEXTS = [
    "a", "a@", "@", "a" * 64 + "@", "a@b.", "1 ", "1234 ", "1", "4111 1111 1111 1112 ", "DE89 ", "AB12 CDEF GHIJ KLMN ",
    "1.2.3.", "a:", ":", "1:2:", "+1 ", "(0", "01.02.", "::1 ", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "://a:", "://a:b@",
    "sk-", "Bearer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "plv_", "palaver=", "basic aaaaaaaaa",
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_detection_time_is_linear_for_hostile_texts(name: str) -> None:
    for piece in HOSTILE_TEXTS:
        assert_linear(partial(redact_with, name), lambda size, piece=piece: piece * (size // len(piece)), 128 * 1024)


@given(st.text(st.sampled_from("a1@.: +-(0/DE4b\n_é")), st.sampled_from(sorted(DETECTORS)))
def test_the_match_count_agrees_with_the_redacted_text(text: str, name: str) -> None:
    clean, count = redact_with(name, text)

    assert (count == 0) == (clean == text)
    assert clean.count(MARK) == (count if name != "secrets" else 0)
