"""Look up an adaptor's description: in the operator's folder or URL, in the npm registry, then among the bundled ones.

A source is a folder (`http@6.5.4.json` or `http/6.5.4/ast.json`) and, if it is remote, a way to fetch what the folder
lacks. If no source has the requested version, the nearest lower one is used. Failures are never raised: the chat
continues with fewer docs. A missing folder is an empty one.
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

from palaver import PalaverError
from palaver_jobchat.adaptors import names, npm_registry
from palaver_jobchat.adaptors.entries import AdaptorDocs, Entry, decode_description
from palaver_jobchat.adaptors.http_fetch import MAX_BYTES, DownloadError, SingleFlight, fetch_first, log, wait_for
from palaver_jobchat.adaptors.names import Adaptor, choose_version, nearest_version
from palaver_jobchat.adaptors.npm_registry import NpmRegistry
from palaver_jobchat.settings import Settings


def list_versions(folder: Path, short: str) -> list[str]:
    """Return all versions of an adaptor in the folder, sorted as text."""
    versions: set[str] = set()
    with suppress(OSError):
        for path in folder.iterdir():
            name, _, version = path.name.removesuffix(".json").rpartition("@")
            if name == short and path.name.endswith(".json"):
                versions.add(version)
    with suppress(OSError):
        versions.update(path.parent.name for path in (folder / short).glob("*/ast.json"))
    return sorted(versions)


def load_entries(folder: Path, short: str, version: str) -> tuple[Entry, ...] | None:
    """Return the entries of one version, or None if there is no readable file."""
    for path in (folder / f"{short}@{version}.json", folder / short / version / "ast.json"):
        with suppress(OSError):
            info = path.stat()
            if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
                continue
            if (entries := _load_file(path, info.st_ino, info.st_mtime_ns, info.st_size)) is not None:
                return entries
    return None


def save_description(folder: Path, short: str, version: str, content: bytes) -> None:
    """Write a description into the folder, atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder, prefix=".", suffix=".part", delete=False) as part:
        temporary = Path(part.name)
        try:
            part.write(content)
            part.close()
            temporary.replace(folder / f"{short}@{version}.json")
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


@lru_cache(maxsize=64)
def _load_file(path: Path, _inode: int, _changed: int, _size: int) -> tuple[Entry, ...] | None:
    """Decode a file. Cached by its inode, time and size, because decoding takes milliseconds."""
    return decode_description(path.read_bytes())


SAMPLES = Path(__file__).parent.parent / "data" / "adaptors"
"""Descriptions written for Job Chat, used if no folder is set and the registry cannot be reached."""

Entries = tuple[Entry, ...]
FoundEntries = tuple[Entries, "_Source"]
_MAX_FETCHED = 64


class _Source(msgspec.Struct, frozen=True):
    kind: Literal["folder", "samples", "url", "registry"]
    folder: Path
    fetch: Callable[[str, str], Awaitable[bytes]] | None = None


class _LookupOptions(msgspec.Struct, frozen=True):
    download: bool
    on_progress: Callable[[str], None]
    deadline: float


