"""`ctx.fetch(part)`: the bytes of a file that a message carries, wherever they are. Nothing else here fetches a URL."""

import base64
import binascii
from collections.abc import Coroutine
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from palaver.core.messages import File
from palaver.errors import InvalidValue, UpstreamFailed
from palaver.outbound import fetch_document
from palaver.storage import files
from palaver.storage.database import Database

_DATA_SCHEME = "data:"
_WEB_SCHEMES = ("http:", "https:")


class FileFetch(Protocol):
    """Gives the bytes of a file that a run of that project was given."""

    def __call__(self, project: str, part: File) -> Coroutine[Any, Any, bytes]:
        """All of them, or the PalaverError that says why not."""
        ...


class FileFetcher:
    """The one that looks at all the places where a file may be."""

    def __init__(self, database: Database | None = None, *, allow_private: bool = False) -> None:
        self._database = database
        self._allow_private = allow_private

    async def __call__(self, project: str, part: File) -> bytes:
        """What is in it: of a stored file of that project, of its own data, or at its URL."""
        if part.file_id is not None and part.data is None:
            return await self._stored(project, part.file_id)
        if part.data is not None:
            return _decode_base64(part.data)
        url = part.url or ""
        if url[: len(_DATA_SCHEME)].lower() == _DATA_SCHEME:
            return _decode_data_url(url)
        if not url.lower().startswith(_WEB_SCHEMES):
            raise InvalidValue("The file has no content: it names no stored file, no data, and no http or https URL.")
        found = await fetch_document(url, allow_private=self._allow_private)
        if not 200 <= found.status < 300:
            raise UpstreamFailed(f"The file could not be fetched: the remote answered {found.status}.")
        return found.body

    async def _stored(self, project: str, name: str) -> bytes:
        found = await self._database.read(files.read_content, project, name) if self._database is not None else None
        if found is None:
            raise files.file_not_found(name)
        return found


def _decode_data_url(url: str) -> bytes:
    """What a `data:` URL holds."""
    head, comma, data = url.partition(",")
    if not comma:
        raise InvalidValue("The file's data: URL holds nothing.")
    raw = unquote_to_bytes(data)
    return _decode_base64(raw.decode("latin-1")) if head.lower().endswith(";base64") else raw


def _decode_base64(data: str) -> bytes:
    """Base64, in either alphabet, with or without its padding."""
    plain = "".join(data.split()).rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue("The file's data is not base64.") from None
