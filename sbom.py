"""The bill of materials that the wheel carries (CycloneDX, PEP 770): what is installed beside us, what is in our page.

Made from the locks, which name what is installed, and from what Vite says it put into the page; with no clock, no id
that differs and no address. `hatch_build.py` puts it into the wheel, where only the standard library is at hand; `make
sbom` writes it as a file.
"""

import base64
import json  # noqa: TID251 - a build has nothing else
import re
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

LOCKED = re.compile(r"^([a-z0-9-]+)==([^ ;]+)(?: ; (.+?))? \\\n((?: +.*\n)*)", re.MULTILINE)
WANTED_BY = re.compile(r"# +(?:via +)?(?!via$)([a-z0-9][a-z0-9-]*)(?= |$)", re.MULTILINE)
BUILT_IN = re.compile(r"^## (\S+) - (\S+) \(.+\)$", re.MULTILINE)
TAILWIND = re.compile(r"^/\*! tailwindcss v(\S+) ", re.MULTILINE)
SPDX = re.compile(r"\(?[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*\)?")


def bill(root: Path, page: Path) -> bytes:
    """The bill of the source tree `root` and the page that was built from it."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    ours = _component("pypi", project["name"], project["version"], project["license"])
    web = {"type": "application", "bom-ref": "page", "name": "palaver-web", "version": project["version"]}
    installed, wants = _installed(root, ours)
    built_in = _built_in(root, page)
    wants["page"] = [part["bom-ref"] for part in built_in]
    wants[ours["bom-ref"]].append("page")
    told = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**ours, "type": "application"}},
        "components": [*installed, web, *built_in],
        "dependencies": [{"ref": ref, "dependsOn": sorted(others)} for ref, others in sorted(wants.items())],
    }
    return json.dumps(told, indent=1, ensure_ascii=False).encode() + b"\n"


def _installed(root: Path, ours: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """What pip installs beside us, on whichever system, and who wants what of it."""
    licenses = tomllib.loads((root / "requirements" / "licenses.toml").read_text("utf-8"))
    locked = LOCKED.findall((root / "requirements" / "run.txt").read_text("utf-8"))
    parts: list[dict[str, Any]] = []
    for name, version, marker, _ in locked:
        if name not in licenses:
            raise LookupError(f"requirements/licenses.toml does not say under what {name} comes.")
        where = {"properties": [{"name": "palaver:environment", "value": marker}]} if marker else {}
        parts.append({**_component("pypi", name, version, licenses[name]), **where})
    refs: dict[str, list[str]] = {ours["name"]: [ours["bom-ref"]]}
    for part in parts:
        refs.setdefault(part["name"], []).append(part["bom-ref"])
    wants: dict[str, list[str]] = {ref: [] for all_of in refs.values() for ref in all_of}
    for part, (_, _, _, below) in zip(parts, locked, strict=True):
        for by in WANTED_BY.findall(below):
            for ref in refs[by]:
                wants[ref].append(part["bom-ref"])
    return parts, wants


def _built_in(root: Path, page: Path) -> list[dict[str, Any]]:
    """The Node packages that have code in the page, as Vite lists them; and Tailwind, as its styles say themselves."""
    lock = json.loads((root / "web" / "package-lock.json").read_text("utf-8"))["packages"]
    known = {(path.rpartition("node_modules/")[2], entry.get("version")): entry for path, entry in lock.items()}
    names = set(BUILT_IN.findall((page / "licenses.md").read_text("utf-8")))
    for styles in page.glob("assets/*.css"):
        names |= {("tailwindcss", version) for version in TAILWIND.findall(styles.read_text("utf-8"))}
    parts: list[dict[str, Any]] = []
    for name, version in sorted(names):
        entry = known.get((name, version))
        if entry is None:
            raise LookupError(f"The page has {name} {version}, which web/package-lock.json does not name.")
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
    """Write the bill of this tree and the page that `make` built."""
    if len(arguments) != 1:
        return "usage: python sbom.py FILE"
    root = Path(__file__).parent
    path = Path(arguments[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bill(root, root / "src" / "palaver" / "web"))
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