class AdaptorLibrary:
    """Finds descriptions of adaptors and caches what it fetched."""

    def __init__(
        self,
        settings: Settings,
        *,
        find_registry: Callable[[], str | None] = npm_registry.users_registry,
        now: Callable[[], float] = time.monotonic,
        timeout_s: float = 5.0,
    ) -> None:
        self._timeout_s = timeout_s
        self._flights = SingleFlight(now=now, timeout_s=timeout_s)
        find = partial(npm_registry.normalize_url, settings.registry) if settings.registry else find_registry
        self._registry = NpmRegistry(find, self._flights, now=now)
        self._sources = self._create_sources(settings)
        self._fetched: dict[tuple[Path, str, str], Entries] = {}
        """The last fetched entries, for when the cache folder is not writable."""

    async def look_up(self, adaptor: Adaptor, *, download: bool, on_progress: Callable[[str], None]) -> AdaptorDocs:
        """Return the docs of the requested version or of the nearest lower one; `missing` if there are none.

        `on_progress` gets a line for the user when something is fetched. Without `download`, the npm registry is not
        used.
        """
        missing = AdaptorDocs(adaptor=adaptor, version=adaptor.version)
        short = adaptor.short
        if short is None or adaptor.version_kind == "other":
            return missing
        options = _LookupOptions(download, on_progress, asyncio.get_running_loop().time() + self._timeout_s)
        version = await self._resolve_version(short, adaptor, options)
        if version is None:
            return missing
        state, docs_version = "exact", version
        found = await self._find_exact(short, version, options)
        if found is None and (nearest := await self._find_nearest(short, version, options)):
            state, (docs_version, found) = "nearest", nearest
        if found is None:
            return msgspec.structs.replace(missing, version=version)
        return AdaptorDocs(
            adaptor=adaptor,
            version=version,
            state=state,
            docs_version=docs_version,
            is_bundled=found[1].kind == "samples",
            entries=found[0],
        )

    def _create_sources(self, settings: Settings) -> list[_Source]:
        cache, location = settings.cache_folder, settings.adaptors
        is_online = settings.online and settings.provider != "scripted"  # Scripted answers need no network.
        registry = _Source("registry", cache / "npm", self._registry.fetch_description if is_online else None)
        if location.startswith(("http://", "https://")):
            # One folder per URL: the same name may have different content elsewhere.
            url_cache = cache / f"url-{sha256(location.encode()).hexdigest()[:12]}"
            return [_Source("url", url_cache, partial(_fetch_from_url, location.rstrip("/"))), registry]
        if location:
            return [_Source("folder", Path(location).expanduser()), registry]
        return [registry, _Source("samples", SAMPLES)]

    async def _resolve_version(self, short: str, adaptor: Adaptor, options: _LookupOptions) -> str | None:
        """Resolve the requested version to a number: by the operator's folder first, then by the registry."""
        if adaptor.version_kind == "exact":
            return adaptor.version
        for source in self._sources:
            if source.kind == "folder" and (version := choose_version(adaptor, await _local_versions([source], short))):
                return version
        if self._may_fetch_from_registry(options):
            package = await self._registry.get_package(short, options.deadline)
            if package and adaptor.version_kind == "newest" and package.latest in package.releases:
                return package.latest
            if package and (version := choose_version(adaptor, package.releases)):
                return version
        return choose_version(adaptor, await _local_versions(self._sources, short))

    async def _find_exact(self, short: str, version: str, options: _LookupOptions) -> FoundEntries | None:
        for source in self._sources:
            entries = await self._load_local(source, short, version)
            if entries is None and self._may_fetch(source, options):
                entries = await self._fetch(source, short, version, options)
            if entries is not None:
                return entries, source
        return None

    async def _find_nearest(self, short: str, version: str, options: _LookupOptions) -> tuple[str, FoundEntries] | None:
        local_versions = await _local_versions(self._sources, short)
        package = self._registry.cached_package(short) if self._may_fetch_from_registry(options) else None
        # If the registry has the version, fetching it has failed, and so would another.
        offered = set(package.releases) if package and version not in package.releases else set[str]()
        candidate: str | None = version
        while candidate := nearest_version(candidate, {*local_versions, *offered}):
            if candidate in offered:
                found, offered = await self._find_exact(short, candidate, options), set[str]()  # One try is enough.
            else:
                found = await self._find_exact(short, candidate, msgspec.structs.replace(options, download=False))
            if found is not None:
                return candidate, found
        return None

    def _may_fetch_from_registry(self, options: _LookupOptions) -> bool:
        return any(source.kind == "registry" and self._may_fetch(source, options) for source in self._sources)

    def _may_fetch(self, source: _Source, options: _LookupOptions) -> bool:
        return source.fetch is not None and (options.download or source.kind == "url")

    async def _load_local(self, source: _Source, short: str, version: str) -> Entries | None:
        if (entries := self._fetched.get((source.folder, short, version))) is not None:
            return entries
        return await asyncio.to_thread(load_entries, source.folder, short, version)

    async def _fetch(self, source: _Source, short: str, version: str, options: _LookupOptions) -> Entries | None:
        if source.kind == "registry" and not await self._registry.is_available(options.deadline):
            return None
        flight = self._flights.join(
            f"Fetching {short}@{version} from the {source.kind}", partial(self._download, source, short, version)
        )
        if flight is not None:
            options.on_progress(f"Looking up {short}@{version}")
        return await wait_for(flight, options.deadline)

    async def _download(self, source: _Source, short: str, version: str) -> Entries:
        assert source.fetch is not None
        content = await source.fetch(short, version)
        entries = await asyncio.to_thread(_decode_and_save, source.folder, short, version, content)
        self._fetched[source.folder, short, version] = entries
        if len(self._fetched) > _MAX_FETCHED:
            del self._fetched[next(iter(self._fetched))]
        return entries


async def _fetch_from_url(address: str, short: str, version: str) -> bytes:
    """Fetch a description from a URL with the layout of a folder."""
    version = quote(version)
    return await fetch_first([f"{address}/{short}@{version}.json", f"{address}/{short}/{version}/ast.json"])


def _decode_and_save(folder: Path, short: str, version: str, content: bytes) -> Entries:
    entries = decode_description(content)
    if entries is None:
        raise DownloadError("the file is not an adaptor description")
    try:
        save_description(folder, short, version, content)
    except OSError as error:
        log.warning("Cannot save %s@%s in the cache folder: %s.", short, version, error)
    return entries


async def _local_versions(sources: list[_Source], short: str) -> set[str]:
    by_source = await asyncio.to_thread(lambda: [list_versions(source.folder, short) for source in sources])
    return {version for versions in by_source for version in versions}


async def describe_adaptor(library: AdaptorLibrary, text: str, *, full: bool = False) -> str:
    """Return the docs of the adaptor that a text names, as text. Raises PalaverError if the name is invalid."""
    adaptor = names.parse_adaptor(text)
    if adaptor is None:
        raise PalaverError(f"Invalid adaptor {text!r}. Expected a name such as {names.EXAMPLE!r} or 'http@6.5.4'.")
    return format_docs(await library.look_up(adaptor, download=True, on_progress=lambda _: None), full=full)


def format_docs(docs: AdaptorDocs, *, full: bool = False) -> str:
    """Render docs for a terminal: signatures, or full entries."""
    separator, parts = ("\n\n", [e.text for e in docs.entries]) if full else ("\n", [e.signature for e in docs.entries])
    title = " ".join(filter(None, [docs.adaptor.name, docs.version]))
    source = "source: included in Job Chat, not the adaptor's own\n" if docs.is_bundled else ""
    return f"{title}\n{_state_line(docs)}\n{source}" + (f"\n{separator.join(parts)}\n" if parts else "")


def _state_line(docs: AdaptorDocs) -> str:
    match docs.state:
        case "exact":
            return "docs: exact"
        case "nearest":
            return f"docs: nearest ({docs.docs_version}); the requested version may differ"
        case "missing":
            return "docs: missing; the model answers without them"
        case _:
            assert_never(docs.state)
