"""An adaptor library with a test clock, and common values."""

from pathlib import Path
from typing import Any

from palaver_jobchat.adaptors.entries import AdaptorDocs
from palaver_jobchat.adaptors.library import AdaptorLibrary
from palaver_jobchat.adaptors.names import parse_adaptor
from palaver_jobchat.settings import Settings
from tests.jobchat.adaptors.fake_registry import package

ONE, TWO = package("one"), package("two")
TARBALL = "/@openfn/language-library/-/language-library-1.0.0.tgz"
PACKAGE = "/@openfn%2Flanguage-library"
EXACT = {"version": "1.0.0", "docs": "exact"}
MISSING = {"version": "1.0.0", "docs": "missing"}


class LibraryHarness:
    """A library with a test clock, and the progress it reported."""

    def __init__(self, folder: Path, registry: str = "", *, timeout_s: float = 10.0, **settings: Any) -> None:
        self.time = 0.0
        self.progress: list[str] = []
        values = {"adaptors": str(folder / "own"), "cache": str(folder / "cache"), "registry": registry, **settings}
        self.library = AdaptorLibrary(
            Settings(**values), find_registry=lambda: None, now=lambda: self.time, timeout_s=timeout_s
        )

    async def look_up(self, text: str, *, download: bool = True) -> AdaptorDocs:
        adaptor = parse_adaptor(text)
        assert adaptor is not None
        return await self.library.look_up(adaptor, download=download, on_progress=self.progress.append)

    async def look_up_names(self, text: str, *, download: bool = True) -> tuple[dict[str, str], list[str]]:
        docs = await self.look_up(text, download=download)
        meta = docs.meta()
        assert meta.pop("name") == docs.adaptor.name
        return meta, [entry.name for entry in docs.entries]
