"""/v1/files: the files of the project, as OpenAI's SDKs upload, list and download them.

Unlike a file of /api/files, one that was uploaded here is kept until it is deleted. Errors have OpenAI's format.
"""

import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Protocol

import msgspec
import multipart  # pyright: ignore[reportMissingTypeStubs]  # It has no types.
from litestar import Request, Response, delete, get, post
from litestar.exceptions import HTTPException
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType
from litestar.params import FromPath, QueryParameter
from sqlalchemy import Connection

from palaver.errors import InvalidBody, InvalidValue, PalaverError, TooLarge, UnsupportedMediaType
from palaver.protocols import openai
from palaver.protocols.base import HttpResponse, json_response
from palaver.protocols.openai import MissingRequired, UnsupportedValue
from palaver.server.api import files
from palaver.server.api.conventions import (
    EXCEPTION_HANDLERS,
    ApiRequest,
    caller_of,
    exchange_of,
    http_error,
    litestar_response,
    new_id,
    run_idempotent,
    utc_now,
)
from palaver.server.api.dependencies import ApiController
from palaver.server.error_responses import error_status, with_error_headers
from palaver.server.request import Exchange
from palaver.server.settings import Settings
from palaver.storage import files as file_store
from palaver.storage.database import Database
from palaver.storage.files import DEFAULT_PURPOSE, FileChunks, StoredFile, StoredUpload
from palaver.storage.pagination import Order

