"""Adaptor names in all forms that clients send: `@openfn/language-http@6.5.4`, `http@6`, `http`."""

import re
from collections.abc import Collection
from typing import Literal

import msgspec

EXAMPLE = "@openfn/language-http@6.5.4"

_OPENFN_PREFIX = "@openfn/language-"
_MAX_CHARACTERS = 214  # npm's limit.
_SPEC = re.compile(r"(?P<scope>@[\w.~-]+/)?(?P<name>[A-Za-z0-9][\w.~-]*)(?:@(?P<version>[^\s@/\\]+))?", re.ASCII)
_SHORT_NAME = re.compile(r"[A-Za-z0-9][\w.~-]*", re.ASCII)
_EXACT_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII)
_VERSION_RANGE = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


class Adaptor(msgspec.Struct, frozen=True):
    name: str
    """Package name: `@openfn/language-http`."""
    version: str | None = None
    """As requested; None means the latest."""

    @property
    def short(self) -> str | None:
        """The short name of an OpenFn adaptor, `http`, or None for other packages, which have no known docs.

        Safe as a path component: it contains no slashes and does not start with a dot.
        """
        short = self.name.removeprefix(_OPENFN_PREFIX)
        return short if short != self.name and _SHORT_NAME.fullmatch(short) else None

    @property
    def version_kind(self) -> Literal["exact", "newest", "range", "other"]:
        """How to interpret the version: exact, newest, newest of a range, or unknown (`local`)."""
        if self.version is None or self.version == "latest":
            return "newest"
        if _EXACT_VERSION.fullmatch(self.version):
            return "exact"
        return "range" if _VERSION_RANGE.fullmatch(self.version) else "other"


def parse_adaptor(text: str) -> Adaptor | None:
    """Return the adaptor that a text names, or None if it is invalid."""
    text = text.strip()
    match = _SPEC.fullmatch(text)
    if match is None or len(text) > _MAX_CHARACTERS:
        return None
    name = match["name"]
    if match["scope"]:
        return Adaptor(match["scope"] + name, match["version"])
    return Adaptor(_OPENFN_PREFIX + name.removeprefix("language-"), match["version"])


def choose_version(adaptor: Adaptor, versions: Collection[str]) -> str | None:
    """Return the requested version out of `versions`. Prereleases only match exactly."""
    match adaptor.version_kind:
        case "exact":
            return adaptor.version if adaptor.version and adaptor.version in versions else None
        case "newest":
            prefix = ""
        case "range":
            prefix = f"{adaptor.version}."
        case "other":
            return None
    candidates = [version for version in versions if _is_release(version) and version.startswith(prefix)]
    return max(candidates, key=_sort_key, default=None)


def nearest_version(version: str, versions: Collection[str]) -> str | None:
    """Return the highest lower release with the same major version."""
    if not _EXACT_VERSION.fullmatch(version):
        return None
    requested = _sort_key(version)
    lower = [v for v in versions if _is_release(v) and _sort_key(v)[0] == requested[0] and _sort_key(v) < requested]
    return max(lower, key=_sort_key, default=None)


def _is_release(version: str) -> bool:
    match = _EXACT_VERSION.fullmatch(version)
    return match is not None and match[4] is None


def _sort_key(version: str) -> tuple[int, int, int, bool]:
    match = _EXACT_VERSION.fullmatch(version)
    assert match is not None
    return int(match[1]), int(match[2]), int(match[3]), match[4] is None
