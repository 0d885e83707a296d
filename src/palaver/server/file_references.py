"""Stored files that a call refers to, by id or by the URL under which we serve them. Such a URL is never fetched."""

import re
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Connection

from palaver.core import json
from palaver.core.ids import MAX_ID_LENGTH
from palaver.core.messages import File, Message, Part, file_ids, missing_file_notice, replace_files
from palaver.storage import files

_FILE_URL = re.compile(r"(?P<prefix>.*)/api/files/(?P<id>[A-Za-z0-9_]{1,64})")
_FILE_FIELD_SUFFIXES = ("id", "url", "uri")
"""Suffixes of the fields that refer to a file, in any protocol."""
_SCHEMES = ("https://", "http://")


def resolve_file_urls(messages: Sequence[Message], *, host: str, root_path: str) -> tuple[Message, ...]:
    """Replace URLs of our own files, relative or with our origin, by file ids."""
    our_prefixes = {
        "",
        root_path,
        *(f"{scheme}{host}{prefix}" for scheme in _SCHEMES for prefix in ("", root_path) if host),
    }

    def with_file_id(part: File) -> File:
        match = _FILE_URL.fullmatch(part.url) if part.url is not None and part.file_id is None else None
        if match is None or match["prefix"] not in our_prefixes:
            return part
        return File(part.media_type, None, None, match["id"], part.filename, part.detail)

    return replace_files(messages, with_file_id)


def require_files(
    db: Connection, project: str, messages: Sequence[Message], body: object = None
) -> tuple[Message, ...]:
    """Fill in type and name of each file that the messages refer to by id.

    Raises NotFound for a file that the project does not have, with a pointer into `body`. In messages of the assistant
    an unknown file is replaced by a notice, as model providers have their own file ids.
    """
    stored = files.find_files(db, project, [file_id for file_id in file_ids(messages) if len(file_id) <= MAX_ID_LENGTH])

    def with_metadata(part: File) -> Part:
        if part.file_id is None:
            return part
        file = stored.get(part.file_id)
        if file is None:
            raise files.file_not_found(part.file_id, pointer=file_pointer(body, part.file_id))
        return File(file.media_type, None, None, file.id, file.filename, part.detail)

    def with_metadata_or_notice(part: File) -> Part:
        return with_metadata(part) if part.file_id is None or part.file_id in stored else missing_file_notice(part)

    replaced = [
        replace_files([message], with_metadata_or_notice if message.role == "assistant" else with_metadata)
        for message in messages
    ]
    return tuple([message for (message,) in replaced])


def file_pointer(body: object, file_id: str) -> str | None:
    """Return a JSON pointer to where a body refers to a file, by id or by URL; None if it does not."""
    if isinstance(body, bytes):
        body = json.decode_or_text(body.decode(errors="replace"))
    stack: list[tuple[str, object]] = [("", body)]
    while stack:
        pointer, value = stack.pop()
        match value:
            case str() if pointer.lower().endswith(_FILE_FIELD_SUFFIXES) and value.endswith(
                (file_id, f"/api/files/{file_id}")
            ):
                return pointer
            case dict():
                members = cast("dict[str, object]", value).items()
                stack += reversed([(f"{pointer}/{json.escape_pointer(key)}", member) for key, member in members])
            case list() | tuple():
                elements = cast("Sequence[Any]", value)
                stack += reversed([(f"{pointer}/{index}", item) for index, item in enumerate(elements)])
            case _:
                pass
    return None
