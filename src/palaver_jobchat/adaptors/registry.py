"""The npm registry: which versions an adaptor has, for an hour, and the description that a version came with."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from palaver_jobchat.adaptors import packages
from palaver_jobchat.adaptors.fetching import Unusable, fetch, fetch_first
from palaver_jobchat.adaptors.flights import Flights, landing
from palaver_jobchat.adaptors.packages import Package

HOUR = 3600.0
_MOST_PACKAGES = 200
log = logging.getLogger("palaver_jobchat")


class Registry:
    """A registry, at an address that is found when it is first needed."""

    def __init__(self, find: Callable[[], str | None], flights: Flights, *, now: Callable[[], float]) -> None:
        self._find = find
        self._flights = flights
        self._now = now
        self._address: str | None = None
        """Empty: looked for, and there is none."""
        self._packages: dict[str, tuple[float, Package]] = {}

    async def exists(self, deadline: float) -> bool:
        """Whether there is a registry to ask."""
        if self._address is None:
            await landing(self._flights.join("Finding the npm registry", self._look), deadline)
        return bool(self._address)

    def known(self, short: str) -> Package | None:
        """The adaptor's versions as they were when last asked for."""
        kept = self._packages.get(short)
        return kept[1] if kept else None

    async def package(self, short: str, deadline: float) -> Package | None:
        """The adaptor's versions, not older than an hour unless the registry cannot be reached."""
        if self._fresh(short) is None and await self.exists(deadline):
            await self._asked(short, deadline)
        return self.known(short)

    async def description(self, short: str, version: str) -> bytes:
        """The description of one version, as its package has it."""
        package = self._fresh(short)
        if package is None or version not in package.releases:  # It may have come out since.
            package = await self._asked(short) or self.known(short)
        if package is None:
            raise Unusable("the registry does not say which versions there are")
        release = package.releases.get(version)
        if release is None:
            raise Unusable("the registry has no such version")
        tarball = await fetch_first(packages.addresses(self._address or "", release))
        return await asyncio.to_thread(packages.description, tarball, release.integrity)

    def _fresh(self, short: str) -> Package | None:
        kept = self._packages.get(short)
        return kept[1] if kept and self._now() - kept[0] < HOUR else None

    async def _asked(self, short: str, deadline: float | None = None) -> Package | None:
        flight = self._flights.join(f"Asking the npm registry for {short}", partial(self._fetch, short))
        return await landing(flight, deadline)

    async def _fetch(self, short: str) -> Package:
        content = await fetch(f"{self._address}/@openfn%2Flanguage-{short}", accept=packages.ABBREVIATED)
        package = await asyncio.to_thread(packages.read, content)
        self._packages.pop(short, None)  # So that the order is that of asking.
        self._packages[short] = (self._now(), package)
        if len(self._packages) > _MOST_PACKAGES:
            del self._packages[next(iter(self._packages))]
        return package

    async def _look(self) -> None:
        self._address = await asyncio.to_thread(self._find) or ""
        if not self._address:
            log.warning("No npm registry is configured: adaptor docs are not fetched. Set PALAVER_JOBCHAT_REGISTRY.")
