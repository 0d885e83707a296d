"""Build the documentation site: `python build_docs.py FOLDER` (`make docs`). The server serves it at /docs.

Zensical runs on a copy of docs/, because it writes its cache and its output beside its configuration. `hatch_build.py`
adds the site to the wheel.
"""

import gzip
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = "zensical.toml"
SITE = "site"
"""Output folder, as the configuration names it."""
UNUSED = ("sitemap.xml", "assets/stylesheets/classic", "assets/images/favicon.png")
COMPRESSED_SUFFIXES = (".html", ".css", ".js", ".json", ".svg")


class BuildError(Exception):
    """The site could not be built; the message is the output of Zensical."""


def build_docs(root: Path, target: Path) -> None:
    """Build the site of the source tree `root` into the folder `target`, which is replaced. A warning is an error."""
    with tempfile.TemporaryDirectory(prefix="palaver-docs-") as name:
        folder = Path(name)
        shutil.copytree(root / "docs", folder / "docs")
        shutil.copy(root / CONFIG, folder)
        shutil.copy(root / "web" / "src" / "app" / "icon.svg", folder / "docs" / "images")
        _run_zensical(folder)
        for path in UNUSED:
            _remove(folder / SITE / path)
        _compress(folder / SITE)
        _remove(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / SITE, target)


def _run_zensical(folder: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", CONFIG],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if completed.returncode != 0:
        raise BuildError(completed.stdout.strip())


def _compress(site: Path) -> None:
    """Write a gzip file next to each text file, which the server sends to browsers that accept it."""
    for path in sorted(site.rglob("*")):
        if path.suffix in COMPRESSED_SUFFIXES:
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def main(arguments: list[str]) -> str | None:
    if len(arguments) != 1:
        return "usage: python build_docs.py FOLDER"
    try:
        build_docs(Path(__file__).parent, Path(arguments[0]))
    except BuildError as error:
        return f"{error}\nerror: The documentation could not be built."
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
