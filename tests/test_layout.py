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
    undocumented = [
        str(path.relative_to(ROOT)) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]

    assert undocumented == []


def test_the_changelog_begins_with_the_current_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    versions = [heading for heading in headings if heading != "[Unreleased]"]
    assert re.fullmatch(rf"\[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", versions[0]), versions


def test_the_lock_files_have_hashes_and_no_urls() -> None:
    assert [path.name for path in LOCKS] == ["build.txt", "demo.txt", "dev.txt", "peers.txt", "phoenix.txt", "run.txt"]
    for path in LOCKS:
        lock = path.read_text("utf-8")
        assert "--hash=sha256:" in lock
        assert "://" not in lock
        assert "--index-url" not in lock
        assert "--find-links" not in lock


def test_package_docstrings_list_their_modules() -> None:
    public_api, migrations = ROOT / "src/palaver", ROOT / "src/palaver/storage/migrations/versions"
    packages = [path.parent for path in MODULES if path.name == "__init__.py"]
    checked = [package for package in packages if package not in (public_api, migrations)]

    assert len(checked) > 30
    assert {str(p.relative_to(ROOT)): listed_modules(p) for p in checked} == {
        str(p.relative_to(ROOT)): module_names(p) for p in checked
    }


def listed_modules(package: Path) -> list[str]:
    """Return the names in the lines `name    what it holds` of the package's docstring."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    return sorted(re.findall(r"^(?: {4})?(\w+)  +\S", docstring, re.MULTILINE))


def module_names(package: Path) -> list[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return sorted(modules | {path.parent.name for path in package.glob("*/__init__.py")})
