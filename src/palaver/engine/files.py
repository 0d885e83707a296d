"""`ctx.fetch(part)`: the bytes of a file part. The only place where the engine fetches a URL."""

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
    """Returns the bytes of a file part for a run of the given project."""

    def __call__(self, project: str, part: File) -> Coroutine[Any, Any, bytes]:
        """Return the content, or raise a PalaverError."""
        ...


class FileFetcher:
    """Resolves stored files, inline data, `data:` URLs and http(s) URLs."""

    def __init__(self, database: Database | None = None, *, allow_private: bool = False) -> None:
        self._database = database
        self._allow_private = allow_private

    async def __call__(self, project: str, part: File) -> bytes:
        if part.file_id is not None and part.data is None:
            return await self._read_stored(project, part.file_id)
        if part.data is not None:
            return _decode_base64(part.data)
        url = part.url or ""
        if url[: len(_DATA_SCHEME)].lower() == _DATA_SCHEME:
            return _decode_data_url(url)
        if not url.lower().startswith(_WEB_SCHEMES):
            raise InvalidValue("The file has no content. Set file_id, data, or an http or https URL.")
        response = await fetch_document(url, allow_private=self._allow_private)
        if not 200 <= response.status < 300:
            raise UpstreamFailed(f"Cannot fetch the file: the remote service responded with status {response.status}.")
        return response.body

    async def _read_stored(self, project: str, file_id: str) -> bytes:
        database = self._database
        content = await database.read(files.read_content, project, file_id) if database is not None else None
        if content is None:
            raise files.file_not_found(file_id)
        return content


def _decode_data_url(url: str) -> bytes:
    media_type, comma, data = url.partition(",")
    if not comma:
        raise InvalidValue("The file's data URL contains no data.")
    raw = unquote_to_bytes(data)
    return _decode_base64(raw.decode("latin-1")) if media_type.lower().endswith(";base64") else raw


def _decode_base64(data: str) -> bytes:
    """Decode base64 in either alphabet, with or without padding."""
    text = "".join(data.split()).rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue("The file's data is not valid base64.") from None
