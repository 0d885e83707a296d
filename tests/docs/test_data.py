"""JSON and TOML in the docs are valid, and JavaScript is run by tests/conformance."""

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from palaver.server.settings import Settings, read_settings
from palaver_jobchat.settings import Settings as JobChatSettings
from palaver_jobchat.settings import read_settings as read_jobchat_settings
from tests.docs.pages import PAGES, ROOT, page_name, pages_with

SNIPPETS = [path.read_text("utf-8") for path in sorted((ROOT / "tests/conformance/snippets").iterdir())]
RUN_BY_OTHER_TESTS = {"docs/guides/production-traces.md": "tests/conformance/telemetry/test_guide.py"}
"""Pages with JavaScript that is no snippet, and the tests that run it."""
ENTRY_POINT_GROUPS = {"palaver.workflows", "palaver.evaluators", "palaver.testsets", "palaver.frameworks"}
"""The groups of entry points, as in pyproject.toml."""
OTHER_VARIABLES = {
    "PALAVER_KEY": "a key, in snippets",
    "PALAVER_SCREENSHOTS": "of tests/e2e",
    "PALAVER_URL": "of make web",
    "PALAVER_WEBHOOK": "secrets of webhooks",
}


def decode_json_values(source: str) -> list[object]:
    """Return the values of a block: one, or several in sequence."""
    results: list[object] = []
    decoder, position = json.JSONDecoder(), 0
    while source[position:].strip():
        position += len(source[position:]) - len(source[position:].lstrip())
        value, position = decoder.raw_decode(source, position)
        results.append(value)
    return results


def test_all_values_of_a_block_are_parsed() -> None:
    assert decode_json_values('{"a": 1}\n[2]\n') == [{"a": 1}, [2]]
    with pytest.raises(json.JSONDecodeError):
        decode_json_values('{"a": 1}\n{"b": }\n')


@pytest.mark.parametrize("page", pages_with("json"))
def test_every_json_block_is_valid(page: str) -> None:
    for block in pages_with("json")[page]:
        try:
            assert decode_json_values(block.source), f"{page}:{block.line}"
        except json.JSONDecodeError as error:
            pytest.fail(f"{page}:{block.line}: {error}")


@pytest.mark.parametrize("page", pages_with("toml"))
def test_every_toml_block_has_valid_settings_or_entry_points(page: str, tmp_path: Path) -> None:
    settings = {field.name for field in msgspec.structs.fields(Settings)}
    for block in pages_with("toml")[page]:
        table = tomllib.loads(block.source)
        if "project" in table:
            assert table["project"]["entry-points"].keys() <= ENTRY_POINT_GROUPS, f"{page}:{block.line}"
            continue
        assert table
        assert table.keys() <= {*settings, "jobchat"}, f"{page}:{block.line}"
        (tmp_path / "palaver.toml").write_text(block.source, encoding="utf-8")
        read_settings(env={}, folder=tmp_path)
        read_jobchat_settings({}, tmp_path)


@pytest.mark.parametrize("page", sorted(pages_with("js", "ts").keys() - RUN_BY_OTHER_TESTS.keys()))
def test_every_block_of_javascript_is_run_by_the_conformance_tests(page: str) -> None:
    others = [f"{page}:{block.line}" for block in pages_with("js", "ts")[page] if block.source not in SNIPPETS]

    assert others == []


def test_every_variable_that_a_page_names_is_a_setting() -> None:
    known = {f"PALAVER_{field.name.upper()}" for field in msgspec.structs.fields(Settings)}
    known |= {f"PALAVER_JOBCHAT_{field.name.upper()}" for field in msgspec.structs.fields(JobChatSettings)}
    unknown = [
        f"{page_name(page)}: {variable}"
        for page in PAGES
        for variable in re.findall(r"PALAVER_[A-Z_]*[A-Z]", page.read_text("utf-8"))
        if variable not in known | OTHER_VARIABLES.keys() | {"PALAVER_JOBCHAT"}
    ]

    assert unknown == []


def test_the_entry_point_groups_match_pyproject() -> None:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]

    assert entry_points.keys() == ENTRY_POINT_GROUPS
