"""The software bill of materials of the wheel (CycloneDX, PEP 770): dependencies and the packages in the web page.

Built from the lock files and from Vite's list of bundled packages. Reproducible: no timestamps, random ids or URLs.
`hatch_build.py` adds it to the wheel, so it uses only the standard library; `make sbom` writes it to a file.
"""

import base64
import json  # noqa: TID251 - a build has only the standard library
import re
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

LOCKED = re.compile(r"^([a-z0-9-]+)==([^ ;]+)(?: ; (.+?))? \\\n((?: +.*\n)*)", re.MULTILINE)
REQUIRED_BY = re.compile(r"# +(?:via +)?(?!via$)([a-z0-9][a-z0-9-]*)(?= |$)", re.MULTILINE)
BUNDLED = re.compile(r"^## (\S+) - (\S+) \(.+\)$", re.MULTILINE)
TAILWIND = re.compile(r"^/\*! tailwindcss v(\S+) ", re.MULTILINE)
SPDX = re.compile(r"\(?[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*\)?")


def make_sbom(root: Path, page: Path) -> bytes:
    """Return the SBOM of the source tree `root` and the page built from it."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    palaver = _component("pypi", project["name"], project["version"], project["license"])
    web = {"type": "application", "bom-ref": "page", "name": "palaver-web", "version": project["version"]}
    installed, requirements = _installed(root, palaver)
    bundled = _bundled(root, page)
    requirements["page"] = [part["bom-ref"] for part in bundled]
    requirements[palaver["bom-ref"]].append("page")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**palaver, "type": "application"}},
        "components": [*installed, web, *bundled],
        "dependencies": [{"ref": ref, "dependsOn": sorted(others)} for ref, others in sorted(requirements.items())],
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _installed(root: Path, palaver: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Return the packages that pip installs on any system, and the requirements of each by its reference."""
    licenses = tomllib.loads((root / "requirements" / "licenses.toml").read_text("utf-8"))
    locked = LOCKED.findall((root / "requirements" / "run.txt").read_text("utf-8"))
    parts: list[dict[str, Any]] = []
    for name, version, marker, _ in locked:
        if name not in licenses:
            raise LookupError(f"requirements/licenses.toml has no licence for {name}.")
        where = {"properties": [{"name": "palaver:environment", "value": marker}]} if marker else {}
        parts.append({**_component("pypi", name, version, licenses[name]), **where})
    refs: dict[str, list[str]] = {palaver["name"]: [palaver["bom-ref"]]}
    for part in parts:
        refs.setdefault(part["name"], []).append(part["bom-ref"])
    requirements: dict[str, list[str]] = {ref: [] for group in refs.values() for ref in group}
    for part, (_, _, _, comment) in zip(parts, locked, strict=True):
        for by in REQUIRED_BY.findall(comment):
            for ref in refs[by]:
                requirements[ref].append(part["bom-ref"])
    return parts, requirements


def _bundled(root: Path, page: Path) -> list[dict[str, Any]]:
    """Return the Node packages in the page, as listed by Vite, and Tailwind, from the header of its styles."""
    lock = json.loads((root / "web" / "package-lock.json").read_text("utf-8"))["packages"]
    known = {(path.rpartition("node_modules/")[2], entry.get("version")): entry for path, entry in lock.items()}
    names = set(BUNDLED.findall((page / "licenses.md").read_text("utf-8")))
    for styles in page.glob("assets/*.css"):
        names |= {("tailwindcss", version) for version in TAILWIND.findall(styles.read_text("utf-8"))}
    parts: list[dict[str, Any]] = []
    for name, version in sorted(names):
        entry = known.get((name, version))
        if entry is None:
            raise LookupError(f"The page has {name} {version}, which is not in web/package-lock.json.")
        kind, _, digest = entry["integrity"].partition("-")
        hashes = [{"alg": kind.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}]
        parts.append({**_component("npm", name, version, entry["license"]), "hashes": hashes})
    return parts


def _component(kind: str, name: str, version: str, license: str) -> dict[str, Any]:
    purl = f"pkg:{kind}/{quote(name)}@{quote(version)}"
    stated = {"expression": license} if SPDX.fullmatch(license) else {"license": {"name": license}}
    about = {"name": name, "version": version, "licenses": [stated], "purl": purl}
    return {"type": "library", "bom-ref": purl, **about}


def main(arguments: list[str]) -> str | None:
    """Write the SBOM of this tree and the page built by `make`."""
    if len(arguments) != 1:
        return "usage: python sbom.py FILE"
    root = Path(__file__).parent
    path = Path(arguments[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(make_sbom(root, root / "src" / "palaver" / "web"))
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
