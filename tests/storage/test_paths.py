"""Default paths of databases, and their permissions."""

from pathlib import Path

import pytest

from palaver.storage import paths


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = paths.default_path()
    path.parent.mkdir(parents=True, mode=0o700)
    path.touch(mode=0o600)
    return path


def test_the_default_is_a_file_in_the_users_data_folder(database: Path, tmp_path: Path) -> None:
    assert database == tmp_path / "palaver" / "palaver.db"
    assert paths.lock_path(database) == tmp_path / "palaver" / "palaver.db.lock"


def test_paths_readable_by_others_are_reported_with_a_chmod_command(database: Path) -> None:
    assert paths.permission_warnings(database) == []

    database.chmod(0o640)
    database.parent.chmod(0o755)
    assert paths.permission_warnings(database) == [
        f"Other users can read {database}. Run `chmod 600 {database}`.",
        f"Other users can read {database.parent}. Run `chmod 700 {database.parent}`.",
    ]


def test_permissions_of_a_custom_folder_are_not_checked(database: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other.db"
    elsewhere.touch(mode=0o600)
    tmp_path.chmod(0o755)

    assert paths.permission_warnings(elsewhere) == []
