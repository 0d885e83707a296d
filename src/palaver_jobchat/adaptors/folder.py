"""Adaptor docs in a folder: `http@6.5.4.json` or `http/6.5.4/ast.json`, as one likes.

A folder that is not there, or goes away, holds nothing; that is no error, the chat goes on without.
"""

import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

import msgspec

from palaver_jobchat.adaptors import signatures
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.adaptors.signatures import Entry

MAX_BYTES = 20 * 1024 * 1024
"""Bytes of one description; none of a real adaptor comes near."""


class AdaptorDocs(msgspec.Struct, frozen=True, kw_only=True):
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


def list_versions(folder: Path, short: str) -> list[str]:
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


def load_entries(folder: Path, short: str, version: str) -> tuple[Entry, ...] | None:
    """The entries of one version; nothing where there is no such file, or it cannot be read."""
    for path in (folder / f"{short}@{version}.json", folder / short / version / "ast.json"):
        with suppress(OSError):
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                continue
            if (entries := _parsed(path, found.st_ino, found.st_mtime_ns, found.st_size)) is not None:
                return entries
    return None


def save_description(folder: Path, short: str, version: str, content: bytes) -> None:
    """Put a description into the folder, whole or not at all, whoever else does the same or ends us meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder, prefix=".", suffix=".part", delete=False) as part:
        written = Path(part.name)
        try:
            part.write(content)
            part.close()
            written.replace(folder / f"{short}@{version}.json")
        except OSError:
            written.unlink(missing_ok=True)
            raise


@lru_cache(maxsize=64)
def _parsed(path: Path, _inode: int, _changed: int, _size: int) -> tuple[Entry, ...] | None:
    """The entries of a file in this very state: reading one takes some milliseconds, and most are asked for again."""
    return signatures.decode_description(path.read_bytes())
