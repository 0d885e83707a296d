"""Where an adaptor's description is looked for: the operator's folder or address, then npm's registry.

Every source is a folder and, for those far away, a way to fetch what the folder lacks; the sources are asked in order.
If none has the version asked for, the nearest below it has to do. No failure reaches the chat: it then knows less.
"""

import asyncio
import stat
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal, assert_never
from urllib.parse import quote

import msgspec
import platformdirs

from palaver import PalaverError
from palaver_jobchat.adaptors import names, npm_registry
from palaver_jobchat.adaptors.download import MAX_BYTES, DownloadError, SingleFlight, fetch_first, log, wait_for
from palaver_jobchat.adaptors.entries import AdaptorDocs, Entry, decode_description
from palaver_jobchat.adaptors.names import Adaptor, choose_version, nearest_version
from palaver_jobchat.adaptors.npm_registry import NpmRegistry
from palaver_jobchat.settings import Settings


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
            if (entries := _load_file(path, found.st_ino, found.st_mtime_ns, found.st_size)) is not None:
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
def _load_file(path: Path, _inode: int, _changed: int, _size: int) -> tuple[Entry, ...] | None:
    """The entries of a file in this very state: reading one takes some milliseconds, and most are asked for again."""
    return decode_description(path.read_bytes())


SAMPLES = Path(__file__).parent.parent / "data" / "adaptors"
"""Descriptions of our own writing, for those who have set no folder."""

Entries = tuple[Entry, ...]
_MAX_CACHED = 64


class _Source(msgspec.Struct, frozen=True):
    kind: Literal["folder", "samples", "url", "registry"]
    folder: Path
    fetch: Callable[[str, str], Awaitable[bytes]] | None = None


class _LookupOptions(msgspec.Struct, frozen=True):
    """How one chat wants to be served."""

    download: bool
    on_progress: Callable[[str], None]
    deadline: float


class AdaptorLibrary:
    """Finds the descriptions of adaptors, and keeps what it had to fetch."""

    def __init__(
        self,
        settings: Settings,
        *,
        find_registry: Callable[[], str | None] = npm_registry.users_registry,
        now: Callable[[], float] = time.monotonic,
        timeout_s: float = 5.0,
    ) -> None:
        self._patience = timeout_s
        self._flights = SingleFlight(now=now, timeout_s=timeout_s)
        find = partial(npm_registry.normalize_url, settings.registry) if settings.registry else find_registry
        self._registry = NpmRegistry(find, self._flights, now=now)
        self._sources = self._ordered(settings)
        self._fetched: dict[tuple[Path, str, str], Entries] = {}
        """What was fetched last, for those who have no disk to keep it on."""

    async def look_up(self, adaptor: Adaptor, *, download: bool, on_progress: Callable[[str], None]) -> AdaptorDocs:
        """The docs of an adaptor: of the version asked for, or of the nearest below it, or none.

        `told` gets a line for the user when something is fetched; without `download`, npm's registry is not asked.
        """
        missing = AdaptorDocs(adaptor=adaptor, version=adaptor.version)
        short = adaptor.short
        if short is None or adaptor.version_kind == "other":
            return missing
        wish = _LookupOptions(download, on_progress, asyncio.get_running_loop().time() + self._patience)
        version = await self._version(short, adaptor, wish)
        if version is None:
            return missing
        if (entries := await self._exact(short, version, wish)) is not None:
            return AdaptorDocs(adaptor=adaptor, version=version, state="exact", docs_version=version, entries=entries)
        if near := await self._nearest(short, version, wish):
            return AdaptorDocs(adaptor=adaptor, version=version, state="nearest", docs_version=near[0], entries=near[1])
        return msgspec.structs.replace(missing, version=version)

    def _ordered(self, settings: Settings) -> list[_Source]:
        cache = Path(settings.cache).expanduser() if settings.cache else platformdirs.user_cache_path("palaver-jobchat")
        first = settings.adaptors
        if first.startswith(("http://", "https://")):
            # What two addresses have under one name need not be the same.
            kept = cache / f"url-{sha256(first.encode()).hexdigest()[:12]}"
            own = _Source("url", kept, partial(_fetch_from_url, first.rstrip("/")))
        elif first:
            own = _Source("folder", Path(first).expanduser())
        else:
            own = _Source("samples", SAMPLES)
        return [own, _Source("registry", cache / "npm", self._registry.fetch_description if settings.online else None)]

    async def _version(self, short: str, adaptor: Adaptor, wish: _LookupOptions) -> str | None:
        """The version asked for, as a number. Whoever set a folder decides what is newest; then the registry does."""
        if adaptor.version_kind == "exact":
            return adaptor.version
        for source in self._sources:
            if source.kind == "folder" and (found := choose_version(adaptor, await _local_versions([source], short))):
                return found
        if self._may_fetch(self._sources[-1], wish):
            package = await self._registry.get_package(short, wish.deadline)
            if package and adaptor.version_kind == "newest" and package.latest in package.releases:
                return package.latest
            if package and (found := choose_version(adaptor, package.releases)):
                return found
        return choose_version(adaptor, await _local_versions(self._sources, short))

    async def _exact(self, short: str, version: str, wish: _LookupOptions) -> Entries | None:
        for source in self._sources:
            entries = await self._kept(source, short, version)
            if entries is None and self._may_fetch(source, wish):
                entries = await self._fetch(source, short, version, wish)
            if entries is not None:
                return entries
        return None

    async def _nearest(self, short: str, version: str, wish: _LookupOptions) -> tuple[str, Entries] | None:
        local = await _local_versions(self._sources, short)
        package = self._registry.cached_package(short) if self._may_fetch(self._sources[-1], wish) else None
        # If the registry has the version, fetching it has failed, and another one would fare no better.
        offered = set(package.releases) if package and version not in package.releases else set[str]()
        near: str | None = version
        while near := nearest_version(near, {*local, *offered}):
            if near in offered:
                entries, offered = await self._exact(short, near, wish), set[str]()  # One attempt is enough.
            else:
                entries = await self._exact(short, near, msgspec.structs.replace(wish, download=False))
            if entries is not None:
                return near, entries
        return None

    def _may_fetch(self, source: _Source, wish: _LookupOptions) -> bool:
        return source.fetch is not None and (wish.download or source.kind == "url")

    async def _kept(self, source: _Source, short: str, version: str) -> Entries | None:
        if (entries := self._fetched.get((source.folder, short, version))) is not None:
            return entries
        return await asyncio.to_thread(load_entries, source.folder, short, version)

    async def _fetch(self, source: _Source, short: str, version: str, wish: _LookupOptions) -> Entries | None:
        if source.kind == "registry" and not await self._registry.is_available(wish.deadline):
            return None
        flight = self._flights.join(
            f"Fetching {short}@{version} from the {source.kind}", partial(self._bring, source, short, version)
        )
        if flight is not None:
            wish.on_progress(f"Looking up {short}@{version}")
        return await wait_for(flight, wish.deadline)

    async def _bring(self, source: _Source, short: str, version: str) -> Entries:
        assert source.fetch is not None
        content = await source.fetch(short, version)
        entries = await asyncio.to_thread(_decode_and_save, source.folder, short, version, content)
        self._fetched[source.folder, short, version] = entries
        if len(self._fetched) > _MAX_CACHED:
            del self._fetched[next(iter(self._fetched))]
        return entries


