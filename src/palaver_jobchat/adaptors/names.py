"""The names of adaptors, in all forms that clients write: `@openfn/language-http@6.5.4`, `http@6`, `http`."""

import re
from collections.abc import Collection
from typing import Literal

import msgspec

EXAMPLE = "@openfn/language-http@6.5.4"

_OURS = "@openfn/language-"
_LONGEST = 214  # As npm has it.
_FORM = re.compile(r"(?P<scope>@[\w.~-]+/)?(?P<name>[A-Za-z0-9][\w.~-]*)(?:@(?P<version>[^\s@/\\]+))?", re.ASCII)
_SHORT = re.compile(r"[A-Za-z0-9][\w.~-]*", re.ASCII)
_EXACT = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII)
_RANGE = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


class Adaptor(msgspec.Struct, frozen=True):
    """One adaptor as somebody asked for it."""

    name: str
    """Of its package: `@openfn/language-http`."""
    version: str | None = None
    """As it was asked for; none means the newest."""

    @property
    def short(self) -> str | None:
        """What people call it: `http`. A package of somebody else's has no such name, and no docs that we know.

        It is safe as a part of a path: it has no strokes, and does not begin with a dot.
        """
        short = self.name.removeprefix(_OURS)
        return short if short != self.name and _SHORT.fullmatch(short) else None

    @property
    def version_kind(self) -> Literal["exact", "newest", "range", "other"]:
        """What its version means: a number, the newest of all or of some, or nothing that we know (`local`)."""
        if self.version is None or self.version == "latest":
            return "newest"
        if _EXACT.fullmatch(self.version):
            return "exact"
        return "range" if _RANGE.fullmatch(self.version) else "other"


def parse_adaptor(text: str) -> Adaptor | None:
    """The adaptor that a text names; nothing where it is no such name."""
    text = text.strip()
    found = _FORM.fullmatch(text)
    if found is None or len(text) > _LONGEST:
        return None
    name = found["name"]
    if found["scope"]:
        return Adaptor(found["scope"] + name, found["version"])
    return Adaptor(_OURS + name.removeprefix("language-"), found["version"])


def choose_version(adaptor: Adaptor, versions: Collection[str]) -> str | None:
    """The one of these versions that was asked for. A preview is nobody's newest."""
    match adaptor.version_kind:
        case "exact":
            return adaptor.version if adaptor.version and adaptor.version in versions else None
        case "newest":
            start = ""
        case "range":
            start = f"{adaptor.version}."
        case "other":
            return None
    known = [version for version in versions if _is_release(version) and version.startswith(start)]
    return max(known, key=_order, default=None)


def nearest_version(version: str, versions: Collection[str]) -> str | None:
    """The highest lower version of the same major, which is the next best thing to read about."""
    if not _EXACT.fullmatch(version):
        return None
    asked = _order(version)
    lower = [v for v in versions if _is_release(v) and _order(v)[0] == asked[0] and _order(v) < asked]
    return max(lower, key=_order, default=None)


def _is_release(version: str) -> bool:
    found = _EXACT.fullmatch(version)
    return found is not None and found[4] is None


def _order(version: str) -> tuple[int, int, int, bool]:
    found = _EXACT.fullmatch(version)
    assert found is not None
    return int(found[1]), int(found[2]), int(found[3]), found[4] is None
