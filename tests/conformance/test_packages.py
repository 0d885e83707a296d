"""The npm packages of these tests: exact versions, hashes, no registry URLs."""

import json
from pathlib import Path

HERE = Path(__file__).parent


def test_every_dependency_has_an_exact_version() -> None:
    dependencies = json.loads((HERE / "package.json").read_text("utf-8"))["dependencies"]

    assert {name: version for name, version in dependencies.items() if not version.split("@")[-1][0].isdigit()} == {}


def test_the_lock_file_has_hashes_and_no_registry_urls() -> None:
    packages = json.loads((HERE / "package-lock.json").read_text("utf-8"))["packages"]
    installed = {path: package for path, package in packages.items() if path}

    assert installed
    assert [path for path, package in installed.items() if "integrity" not in package] == []
    assert [path for path, package in installed.items() if "resolved" in package] == []
    assert (HERE / ".npmrc").read_text("utf-8") == "omit-lockfile-registry-resolved=true\n"
