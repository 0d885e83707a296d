"""The wheel: complete, contains the built web page, and is reproducible from any folder."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hatch_build import failure_reason
from sbom import make_sbom

ROOT = Path(__file__).parents[2]
BUILD_SCRIPT = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
FRONT_PAGE_SCRIPT = """
import anyio
import palaver
from palaver.testing import client

async def front():
    async with client() as http:
        answer = await http.get("/")
        print(answer.status_code, answer.headers["content-type"], "/assets/" in answer.text, palaver.__file__)

anyio.run(front)
"""

SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\b(gh[pousr]|npm)_[A-Za-z0-9]{36}|\bsk-[A-Za-z0-9]{32,}"
)


def build(kind: str, root: Path, into: Path) -> Path:
    """Build a folder with hatchling, as pip does."""
    result = run_build(kind, root, into)
    assert result.returncode == 0, result.stdout + result.stderr
    return into / result.stdout.splitlines()[-1]


def run_build(kind: str, root: Path, into: Path) -> "subprocess.CompletedProcess[str]":
    into.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD_SCRIPT, kind, str(into)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    return build("build_sdist", ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def unpacked_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.name.startswith("palaver-"))


@pytest.fixture(scope="module")
def wheels(unpacked_sdist: Path) -> list[Path]:
    """The wheel, built from the source distribution and from the files that deploy/Dockerfile copies."""
    elsewhere = unpacked_sdist.parent / "some other folder"
    sent = set(re.findall(r"^!(\S+)$", (ROOT / "deploy" / "Dockerfile.dockerignore").read_text("utf-8"), re.MULTILINE))
    for line in re.findall(r"^COPY ([^-].*)$", (ROOT / "deploy" / "Dockerfile").read_text("utf-8"), re.MULTILINE):
        *names, _ = line.split()
        for name in names:
            assert name.partition("/")[0] in sent, f"Docker does not send {name}: deploy/Dockerfile.dockerignore"
            (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (unpacked_sdist / name).is_dir() else shutil.copy)(
                unpacked_sdist / name, elsewhere / name
            )
    with ThreadPoolExecutor() as pool:
        into = (unpacked_sdist.parent / "wheel", unpacked_sdist.parent / "again")
        return list(pool.map(build, ["build_wheel"] * 2, (unpacked_sdist, elsewhere), into))


@pytest.fixture(scope="module")
def wheel(wheels: list[Path]) -> Path:
    return wheels[0]


def test_the_source_distribution_has_the_web_sources_and_no_built_page(unpacked_sdist: Path) -> None:
    web = {path.name for path in (unpacked_sdist / "web").iterdir()}

    assert {"index.html", "package.json", "package-lock.json", "src", "vite.config.ts", ".npmrc"} <= web
    assert "node_modules" not in web
    assert not (unpacked_sdist / "src" / "palaver" / "web").exists()


def test_the_source_distribution_has_the_build_files_and_no_ignored_files(unpacked_sdist: Path) -> None:
    top = set(".gitignore CHANGELOG.md CONTRIBUTING.md LICENSE Makefile PKG-INFO README.md SECURITY.md".split())
    top.add(".pre-commit-config.yaml")
    folders = set(".github benchmarks deploy docs examples requirements src tests web".split())
    programs = {"build_docs.py", "hatch_build.py", "pyproject.toml", "sbom.py", "step.py", "zensical.toml"}
    junk = re.compile(
        r"\.py[cod]$|\.(db|log|orig|rej|map)$|(^|/)(\.env|palaver\.toml|__pycache__|\.coverage|\.DS_Store)"
    )

    paths = [path.relative_to(unpacked_sdist).as_posix() for path in unpacked_sdist.rglob("*")]

    assert {path for path in paths if "/" not in path} == top | folders | programs
    assert [path for path in paths if junk.search(path)] == []


def test_two_source_distributions_are_equal_byte_for_byte(sdist: Path, unpacked_sdist: Path) -> None:
    """One is built in the checkout, with arbitrary file dates; the other from the content of the first."""
    second = build("build_sdist", unpacked_sdist, unpacked_sdist.parent / "source again")

    assert second.name == sdist.name
    assert second.read_bytes() == sdist.read_bytes()


def test_the_wheel_has_the_page(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        document = archive.read("palaver/web/index.html").decode()

    files = re.findall(r'"/__ROOT__/(assets/[^"]+)"', document)
    assert files
    assert {f"palaver/web/{name}" for name in files} <= names
    assert {f"palaver/web/{name}.gz" for name in files} <= names
    assert "palaver/web/licenses.md" in names


def test_the_wheel_has_the_documentation(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("palaver/docs_site/")}
        front_page = archive.read("palaver/docs_site/index.html").decode()

    scripts = re.findall(r'src="([^"]+\.js)"', front_page)
    assert scripts
    assert {f"palaver/docs_site/{name.removeprefix('./')}{end}" for name in scripts for end in ("", ".gz")} <= names
    assert "palaver/docs_site/get-started/install/index.html" in names


def test_the_wheel_is_platform_independent(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(f"palaver-{VERSION}.dist-info/WHEEL").decode().splitlines()
        compiled = [name for name in archive.namelist() if name.endswith((".so", ".pyd", ".dll", ".dylib", ".node"))]

    assert wheel.name == f"palaver-{VERSION}-py3-none-any.whl"
    assert {"Root-Is-Purelib: true", "Tag: py3-none-any"} <= set(content)
    assert compiled == []


def test_the_wheel_contains_its_bill_of_materials(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(f"palaver-{VERSION}.dist-info/sboms/palaver.cdx.json")
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("palaver/web/")])

    assert content == make_sbom(ROOT, tmp_path / "palaver" / "web")
    assert b'"pkg:npm/react@' in content
    assert b'"pkg:npm/tailwindcss@' in content
    assert b'"pkg:npm/vite@' not in content


def test_a_fresh_install_has_the_command_and_serves_the_page(wheel: Path, tmp_path: Path) -> None:
    """Like `pipx run palaver` and `uvx palaver`, but with this environment's dependencies, to be quick."""
    venv.create(tmp_path / "venv", symlinks=True)
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "palaver"
    install = f"-m pip --python {python} install --quiet --no-deps --no-index --no-compile".split()
    subprocess.run([sys.executable, *install, str(wheel)], check=True, timeout=120)
    packages = sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")})
    Path(packages, "lent.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    def output_of(*arguments: str | Path) -> str:
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    assert output_of(command, "--version") == VERSION
    assert (
        output_of(python, "-c", FRONT_PAGE_SCRIPT)
        == f"200 text/html; charset=utf-8 True {packages}/palaver/__init__.py"
    )


def test_the_wheel_has_no_foreign_files_secrets_or_local_paths(wheel: Path, unpacked_sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}

    assert {name.split("/")[0].split("-")[0] for name in contents} == {"palaver", "palaver_jobchat"}
    assert [name for name in contents if name.endswith((".pth", ".map", ".ts", ".tsx")) or "node_modules" in name] == []
    assert [name for name, body in contents.items() if SECRETS.search(body)] == []
    local_paths = [str(path).encode() for path in (ROOT, unpacked_sdist, Path.home())]
    assert [name for name, body in contents.items() if any(path + b"/" in body for path in local_paths)] == []


def test_two_builds_are_equal_byte_for_byte(wheels: list[Path]) -> None:
    one, other = wheels

    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()


def test_a_page_that_cannot_be_built_fails_the_build_with_a_one_line_error(unpacked_sdist: Path) -> None:
    broken = unpacked_sdist.parent / "broken"
    shutil.copytree(unpacked_sdist, broken)
    (broken / "web" / "package-lock.json").unlink()

    result = run_build("build_wheel", broken, unpacked_sdist.parent / "none")

    assert result.returncode == 1
    lines = (result.stdout + result.stderr).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(
        "error: Failed to build the web page. npm could not install the packages of web/package-lock.json: "
    )


def test_the_relevant_line_of_npm_output_is_reported() -> None:
    npm_output = """
npm warn Unknown user config "nodedir".
npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:9/zod failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error     at ClientRequest.<anonymous> (index.js:130:14)
npm error A complete log of this run can be found in: debug-0.log
"""

    assert (
        failure_reason(npm_output)
        == "FetchError: request to http://127.0.0.1:9/zod failed, reason: connect ECONNREFUSED 127.0.0.1:9"
    )
    assert failure_reason("") == "no output."
