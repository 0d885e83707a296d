"""Adaptor names: parsing, and choosing a version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.adaptors.names import Adaptor, choose_version, nearest_version, parse_adaptor

LONG_NAME = "a" * 300
VERSIONS = ["5.9.0", "6.0.0", "6.5.4", "6.5.10", "6.10.0", "7.0.0-beta.1", "not-a-version"]


@pytest.mark.parametrize(
    ("text", "name", "version", "kind"),
    [
        ("@openfn/language-http@6.5.4", "@openfn/language-http", "6.5.4", "exact"),
        (" http@6.5.4 ", "@openfn/language-http", "6.5.4", "exact"),
        ("language-http", "@openfn/language-http", None, "newest"),
        ("http", "@openfn/language-http", None, "newest"),
        ("http@latest", "@openfn/language-http", "latest", "newest"),
        ("http@6", "@openfn/language-http", "6", "range"),
        ("@openfn/language-http@6.5", "@openfn/language-http", "6.5", "range"),
        ("http@7.0.0-beta.1", "@openfn/language-http", "7.0.0-beta.1", "exact"),
        ("http@local", "@openfn/language-http", "local", "other"),
        ("http@^6.0.0", "@openfn/language-http", "^6.0.0", "other"),
        ("@mine/thing@1.0.0", "@mine/thing", "1.0.0", "exact"),
    ],
)
def test_adaptor_names_are_parsed_in_all_forms(text: str, name: str, version: str | None, kind: str) -> None:
    adaptor = parse_adaptor(text)

    assert adaptor is not None
    assert adaptor == Adaptor(name, version)
    assert adaptor.version_kind == kind
    assert adaptor.short == (None if name == "@mine/thing" else "http")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a@b@c",
        "http@",
        "ht tp",
        "http @6",
        "@openfn",
        "@openfn/",
        "@/http",
        "../http@1",
        "a/b@1",
        "http@../1",
        "é",
        LONG_NAME,
    ],
)
def test_invalid_adaptor_name_is_not_parsed(text: str) -> None:
    assert parse_adaptor(text) is None


@given(st.text(max_size=20) | st.text("./-@a", max_size=9).map("@openfn/language-".__add__))
def test_short_name_cannot_escape_a_folder(text: str) -> None:
    adaptor = parse_adaptor(text)

    if adaptor is not None and adaptor.short is not None:
        assert "/" not in adaptor.short
        assert not adaptor.short.startswith(".")


@pytest.mark.parametrize(
    ("requested", "version"),
    [
        (None, "6.10.0"),
        ("latest", "6.10.0"),
        ("6", "6.10.0"),
        ("6.5", "6.5.10"),
        ("6.5.4", "6.5.4"),
        ("7.0.0-beta.1", "7.0.0-beta.1"),
        ("6.5.5", None),
        ("8", None),
        ("local", None),
    ],
)
def test_choose_version_picks_the_highest_matching_version(requested: str | None, version: str | None) -> None:
    assert choose_version(Adaptor("@openfn/language-http", requested), VERSIONS) == version


def test_nearest_version_is_lower_and_of_the_same_major_version() -> None:
    assert nearest_version("6.5.9", VERSIONS) == "6.5.4"
    assert nearest_version("6.99.0", VERSIONS) == "6.10.0"
    assert nearest_version("6.0.0", VERSIONS) is None
    assert nearest_version("7.0.0", VERSIONS) is None
    assert nearest_version("local", VERSIONS) is None
