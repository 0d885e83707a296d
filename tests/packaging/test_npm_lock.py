"""The npm lock file of the web page: hashes, no registry URLs, every platform, permissive licences."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).parents[2] / "web"
PACKAGES: dict[str, dict[str, Any]] = json.loads((WEB / "package-lock.json").read_text("utf-8"))["packages"]
DEPENDENCIES = {path.rpartition("node_modules/")[2]: entry for path, entry in PACKAGES.items() if path}

DECISION_RECORDS = ("0023-the-web-page.md", "0040-web-page-libraries.md")

PERMISSIVE = set("0BSD Apache-2.0 BSD-2-Clause BSD-3-Clause ISC MIT Unlicense".split())
EXCEPTIONS = {
    "argparse": "Python-2.0",
    "json-schema": "(AFL-2.1 OR BSD-3-Clause)",
    "type-fest": "(MIT OR CC0-1.0)",
}
"""lightningcss (MPL-2.0) is a build tool and not part of its output."""


def test_every_package_has_a_hash_and_no_registry_url() -> None:
    unhashed = [
        path for path, entry in PACKAGES.items() if path and not (entry.get("integrity") or entry.get("inBundle"))
    ]

    assert DEPENDENCIES
    assert unhashed == []
    assert [path for path, entry in PACKAGES.items() if "resolved" in entry] == []
    assert {entry["integrity"].partition("-")[0] for entry in DEPENDENCIES.values() if "integrity" in entry} == {
        "sha512"
    }


def test_no_package_has_an_install_script_and_scripts_are_disabled() -> None:
    # fsevents (macOS) has a script and comes compiled.
    assert [name for name, entry in DEPENDENCIES.items() if entry.get("hasInstallScript") and name != "fsevents"] == []
    assert "ignore-scripts=true" in (WEB / ".npmrc").read_text("utf-8").splitlines()


def test_versions_are_exact() -> None:
    package = json.loads((WEB / "package.json").read_text("utf-8"))

    versions = {**package["dependencies"], **package["devDependencies"], **package["overrides"]}
    assert {name: version for name, version in versions.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)} == {}


@pytest.mark.parametrize(
    "platform", ["darwin-arm64", "linux-arm64-gnu", "linux-x64-gnu", "linux-x64-musl", "win32-x64-msvc"]
)
@pytest.mark.parametrize(
    "tool", ["@oxfmt/binding", "@oxlint/binding", "@rolldown/binding", "@tailwindcss/oxide", "lightningcss"]
)
def test_compiled_packages_are_locked_for_every_platform(tool: str, platform: str) -> None:
    """npm omits packages that a registry lacks, and `npm ci` then fails on the platforms that need them."""
    assert f"{tool}-{platform}" in DEPENDENCIES


def test_all_licences_are_permissive() -> None:
    others = {
        name: entry.get("license", "")
        for name, entry in DEPENDENCIES.items()
        if entry.get("license") not in PERMISSIVE and not name.startswith("lightningcss")
    }

    assert others == EXCEPTIONS


def test_every_direct_dependency_is_in_a_decision_record() -> None:
    package = json.loads((WEB / "package.json").read_text("utf-8"))
    records = (WEB.parent / "docs" / "decisions" / name for name in DECISION_RECORDS)
    record = "".join(path.read_text("utf-8") for path in records)

    names = [*package["dependencies"], *package["devDependencies"], *package["overrides"]]
    assert [name for name in names if f"`{name}`" not in record] == []
