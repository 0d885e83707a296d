"""The guides for adding something are correct: their files and changes are applied to a copy of the sources, and run.

A block below a line with a path is that file, or a `diff` of it, whose hunks need no line numbers.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

FILE_BLOCK = re.compile(
    r"^`(?P<path>[\w./-]+)`:\n\n(?:<!--[^\n]*-->\n)?```(?P<language>\w+)\n(?P<source>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("adding-a-dialect.md", "adding-an-evaluator.md", "adding-a-framework.md")
EXISTING_TESTS = {
    "core/dialects/test_dialects.py": "bedrock",
    "evaluation/evaluators/test_built_in.py": "ends_with_question",
}
"""Existing tests over a table that a page extends, and a word in the ids of the added cases."""


def apply_diff(text: str, diff: str) -> str:
    """Apply a diff. The old lines of each hunk must occur exactly once."""
    for hunk in diff.partition("@@\n")[2].split("@@\n"):
        lines = [line or " " for line in hunk.splitlines()]
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        assert text.count(before) == 1, f"the sources do not have this once:\n{before}"
        text = text.replace(before, after)
    return text


def test_a_diff_is_applied_where_its_old_lines_occur_once() -> None:
    diff = "--- a/x\n+++ b/x\n@@\n a\n-b\n+B\n@@\n+c\n d\n"

    assert apply_diff("a\nb\n\nd\n", diff) == "a\nB\n\nc\nd\n"
    with pytest.raises(AssertionError, match="the sources do not have this once"):
        apply_diff("a\nx\nd\n", diff)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with all additions of the pages."""
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("web"))
    for page in PAGES:
        for path, (language, source) in page_files(page).items():
            target = folder / path
            target.write_text(apply_diff(target.read_text("utf-8"), source) if language == "diff" else source, "utf-8")
            if path == "pyproject.toml":
                install(folder, tomllib.loads(source)["project"]["entry-points"])
    return folder


def page_files(page: str) -> dict[str, tuple[str, str]]:
    """Return the files of a page: language and source by path."""
    text = (DOCS / "contributing" / page).read_text("utf-8")
    return {match["path"]: (match["language"], match["source"]) for match in FILE_BLOCK.finditer(text)}


def install(folder: Path, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Make a folder look like an installed package with these entry points."""
    metadata = folder / "added-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1.0\n", encoding="utf-8")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {entries[name]}" for name in entries))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def run_python(copy: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(map(str, (copy / "src", copy, ROOT)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("page", PAGES)
def test_the_additions_of_a_page_work(page: str, copy: Path) -> None:
    files = {source for _, source in page_files(page).values()}
    checks = [
        source
        for source in PYTHON_BLOCK.findall((DOCS / "contributing" / page).read_text("utf-8"))
        if source not in files
    ]
    assert checks

    result = run_python(copy, "-W", "error", "-c", "\n".join(checks))

    assert result.returncode == 0, result.stderr


def test_the_additions_pass_the_existing_tests(copy: Path) -> None:
    files = [str(ROOT / "tests" / name) for name in EXISTING_TESTS]
    config = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    plugins = ["-p", "anyio.pytest_plugin", "-p", "_hypothesis_pytestplugin"]  # Others only cost time.

    result = run_python(
        copy, "-m", "pytest", "-v", *config, *plugins, *files, "-k", " or ".join(EXISTING_TESTS.values())
    )

    assert result.returncode == 0, result.stdout[-3000:]
    assert [word for word in EXISTING_TESTS.values() if f"[{word}" not in result.stdout] == []
