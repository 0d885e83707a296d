"""The wheel as people get it: whole, with the page in it, and the same from whatever folder it is built."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hatch_build import why

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"

SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\b(gh[pousr]|npm)_[A-Za-z0-9]{36}|\bsk-[A-Za-z0-9]{32,}"
)


def built(kind: str, root: Path, into: Path) -> Path:
    """What hatchling makes of that folder, as pip would ask it to."""
    done = run(kind, root, into)
    assert done.returncode == 0, done.stdout + done.stderr
    return into / done.stdout.splitlines()[-1]


def run(kind: str, root: Path, into: Path) -> "subprocess.CompletedProcess[str]":
    into.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD, kind, str(into)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, in a folder."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("build_sdist", ROOT, folder / "dist")) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.name.startswith("palaver-"))


@pytest.fixture(scope="module")
def wheels(unpacked: Path) -> list[Path]:
    """The wheel, built in two folders."""
    elsewhere = unpacked.parent / "some other folder"
    shutil.copytree(unpacked, elsewhere)
    with ThreadPoolExecutor() as pool:
        into = (unpacked.parent / "wheel", unpacked.parent / "again")
        return list(pool.map(built, ["build_wheel"] * 2, (unpacked, elsewhere), into))


@pytest.fixture(scope="module")
def wheel(wheels: list[Path]) -> Path:
    return wheels[0]


def test_the_source_distribution_has_the_page_to_build_and_nothing_built(unpacked: Path) -> None:
    web = {path.name for path in (unpacked / "web").iterdir()}

    assert {"index.html", "package.json", "package-lock.json", "src", "vite.config.ts", ".npmrc"} <= web
    assert "node_modules" not in web
    assert not (unpacked / "src" / "palaver" / "web").exists()


def test_the_wheel_has_the_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        document = archive.read("palaver/web/index.html").decode()

    files = re.findall(r'"/__ROOT__/(assets/[^"]+)"', document)
    assert files
    assert {f"palaver/web/{name}" for name in files} <= names
    assert {f"palaver/web/{name}.gz" for name in files} <= names
    assert "palaver/web/licenses.md" in names


def test_the_wheel_has_nothing_that_does_not_belong(wheel: Path, unpacked: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}

    assert {name.split("/")[0].split("-")[0] for name in contents} == {"palaver", "palaver_jobchat"}
    assert [name for name in contents if name.endswith((".pth", ".map", ".ts", ".tsx")) or "node_modules" in name] == []
    assert [name for name, body in contents.items() if SECRETS.search(body)] == []
    here = [str(path).encode() for path in (ROOT, unpacked, Path.home())]
    assert [name for name, body in contents.items() if any(path + b"/" in body for path in here)] == []


def test_two_builds_are_equal_byte_for_byte(wheels: list[Path]) -> None:
    one, other = wheels

    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()


def test_a_page_that_cannot_be_built_fails_the_build_in_one_line(unpacked: Path) -> None:
    broken = unpacked.parent / "broken"
    shutil.copytree(unpacked, broken)
    (broken / "web" / "package-lock.json").unlink()

    done = run("build_wheel", broken, unpacked.parent / "none")

    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(
        "error: The web page was not built. npm could not install what web/package-lock.json names: "
    )


def test_of_what_npm_says_the_line_that_tells_is_kept() -> None:
    said = """
npm warn Unknown user config "nodedir".
npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:9/zod failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error     at ClientRequest.<anonymous> (index.js:130:14)
npm error A complete log of this run can be found in: debug-0.log
"""

    assert why(said) == "FetchError: request to http://127.0.0.1:9/zod failed, reason: connect ECONNREFUSED 127.0.0.1:9"
    assert why("") == "it said nothing."
