"""Adaptor names: parsing, and choosing a version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.adaptors.names import Adaptor, choose_version, nearest_version, parse_adaptor

LONG = "a" * 300
VERSIONS = ["5.9.0", "6.0.0", "6.5.4", "6.5.10", "6.10.0", "7.0.0-beta.1", "not-a-version"]


@pytest.mark.parametrize(
    ("text", "name", "version", "asks"),
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
def test_every_form(text: str, name: str, version: str | None, asks: str) -> None:
    adaptor = parse_adaptor(text)

    assert adaptor is not None
    assert adaptor == Adaptor(name, version)
    assert adaptor.version_kind == asks
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
        LONG,
    ],
)
def test_what_is_no_name(text: str) -> None:
    assert parse_adaptor(text) is None


@given(st.text(max_size=20) | st.text("./-@a", max_size=9).map("@openfn/language-".__add__))
def test_no_name_leads_out_of_a_folder(text: str) -> None:
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
def test_the_version_asked_for(requested: str | None, version: str | None) -> None:
    assert choose_version(Adaptor("@openfn/language-http", requested), VERSIONS) == version


def test_the_nearest_is_lower_and_of_the_same_major() -> None:
    assert nearest_version("6.5.9", VERSIONS) == "6.5.4"
    assert nearest_version("6.99.0", VERSIONS) == "6.10.0"
    assert nearest_version("6.0.0", VERSIONS) is None
    assert nearest_version("7.0.0", VERSIONS) is None
    assert nearest_version("local", VERSIONS) is None
