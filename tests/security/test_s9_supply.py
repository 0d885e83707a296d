"""S9, supply chain: locked dependencies, and hosts that are called."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "palaver"
LOCK_FILES = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT_METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def package_names(lines: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower().replace("_", "-") for line in lines}


@pytest.mark.parametrize("lock", LOCK_FILES, ids=lambda path: path.name)
def test_everything_is_locked_by_version_and_hash(lock: Path) -> None:  # S9.1
    text = lock.read_text("utf-8").replace("\\\n", " ")
    pinned = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "-"))]

    assert pinned
    assert [line[:60] for line in pinned if not re.match(r"[\w.\[\],-]+==\S+.*--hash=sha256:[0-9a-f]{64}", line)] == []


def test_declared_dependencies_are_in_the_lock_file() -> None:  # S9.1
    lock = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    locked = package_names([line for line in lock.splitlines() if re.match(r"\w", line)])

    assert package_names(PROJECT_METADATA["dependencies"]) <= locked


def test_source_has_no_pth_files() -> None:  # S9.1
    assert [str(path) for path in (ROOT / "src").rglob("*.pth")] == []


def test_no_key_is_in_the_source() -> None:  # S9.1
    shapes = re.compile(
        r"plv_[0-9A-Za-z]{8}_[0-9A-Za-z]{40}|sk-[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE"
    )
    files = {
        str(path.relative_to(ROOT))
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix in (".py", ".json", ".toml", ".md", ".html", ".js", ".css")
        if shapes.search(path.read_text("utf-8").replace("-----BEGIN [A-Z ]*PRIVATE", ""))
    }

    assert files == set()


def test_source_names_no_external_host() -> None:  # S9.2
    """No telemetry, update check, font or CDN: the URLs in the source are examples, schemas and loopback."""
    files_by_host: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        docstring_ids = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }  # Docstrings are not used as URLs.
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstring_ids:
                for host in re.findall(r"https?://([\w.-]+\.\w+)", node.value):
                    files_by_host.setdefault(host, set()).add(str(path.relative_to(SOURCE)))
    allowed = {"127.0.0.1", "example.org", "example.com", "json-schema.org", "localhost", "www.w3.org"}
    lures = {"0x7f.1", "10.0.0.0", "127.1", "169.254.0.1"}  # What `palaver doctor --attack` asks a server to refuse.

    assert {host: files for host, files in files_by_host.items() if host not in allowed | lures} == {}
    assert {file for host in lures for file in files_by_host[host]} == {"cli/security_probe/content_attacks.py"}
