"""Stored files for those who cannot read our ids: other dialects, frameworks and services elsewhere get their bytes."""

import asyncio
import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from palaver.core.files import gone, has_files, is_stored, with_files
from palaver.core.messages import Message
from palaver.core.parts import File, Part
from palaver.errors import NotFound, TooLarge

if TYPE_CHECKING:
    from palaver.workflows.context import Context

MOST = 32 * 1024 * 1024
"""Bytes of all the files of one call together: a few words may name a lot, and the workflow holds them at once."""


def names_stored(messages: Sequence[Message]) -> bool:
    """Is there any stored file to be put in its place?"""
    return has_files(messages) and any(map(is_stored, _parts(messages)))


async def inlined(messages: Sequence[Message], context: "Context") -> tuple[Message, ...]:
    """The messages with every stored file as base64 data.

    A file that was deleted a moment ago is told of in words. An id in what the assistant said that is none of ours is
    its provider's, and stays.
    """
    held: dict[str, str] = {}
    size = 0
    for file, times in Counter(filter(is_stored, _parts(messages))).items():
        assert isinstance(file, File)
        try:
            content = await context.fetch(file)
        except NotFound:
            continue
        size += len(content) * times
        if size > MOST:
            raise TooLarge(f"The files of this conversation come to more than {MOST} bytes together: name fewer.")
        assert file.file_id is not None
        held[file.file_id] = (await asyncio.to_thread(base64.b64encode, content)).decode()

    def whole(part: File) -> Part:
        if not is_stored(part) or part.file_id is None:
            return part
        data = held.get(part.file_id)
        return gone(part) if data is None else File(part.media_type, None, data, None, part.filename, part.detail)

    def kept(part: File) -> Part:
        return whole(part) if part.file_id in held else part

    told = [with_files([message], kept if message.role == "assistant" else whole) for message in messages]
    return tuple([message for (message,) in told])


def _parts(messages: Sequence[Message]) -> Iterator[Part]:
    return (part for message in messages for part in message.parts)