Purpose = Literal["assistants", "user_data", "vision"]
_UNSUPPORTED_PURPOSES = ("batch", "evals", "fine-tune")
_MAX_FIELD_BYTES = 1_000
_FORM_OVERHEAD_BYTES = 64 * 1024
"""Maximum size of a form without its file."""
_OCTET_STREAM = "application/octet-stream"
_After = Annotated[
    str | None, QueryParameter(pattern="^file_[0-9a-z]{26}$", description="Id of the last file on the page before.")
]
_Order = Annotated[
    Literal["asc", "desc"], QueryParameter(description="Order by the time of the upload: oldest or newest first.")
]
_Purpose = Annotated[str | None, QueryParameter(max_length=64, description="Only files with this purpose.")]
_ORDERS: dict[str, Order] = {"asc": "oldest", "desc": "newest"}


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file, as in OpenAI's API."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    """When the file is deleted, in Unix seconds; null for a file that was uploaded here or is used."""
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileObjectPage(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedFile(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


@dataclass
class _UploadOperation(Operation):
    def __post_init__(self) -> None:
        content = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY, description="The file, with its name.")
        purpose = Schema(type=OpenAPIType.STRING, enum=["assistants", "user_data", "vision"])
        form = Schema(
            type=OpenAPIType.OBJECT,
            properties={"file": content, "purpose": purpose},
            required=["file", "purpose"],
            additional_properties=False,
        )
        self.request_body = RequestBody(content={"multipart/form-data": OpenAPIMediaType(schema=form)}, required=True)


def _handle_error(_: Request[Any, Any, Any], error: PalaverError) -> Response[Any]:
    response = openai.error_response(error, status=error_status(error, "b"))
    return litestar_response(with_error_headers(response, error))


def _handle_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    document = http_error(request, error)
    pointer = document.get("path", "").replace("?", "/") or None
    rejected = InvalidValue(document["message"], pointer=pointer)
    rejected.code = document["code"]
    return litestar_response(openai.error_response(rejected, status=error.status_code))


class OpenAIFileController(ApiController):
    path = "/v1/files"
    exception_handlers: ClassVar[Any] = {
        **EXCEPTION_HANDLERS,
        PalaverError: _handle_error,
        HTTPException: _handle_http_exception,
    }

    database: Database
    settings: Settings
    now: Callable[[], datetime] = staticmethod(utc_now)

    @post(
        operation_id="create_openai_file",
        summary="Upload a file, for OpenAI's SDKs",
        status_code=200,
        operation_class=_UploadOperation,
    )
    async def create_openai_file(self, request: ApiRequest) -> Response[FileObject]:
        form = await _read_form(exchange_of(request), self.settings)
        chunks, sha256 = form.content.end()
        file = StoredFile(
            project=caller_of(request).project,
            id=new_id("file"),
            media_type=form.media_type,
            filename=form.filename,
            bytes=form.content.bytes,
            sha256=sha256,
            used=True,
            created_at=self.now(),
        )

        def insert(db: Connection) -> HttpResponse:
            file_store.insert_file(db, file, chunks, max_total_bytes=self.settings.files_max)
            file_store.keep_file(db, file, form.purpose)
            return json_response(_file_object(StoredUpload(file, form.purpose)))

        digest = f"{form.purpose}\n{form.media_type}\n{form.filename}\n{sha256}".encode()
        return await run_idempotent(request, self.database, digest, insert)

    @get(operation_id="list_openai_files", summary="List files, for OpenAI's SDKs")
    async def list_openai_files(
        self,
        request: ApiRequest,
        after: _After = None,
        limit: Annotated[int, QueryParameter(ge=1, le=10_000, description="Maximum number of files.")] = 10_000,
        order: _Order = "desc",
        purpose: _Purpose = None,
    ) -> FileObjectPage:
        uploads = await self.database.read(
            file_store.list_uploads, caller_of(request).project, purpose, after, limit + 1, _ORDERS[order]
        )
        page = [_file_object(upload) for upload in uploads[:limit]]
        first_id, last_id = (page[0].id, page[-1].id) if page else (None, None)
        return FileObjectPage(data=page, first_id=first_id, last_id=last_id, has_more=len(uploads) > limit)

    @get("/{file_id:str}", operation_id="get_openai_file", summary="Get the metadata of a file, for OpenAI's SDKs")
    async def get_openai_file(self, request: ApiRequest, file_id: FromPath[str]) -> FileObject:
        upload = await self.database.read(file_store.get_upload, caller_of(request).project, file_id)
        if upload is None:
            raise file_store.file_not_found(file_id)
        return _file_object(upload)

    @get("/{file_id:str}/content", operation_id="get_openai_file_content", summary="Download a file, for OpenAI's SDKs")
    async def get_openai_file_content(self, request: ApiRequest, file_id: FromPath[str]) -> Response[Any]:
        file = await self.database.read(files.require_file, caller_of(request).project, file_id)
        return files.file_response(request, self.database, file)

    @delete(
        "/{file_id:str}",
        operation_id="delete_openai_file",
        summary="Delete a file, for OpenAI's SDKs",
        status_code=200,
    )
    async def delete_openai_file(self, request: ApiRequest, file_id: FromPath[str]) -> DeletedFile:
        if not await self.database.write(file_store.delete_file, caller_of(request).project, file_id):
            raise file_store.file_not_found(file_id)
        return DeletedFile(id=file_id)


def _file_object(upload: StoredUpload) -> FileObject:
    file = upload.file
    return FileObject(
        id=file.id,
        bytes=file.bytes,
        created_at=int(file.created_at.timestamp()),
        expires_at=None if file.expires_at is None else int(file.expires_at.timestamp()),
        filename=file.filename,
        purpose=_parse_purpose(upload.purpose or DEFAULT_PURPOSE),
    )


# The form


_multipart: Any = multipart


class _FormField(Protocol):
    """The head of a field (`MultipartSegment`)."""

    name: str
    filename: str | None
    content_type: str | None


@dataclass
class _Form:
    content: FileChunks
    filename: str
    media_type: str
    purpose: Purpose


class _FormReader:
    """Collects the fields of an upload as they arrive."""

    def __init__(self, settings: Settings) -> None:
        self._max_file = settings.max_file
        self._content = FileChunks()
        self._file: _FormField | None = None
        self._fields: dict[str, bytes] = {}
        self._name = ""
        """Name of the field that is being received."""

    def feed(self, event: _FormField | bytearray | bytes | None) -> None:
        """Process an event of the parser: the head of a field, a part of its value, or None at its end."""
        if isinstance(event, bytes | bytearray):
            self._add(self._name, bytes(event))
        elif event is not None:
            self._open(event)

    def _open(self, field: _FormField) -> None:
        name = field.name
        if name not in ("file", "purpose"):
            message = f"Unsupported field {name[:80]!r}. Send 'file' and 'purpose'."
            raise UnsupportedValue(message, pointer=f"/{name[:80]}")
        if name in self._fields:
            raise InvalidValue(f"The form contains {name!r} twice.", pointer=f"/{name}")
        if name == "file":
            if field.filename is None:
                raise InvalidValue("file must be an uploaded file with a name.", pointer="/file")
            self._file = field
        self._fields[name], self._name = b"", name

    def _add(self, name: str, data: bytes) -> None:
        if name == "file":
            if self._content.bytes + len(data) > self._max_file:
                raise files.too_large(self._max_file)
            self._content.feed(data)
            return
        self._fields[name] += data
        if len(self._fields[name]) > _MAX_FIELD_BYTES:
            raise TooLarge(f"{name} exceeds the limit of {_MAX_FIELD_BYTES:,} bytes.")

    def end(self) -> _Form:
        for name in ("file", "purpose"):
            if name not in self._fields:
                raise MissingRequired(f"Missing required parameter: {name}.", pointer=f"/{name}")
        assert self._file is not None
        filename = files.check_filename(self._file.filename or "", "The name of the file", "/file")
        declared = self._file.content_type or _OCTET_STREAM
        if declared == _OCTET_STREAM:  # Clients that don't know the type send this one.
            declared = mimetypes.guess_type(filename)[0] or _OCTET_STREAM
        return _Form(
            content=self._content,
            filename=filename,
            media_type=files.check_media_type(declared),
            purpose=_parse_purpose(self._fields["purpose"].decode(errors="replace")),
        )


def _parse_purpose(text: str) -> Purpose:
    match text:
        case "assistants" | "user_data" | "vision":
            return text
        case _ if text in _UNSUPPORTED_PURPOSES:
            message = f"The purpose {text!r} is not supported. Use assistants, user_data or vision."
            raise UnsupportedValue(message, pointer="/purpose")
        case _:
            message = f"Invalid purpose {text[:80]!r}: must be assistants, user_data or vision."
            raise InvalidValue(message, pointer="/purpose")


async def _read_form(exchange: Exchange, settings: Settings) -> _Form:
    """Read a multipart form, without keeping more of it than its file."""
    kind, options = _multipart.parse_options_header(exchange.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise UnsupportedMediaType("Send the file as multipart/form-data, with the fields 'file' and 'purpose'.")
    reader, max_bytes, received_bytes = _FormReader(settings), settings.max_file + _FORM_OVERHEAD_BYTES, 0
    try:
        with _multipart.PushMultipartParser(options["boundary"]) as parser:
            async for data in files.upload_chunks(exchange, settings, max_bytes):
                received_bytes += len(data)
                if received_bytes > max_bytes:
                    raise files.too_large(settings.max_file)
                for event in parser.parse(data):
                    reader.feed(event)
    except _multipart.MultipartError as error:
        raise InvalidBody(f"The body is not a valid multipart form: {error}.") from None
    return reader.end()
