"""Build the documentation site: `python build_docs.py FOLDER` (`make docs`). The server serves it at /docs.

Zensical runs on a copy of docs/, because it writes its cache and its output beside its configuration. Links to files
of the repository outside docs/ lead to copies in the site. `hatch_build.py` adds the site to the wheel.
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CONFIG = "zensical.toml"
SITE = "site"
"""Output folder, as the configuration names it."""
UNUSED = ("sitemap.xml", "assets/stylesheets/classic", "assets/images/favicon.png")
NOT_FOUND = "404.html"
ROOT_PLACEHOLDER = "/__DOCS__"
"""In the page for missing paths, which has absolute URLs: the path at which the server serves the site."""
COMPRESSED_SUFFIXES = (".html", ".css", ".js", ".json", ".svg", ".txt")

REPOSITORY_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "contributing/reporting-vulnerabilities.md",
    "examples/README.md": "reference/examples.md",
}
"""Pages outside docs/, and their names in the site."""
_FILE_BLOCK = re.compile(
    r"^<!-- (?:file|edit): (?P<name>.+) -->\n(?P<comments>(?:<!-- .+ -->\n)*)```(?P<language>\w+)$", re.MULTILINE
)
"""A block of code with the name of its file, as tests/docs/walkthrough.py reads it."""
_OUTPUT_BLOCK = re.compile(r"(?<=^```\n\n)```text$", re.MULTILINE)
"""A block that follows another one directly: the output of its commands."""
_LINK = re.compile(r"(?<=\]\()([^()\s:#]+)(?=[#)])")


class BuildError(Exception):
    """The site could not be built; the message is the output of Zensical."""


def build_docs(root: Path, target: Path) -> None:
    """Build the site of the source tree `root` into the folder `target`, which is replaced. A warning is an error."""
    with tempfile.TemporaryDirectory(prefix="palaver-docs-") as name:
        folder = Path(name)
        shutil.copytree(root / "docs", folder / "docs")
        _add_repository_files(root, folder / "docs")
        shutil.copy(root / CONFIG, folder)
        shutil.copy(root / "web" / "src" / "app" / "icon.svg", folder / "docs" / "images")
        _run_zensical(folder)
        for path in UNUSED:
            _remove(folder / SITE / path)
        _mark_root(folder / SITE / NOT_FOUND)
        _remove_landmarks(folder / SITE)
        _compress(folder / SITE)
        _remove(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / SITE, target)


def _add_repository_files(root: Path, docs: Path) -> None:
    """Add the pages outside docs/, and text copies of the other files that any page links to."""
    pages = {f"docs/{path.relative_to(docs).as_posix()}": path for path in docs.rglob("*.md")}
    pages |= {source: docs / name for source, name in REPOSITORY_PAGES.items()}
    places = {source: path.relative_to(docs).as_posix() for source, path in pages.items()}
    for source, path in pages.items():
        text = (root / source).read_text("utf-8")
        for target in _linked_files(root, source, text):
            if target not in places:
                places[target] = f"files/{target}.txt"
                (docs / places[target]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / target, docs / places[target])
        path.parent.mkdir(parents=True, exist_ok=True)
        text = _LINK.sub(lambda match: _site_link(source, match[1], places), text)  # noqa: B023
        path.write_text(_mark_blocks(text), "utf-8")


def _mark_blocks(text: str) -> str:
    """Show the name of each file above its block, and remove the copy button of outputs."""
    text = _FILE_BLOCK.sub(r'\g<comments>```\g<language> title="\g<name>"', text)
    return _OUTPUT_BLOCK.sub("``` { .text .no-copy }", text)


def _linked_files(root: Path, source: str, text: str) -> Iterator[str]:
    for link in _LINK.findall(text):
        target = _resolve(source, link)
        if not target.startswith("docs/") and (root / target).is_file():
            yield target


def _site_link(source: str, link: str, places: dict[str, str]) -> str:
    """Return a link of a repository file as it is in the site."""
    target = _resolve(source, link)
    place = places.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
    if place is None:
        return link
    return PurePosixPath(os.path.relpath(place, PurePosixPath(places[source]).parent)).as_posix()


def _resolve(source: str, link: str) -> str:
    return os.path.normpath(PurePosixPath(source).parent / link).replace(os.sep, "/")


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
        output = re.sub(r"\x1b\[[\d;]*m", "", completed.stdout)
        raise BuildError(output.partition("Traceback")[0].strip())


def _mark_root(page: Path) -> None:
    text = re.sub(
        r'((?:href|src|"base"|"search")[=:]|new URL\()"/', rf'\1"{ROOT_PLACEHOLDER}/', page.read_text("utf-8")
    )
    page.write_text(text, "utf-8")


def _remove_landmarks(site: Path) -> None:
    """Turn the unnamed navigation landmark around each copy button, which screen readers would list, into a `div`."""
    (bundle,) = site.glob("assets/javascripts/bundle.*.js")
    text, count = re.subn(r'"nav"(?=,\{class:"md-code__nav")', '"div"', bundle.read_text("utf-8"))
    if count != 1:
        raise BuildError("The copy buttons of this version of Zensical differ: see _remove_landmarks.")
    bundle.write_text(text, "utf-8")


def _compress(site: Path) -> None:
    """Write a gzip file next to each text file, which the server sends to browsers that accept it."""
    for path in sorted(site.rglob("*")):
        if path.suffix in COMPRESSED_SUFFIXES and path.name != NOT_FOUND:
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
