"""Adaptor docs in a folder: `http@6.5.4.json` or `http/6.5.4/ast.json`, as one likes.

A folder that is not there, or goes away, holds nothing; that is no error, the chat goes on without.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from palaver_jobchat.adaptors import signatures
from palaver_jobchat.adaptors.names import Adaptor, chosen, nearest
from palaver_jobchat.adaptors.signatures import Entry

LARGEST = 20 * 1024 * 1024
"""Bytes of one description; none of a real adaptor comes near."""


class Docs(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about an adaptor that was asked for."""

    adaptor: Adaptor
    version: str | None = None
    """The one asked for, as a number where that could be found."""
    state: Literal["exact", "nearest", "missing"] = "missing"
    docs_version: str | None = None
    """The one that the entries describe."""
    entries: tuple[Entry, ...] = ()

    def meta(self) -> dict[str, Any]:
        """As the answer's `meta.job_chat.adaptor` tells it."""
        return {
            "name": self.adaptor.name,
            **({"version": self.version} if self.version else {}),
            "docs": self.state,
            **({"docs_version": self.docs_version} if self.state == "nearest" else {}),
        }


def versions(folder: Path, short: str) -> list[str]:
    """All versions of an adaptor in the folder, in no order that means anything."""
    found: set[str] = set()
    with suppress(OSError):
        for path in folder.iterdir():
            name, _, version = path.name.removesuffix(".json").rpartition("@")
            if name == short and path.name.endswith(".json"):
                found.add(version)
    with suppress(OSError):
        found.update(path.parent.name for path in (folder / short).glob("*/ast.json"))
    return sorted(found)


def load(folder: Path, short: str, version: str) -> tuple[Entry, ...] | None:
    """The entries of one version; nothing where there is no such file, or it cannot be read."""
    for path in (folder / f"{short}@{version}.json", folder / short / version / "ast.json"):
        with suppress(OSError):
            if path.stat().st_size <= LARGEST and (entries := signatures.decode(path.read_bytes())) is not None:
                return entries
    return None


def look_up(folder: Path, adaptor: Adaptor) -> Docs:
    """The docs of an adaptor: of the version asked for, or of the nearest below it, or none."""
    missing = Docs(adaptor=adaptor, version=adaptor.version)
    short = adaptor.short
    if short is None or adaptor.asks == "other":
        return missing
    known = versions(folder, short)
    version = chosen(adaptor, known)
    if version and (entries := load(folder, short, version)) is not None:
        return Docs(adaptor=adaptor, version=version, state="exact", docs_version=version, entries=entries)
    asked = near = version or adaptor.version
    while near and (near := nearest(near, known)):
        if (entries := load(folder, short, near)) is not None:
            return Docs(adaptor=adaptor, version=asked, state="nearest", docs_version=near, entries=entries)
    return missing
