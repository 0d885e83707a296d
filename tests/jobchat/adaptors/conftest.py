"""A folder of descriptions."""

from pathlib import Path

import pytest

from tests.jobchat.adaptors.fake_registry import describe


@pytest.fixture
def adaptor_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "library@1.0.0.json").write_bytes(describe("one"))
    (folder / "library@1.2.0.json").write_bytes(describe("two"))
    (folder / "library@1.4.0.json").write_bytes(b"broken")
    (folder / "library" / "2.0.0").mkdir(parents=True)
    (folder / "library" / "2.0.0" / "ast.json").write_bytes(describe("three"))
    return folder