async def _fetch_from_url(address: str, short: str, version: str) -> bytes:
    """A description from under an address, where it lies as it would in a folder."""
    version = quote(version)
    return await fetch_first([f"{address}/{short}@{version}.json", f"{address}/{short}/{version}/ast.json"])


def _decode_and_save(place: Path, short: str, version: str, content: bytes) -> Entries:
    entries = decode_description(content)
    if entries is None:
        raise DownloadError("this is no description of an adaptor")
    try:
        save_description(place, short, version, content)
    except OSError as error:
        log.warning("%s@%s cannot be kept in the cache folder: %s.", short, version, error)
    return entries


async def _local_versions(sources: list[_Source], short: str) -> set[str]:
    """All versions of an adaptor that lie in the sources' folders."""
    found = await asyncio.to_thread(lambda: [list_versions(source.folder, short) for source in sources])
    return {version for versions in found for version in versions}


async def describe_adaptor(library: AdaptorLibrary, text: str, *, full: bool = False) -> str:
    """What is known about the adaptor that a text names: its signatures, or all of it."""
    adaptor = names.parse_adaptor(text)
    if adaptor is None:
        raise PalaverError(f"{text!r} names no adaptor; one looks like {names.EXAMPLE!r} or 'http@6.5.4'.")
    return format_docs(await library.look_up(adaptor, download=True, on_progress=lambda _: None), full=full)


def format_docs(docs: AdaptorDocs, *, full: bool = False) -> str:
    """Docs as text for a terminal."""
    between, parts = ("\n\n", [e.text for e in docs.entries]) if full else ("\n", [e.signature for e in docs.entries])
    title = " ".join(filter(None, [docs.adaptor.name, docs.version]))
    return f"{title}\n{_state_line(docs)}\n" + (f"\n{between.join(parts)}\n" if parts else "")


def _state_line(docs: AdaptorDocs) -> str:
    match docs.state:
        case "exact":
            return "docs: exact"
        case "nearest":
            return f"docs: nearest ({docs.docs_version}); what this version has may differ"
        case "missing":
            return "docs: missing; a chat about it goes on without"
        case _:
            assert_never(docs.state)
