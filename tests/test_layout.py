"""The layout of the files: module sizes and docstrings, changelog, lock files."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "src").rglob("*.py"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def test_no_module_is_over_700_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in MODULES}

    assert lengths
    assert {path: lines for path, lines in lengths.items() if lines > 700} == {}


def test_every_module_opens_with_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT)) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]

    assert silent == []


def test_the_changelog_begins_with_the_version_that_this_is() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    versions = [heading for heading in headings if heading != "[Unreleased]"]
    assert re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", versions[0]), versions


def test_the_locks_hold_hashes_and_no_address() -> None:
    assert [path.name for path in LOCKS] == ["build.txt", "dev.txt", "peers.txt", "phoenix.txt", "run.txt"]
    for path in LOCKS:
        lock = path.read_text("utf-8")
        assert "--hash=sha256:" in lock
        assert "://" not in lock
        assert "--index-url" not in lock
        assert "--find-links" not in lock
