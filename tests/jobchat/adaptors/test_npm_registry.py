"""The npm registry is chosen from npm's own configuration."""

import os
from pathlib import Path

import pytest

from palaver_jobchat.adaptors import npm_registry
from palaver_jobchat.adaptors.npm_registry import configured_registry, normalize_url, users_registry


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def install(folder: Path, script: str) -> dict[str, str]:
    """Return an environment in which `npm` is this script."""
    path = folder / "bin" / "npm"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}"}


def test_environment_overrides_npmrc_in_upper_or_lower_case(folder: Path, home: Path) -> None:
    (home / ".npmrc").write_text("registry=https://user.example/")

    assert (
        configured_registry({"NPM_CONFIG_REGISTRY": "https://env.example/"}, folder=folder, home=home)
        == "https://env.example"
    )
    assert (
        configured_registry({"npm_config_registry": "http://env.example"}, folder=folder, home=home)
        == "http://env.example"
    )
    assert configured_registry({"npm_config_registry": ""}, folder=folder, home=home) == "https://user.example"


def test_npmrc_of_the_working_folder_overrides_that_of_the_user(folder: Path, home: Path) -> None:
    (home / ".npmrc").write_text("registry=https://user.example/")
    (folder / ".npmrc").write_text("; ours\n# registry=https://no.example\n registry = 'https://work.example/npm/' \n")

    assert configured_registry({}, folder=folder, home=home) == "https://work.example/npm"


def test_registry_of_the_scope_overrides_the_general_one(folder: Path, home: Path) -> None:
    (home / ".npmrc").write_text("@openfn:registry=https://scope.example\n@other:registry=https://other.example\n")

    assert (
        configured_registry({"npm_config_registry": "https://env.example"}, folder=folder, home=home)
        == "https://scope.example"
    )


def test_npm_config_userconfig_sets_the_path_of_the_users_file(folder: Path, home: Path, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text('registry="https://${WHERE}.example"\n')
    env = {"NPM_CONFIG_USERCONFIG": str(tmp_path / "rc"), "WHERE": "elsewhere"}

    assert configured_registry(env, folder=folder, home=home) == "https://elsewhere.example"


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"registry", b"registry=", b"registry=${X}", b"[npm]\nregistry=https://x.example"]
)
def test_npmrc_without_a_valid_registry_is_ignored(folder: Path, home: Path, content: bytes) -> None:
    (home / ".npmrc").write_bytes(content)

    assert configured_registry({}, folder=folder, home=home) is None


def test_npm_config_command_is_the_fallback(folder: Path, home: Path) -> None:
    env = install(home, '[ "$*" = "config get registry" ] && echo https://told.example/')

    assert configured_registry(env, folder=folder, home=home) == "https://told.example"


@pytest.mark.parametrize("script", ["exit 1", "echo undefined", "exec sleep 60", "printf '\\377'"])
def test_failing_or_slow_npm_command_gives_no_registry(
    folder: Path, home: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npm_registry, "_NPM_TIMEOUT_S", 0.5)

    assert configured_registry(install(home, script), folder=folder, home=home) is None


@pytest.mark.parametrize("address", [None, "", "  ", "undefined", "ftp://x.example", "npm.example"])
def test_invalid_url_is_normalized_to_none(address: str | None) -> None:
    assert normalize_url(address) is None


def test_users_registry_reads_npmrc_of_the_working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / ".npmrc").write_text("@openfn:registry=https://work.example")

    assert users_registry() == "https://work.example"
