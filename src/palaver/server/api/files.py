"""/api/files: uploaded files; /api/extract: find the conversation in a JSON value."""

import asyncio
import re
import unicodedata
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes

import msgspec
from litestar import Response, delete, get, post
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType
from litestar.params import FromPath, FromQuery
from litestar.response import Stream
from sqlalchemy import Connection

from palaver.core import json
from palaver.core.extraction import Prefer, Preview, preview, read_conversation
from palaver.core.extraction.search import Conversation
from palaver.errors import InvalidBody, InvalidType, InvalidValue, RequestTimeout, TooLarge, UnsupportedMediaType
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import (
    After,
    ApiRequest,
    Limit,
    Timestamp,
    caller_of,
    encode_object,
    exchange_of,
    format_timestamp,
    if_match_check,
    make_view,
    new_id,
    object_response,
    raw_body,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.request import ClientDisconnected, Exchange
from palaver.server.settings import Settings
from palaver.storage import files as file_store
from palaver.storage.database import Database
from palaver.storage.files import FileChunks, StoredFile
from palaver.storage.pagination import Page, Window

FILE_HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, max-age=3600",
}
"""Headers of every download, so that no uploaded file can act as a page of this server."""

INLINE_MEDIA_TYPES = frozenset(
    [
        *(f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "avif")),
        *(f"audio/{name}" for name in ("mpeg", "mp3", "wav", "x-wav", "ogg", "mp4", "webm")),
        *(f"video/{name}" for name in ("ogg", "mp4", "webm")),
        "application/pdf",
        "text/plain",
    ]
)
"""Media types sent as declared; all others become application/octet-stream."""

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,99}/[a-z0-9!#$&^_.+-]{1,99}")
FORM_TYPES = ("multipart/", "application/x-www-form-urlencoded")
_MAX_NAME_CHARS = 255
_PATH_NAME = re.compile(r"[/\\]|^\.{0,2}$")
_UNSAFE_NAME_CHARS = re.compile('["\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]')
"""Quotes and bidirectional controls, which could display `gpj.exe` as `exe.jpg`."""


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a file."""

    id: str
    media_type: str
    filename: str
    bytes: int
    sha256: str
    url: str
    created_at: Timestamp
    expires_at: Timestamp | None
    """When the file is deleted, unless it is referenced by then; null once it is referenced."""


def upload_operation(*media_types: str) -> type[Operation]:
    """Return an `operation_class` that documents that the body is a file."""

    @dataclass
    class UploadOperation(Operation):
        def __post_init__(self) -> None:
            schema = Schema(
                type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY, description="The content of the file."
            )
            content = {media_type: OpenAPIMediaType(schema=schema) for media_type in media_types}
            self.request_body = RequestBody(content=content, required=True)

    return UploadOperation


def file_view(file: StoredFile) -> FileView:
    expires_at = None if file.expires_at is None else format_timestamp(file.expires_at)
    return make_view(FileView, file, url=f"/api/files/{file.id}", expires_at=expires_at)


class FileController(ApiController):
    path = "/api/files"

    database: Database
    settings: Settings
    now: Callable[[], datetime] = staticmethod(utc_now)

    @post(
        operation_id="upload_file",
        summary="Upload a file, sent as the body, with its name in the header x-palaver-filename",
        operation_class=upload_operation("*/*"),
    )
    async def upload_file(self, request: ApiRequest) -> Response[FileView]:
        exchange = exchange_of(request)
        media_type, filename = _media_type(exchange), _filename(exchange)
        body = await _read_upload(exchange, self.settings)
        chunks, sha256 = body.end()
        file = StoredFile(
            project=caller_of(request).project,
            id=new_id("file"),
            media_type=media_type,
            filename=filename,
            bytes=body.bytes,
            sha256=sha256,
            created_at=self.now(),
        )

        def insert(db: Connection) -> HttpResponse:
            file_store.insert_file(db, file, chunks, max_total_bytes=self.settings.files_max)
            return encode_object(file_view(file), status=201, location=f"{self.settings.root_path}/api/files/{file.id}")

        digest = f"{media_type}\n{filename}\n{sha256}".encode()
        return await run_idempotent(request, self.database, digest, insert)

    @get(operation_id="list_files", summary="List files, newest first")
    async def list_files(self, request: ApiRequest, after: After = None, limit: Limit = 50) -> Page[FileView]:
        page = await self.database.read(file_store.list_files, caller_of(request).project, Window(limit, after))
        return page.map(file_view)

    @get("/{file_id:str}", operation_id="get_file", summary="Download a file; with meta=true, get its metadata")
    async def get_file(
        self,
        request: ApiRequest,
        file_id: FromPath[str],
        meta: FromQuery[bool] = False,  # noqa: FBT002
    ) -> Response[Any]:
        file = await self.database.read(require_file, caller_of(request).project, file_id)
        return object_response(request, file_view(file)) if meta else file_response(request, self.database, file)

    @delete(
        "/{file_id:str}", operation_id="delete_file", summary="Delete a file; message parts that reference it are kept"
    )
    async def delete_file(self, request: ApiRequest, file_id: FromPath[str]) -> None:
        await self.database.write(_delete, caller_of(request).project, file_id, if_match_check(request, file_view))


def require_file(db: Connection, project: str, file: str) -> StoredFile:
    stored_file = file_store.get_file(db, project, file)
    if stored_file is None:
        raise file_store.file_not_found(file)
    return stored_file


def _delete(db: Connection, project: str, file: str, check: Callable[[StoredFile], None]) -> None:
    check(require_file(db, project, file))
    file_store.delete_file(db, project, file)


# Upload


def _media_type(exchange: Exchange) -> str:
    declared = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared.startswith(FORM_TYPES):
        raise UnsupportedMediaType(
            "Form uploads are not supported. "
            "Send the file as the request body, with its media type as the Content-Type."
        )
    if exchange.headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMediaType("Content-Encoding is not supported. Send the file uncompressed.")
    return check_media_type(declared)


def check_media_type(declared: str) -> str:
    """Return the type of a file. Raises UnsupportedMediaType if it is malformed."""
    if not _MEDIA_TYPE.fullmatch(declared):
        raise UnsupportedMediaType("Missing or invalid Content-Type. Send the media type of the file, e.g. image/png.")
    return declared


def _filename(exchange: Exchange) -> str:
    header = exchange.headers.get("x-palaver-filename")
    if header is None:
        raise InvalidValue("Missing header x-palaver-filename. Send the percent-encoded name of the file.")
    try:
        name = unquote_to_bytes(header).decode()
    except UnicodeDecodeError:
        raise InvalidValue("x-palaver-filename must be percent-encoded UTF-8.", pointer="/filename") from None
    return check_filename(name, "x-palaver-filename", "/filename")


def check_filename(name: str, source: str, pointer: str) -> str:
    """Return the name to display, in NFC. It is never used as a path. Raises InvalidValue, which names the `source`."""
    name = unicodedata.normalize("NFC", name).strip()
    has_controls = any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in name)
    if _PATH_NAME.search(name) or has_controls or len(name) > _MAX_NAME_CHARS:
        message = f"{source} must be a file name of at most {_MAX_NAME_CHARS} characters, not a path."
        raise InvalidValue(message, pointer=pointer)
    return name


async def _read_upload(exchange: Exchange, settings: Settings) -> FileChunks:
    """Read the body; raises TooLarge as soon as the limit is exceeded."""
    chunks = FileChunks()
    async for data in upload_chunks(exchange, settings, settings.max_file):
        if chunks.bytes + len(data) > settings.max_file:
            raise too_large(settings.max_file)
        chunks.feed(data)
    return chunks


async def upload_chunks(exchange: Exchange, settings: Settings, max_bytes: int) -> AsyncGenerator[bytes]:
    """Yield the body. Raises RequestTimeout, ClientDisconnected, or InvalidBody if it is empty.

    Raises TooLarge for a content-length above `max_bytes`; the bytes of a body without one are not counted here.
    """
    length = exchange.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise too_large(max_bytes)
    has_more, is_empty = True, True
    while has_more:
        try:
            async with asyncio.timeout(settings.body_seconds):
                message = await exchange.receive()
        except TimeoutError:
            raise RequestTimeout(
                f"Request body timed out after {settings.body_seconds:g} seconds without data."
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        if data := message.get("body", b""):
            is_empty = False
            yield data
        has_more = message.get("more_body", False)
    if is_empty:
        raise InvalidBody("The request body is empty. Send the file as the body.")


def too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The file exceeds the limit of {max_bytes:,} bytes.")


# Download


def file_response(request: ApiRequest, database: Database, file: StoredFile) -> Response[Any]:
    headers = {**FILE_HEADERS, "content-disposition": content_disposition(file.filename), "etag": f'"{file.sha256}"'}
    if headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(None, status_code=304, headers=headers)
    headers["content-length"] = str(file.bytes)
    media_type = file.media_type if file.media_type in INLINE_MEDIA_TYPES else "application/octet-stream"
    return Stream(_read_chunks(database, file), headers=headers, media_type=media_type)


async def _read_chunks(database: Database, file: StoredFile) -> AsyncGenerator[bytes]:
    for index in range(-(-file.bytes // file_store.CHUNK_BYTES)):
        chunk = await database.read(file_store.read_chunk, file.project, file.sha256, index)
        if chunk is None:
            # The headers are sent. Abort the connection, so that the client sees that bytes are missing.
            raise file_store.file_not_found(file.id)
        yield chunk


def content_disposition(filename: str) -> str:
    """Return the header that makes browsers save the file under its name."""
    name = _UNSAFE_NAME_CHARS.sub("", filename) or "file"
    ascii_name = re.sub(r"[^ !#$&+.\w-]", "_", name, flags=re.ASCII)
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}"


_INLINE_BYTES = 64 * 1024  # Larger bodies are processed in a thread.


class ExtractionResult(msgspec.Struct, frozen=True):
    """The conversation found in a value, and its preview."""

    conversation: Conversation | None
    preview: Preview


@dataclass
class _ExtractOperation(Operation):
    def __post_init__(self) -> None:
        side = Schema(
            enum=["input", "output", None],
            description="The side to prefer if the value contains several conversations.",
        )
        body = Schema(
            type=OpenAPIType.OBJECT,
            description="A JSON value that may contain a conversation.",
            properties={"value": Schema(description="Any JSON value."), "prefer": side},
            required=["value"],
        )
        self.request_body = RequestBody(content={"application/json": OpenAPIMediaType(schema=body)}, required=True)


class ExtractController(ApiController):
    path = "/api/extract"

    settings: Settings

    @post(
        operation_id="extract",
        summary="Extract the conversation from a JSON value, with a preview",
        status_code=200,
        operation_class=_ExtractOperation,
    )
    async def extract(self, request: ApiRequest) -> Response[ExtractionResult]:
        body = await raw_body(request, self.settings)
        encoded = (
            _extract(body, self.settings)
            if len(body) <= _INLINE_BYTES
            else await asyncio.to_thread(_extract, body, self.settings)
        )
        return Response(cast("ExtractionResult", encoded), media_type="application/json")


def _extract(body: bytes, settings: Settings) -> bytes:
    value, prefer = _parse_request(json.decode(body, settings.json_limits))
    return json.encode(ExtractionResult(read_conversation(value, prefer), preview(value, prefer)))


def _parse_request(body: object) -> tuple[object, Prefer | None]:
    if not isinstance(body, dict):
        raise InvalidBody('The body must be an object such as {"value": …}.')
    fields = cast("dict[str, Any]", body)
    if "value" not in fields:
        raise InvalidBody("Missing field 'value': the body must be an object such as {\"value\": …}.", pointer="/value")
    match fields.get("prefer"):
        case None | "input" | "output" as prefer:
            return fields["value"], prefer
        case str() as other:
            raise InvalidValue(f"prefer must be input, output or null, not {other[:40]!r}.", pointer="/prefer")
        case _:
            raise InvalidType("prefer must be a string or null.", pointer="/prefer")
