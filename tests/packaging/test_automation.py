"""The files for GitHub and pre-commit: what they run exists, and the steps that can run here work."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.server_process import free_port

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
IMAGE = "example/palaver:0.1.0"
DOCKER = r"""#!/bin/bash
# Runs the program of a container on this machine, because there is no Docker daemon. Checks how it is called.
set -eu
command=$1
shift
case "$command $*" in
"build --file deploy/Dockerfile --tag $IMAGE .")
    ;;
"create --name palaver-check-"*" --volume "*":/app:ro --publish 127.0.0.1::8642 $IMAGE")
    echo "${4%:/app:ro}" >"$STATE/app" ;;
"run --rm --volumes-from palaver-check-"*" $IMAGE key create "*)
    shift 4
    exec palaver "$@" ;;
"start palaver-check-"*)
    cd "$(cat "$STATE/app")"
    bash -c 'palaver serve app.py & echo $! >"$STATE/process"; code=0; wait $! || code=$?; echo $code >"$STATE/code"' \
        </dev/null >"$STATE/log" 2>&1 & ;;
"exec palaver-check-"*" python -c "*)
    shift
    exec "$@" ;;
"port palaver-check-"*" 8642/tcp")
    echo "127.0.0.1:$PALAVER_PORT" ;;
"stop --time 45 palaver-check-"*)
    kill -TERM "$(cat "$STATE/process")"
    for _ in $(seq 600); do [ -s "$STATE/code" ] && exit; sleep 0.1; done
    exit 1 ;;
"inspect --format {{.State.ExitCode}} palaver-check-"*)
    cat "$STATE/code" ;;
"rm --force --volumes palaver-check-"*)
    kill -KILL "$(cat "$STATE/process")" ;;
*)
    echo "unexpected: docker $command $*" >&2; exit 2 ;;
esac
"""


def read_yaml(path: Path) -> Any:
    return msgspec.yaml.decode(path.read_bytes())


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read_yaml(path)["jobs"].values() for step in job["steps"]]


def step_script(workflow: str, name: str) -> str:
    [script] = [step["run"] for step in steps(ROOT / ".github" / "workflows" / workflow) if step.get("name") == name]
    return script


def make_targets(text: str) -> set[str]:
    return set(re.findall(r"^(?:entry: )?make (\S+)", text, re.MULTILINE))


def test_ci_runs_the_tests_on_every_python_version_that_is_claimed() -> None:
    matrix = read_yaml(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]

    prefix = "Programming Language :: Python :: 3."
    versions = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if name.startswith(prefix)]
    assert versions
    assert set(versions) <= set(matrix["python"])
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]
    assert step_script("ci.yml", "Run all checks and tests") == "make test"


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / ".pre-commit-config.yaml"], ids=lambda path: path.name)
def test_every_target_and_script_that_is_run_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    targets = make_targets(re.sub(r"^\s+(?:run: )?", "", text, flags=re.MULTILINE))
    scripts = set(re.findall(r"\bdeploy/\w+\.sh\b", text))

    known = set(re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert targets | scripts
    assert targets <= known
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_are_valid_shell_and_actions_have_a_version(path: Path) -> None:
    scripts = [step["run"] for step in steps(path) if "run" in step]
    actions = [step["uses"] for step in steps(path) if "uses" in step]

    assert [script for script in scripts if subprocess.run(["bash", "-n", "-c", script], check=False).returncode] == []
    assert [action for action in actions if not re.search(r"@(?:release/)?v\d+$", action)] == []
    assert read_yaml(path)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize(
    ("tag", "heading", "is_released"),
    [
        (f"v{PROJECT['version']}", f"## [{PROJECT['version']}] - 2026-11-16", True),
        ("v99.0.0", f"## [{PROJECT['version']}] - 2026-11-16", False),
        (f"v{PROJECT['version']}", "## [Unreleased]", False),
    ],
)
def test_only_a_tag_with_the_version_and_its_changelog_is_released(
    tag: str, heading: str, is_released: bool, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"), "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n", "utf-8")

    result = subprocess.run(
        ["bash", "-e", "-c", step_script("release.yml", "Compare the tag with the version")],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GITHUB_REF_NAME": tag},
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (result.returncode == 0) is is_released


@pytest.fixture
def docker(tmp_path: Path) -> dict[str, str]:
    """The environment of a script that calls `docker`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text(DOCKER, "utf-8")
    (programs / "docker").chmod(0o755)
    return {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "STATE": str(tmp_path),
        "IMAGE": IMAGE,
        "PALAVER_DB": str(tmp_path / "palaver.db"),
        "PALAVER_PORT": str(free_port()),
    }


def check_image(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [ROOT / "deploy" / "check_image.sh", IMAGE],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )


def test_the_image_is_checked_by_a_call_and_by_its_end(docker: dict[str, str]) -> None:
    result = check_image(docker)

    assert result.stdout.splitlines()[-1:] == [f"{IMAGE} works."]
    assert result.returncode == 0
    assert Path(docker["STATE"], "code").read_text("utf-8") == "0\n"


def test_an_image_that_asks_for_no_key_fails_the_check(docker: dict[str, str]) -> None:
    """Its key is created in another database than its server reads."""
    script = Path(docker["STATE"], "bin", "docker")
    script.write_text(
        script.read_text("utf-8").replace(" exec palaver ", " PALAVER_DB=$STATE/other.db exec palaver "), "utf-8"
    )

    result = check_image(docker | {"PALAVER_DB": str(Path(docker["STATE"], "open.db"))})

    assert "error: a request without a key was answered with status 200." in result.stdout
    assert result.returncode == 1
