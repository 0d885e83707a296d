"""Replace references to stored files by their bytes, for workflows that cannot look files up."""

import asyncio
import base64
from collections import Counter
from collections.abc import Iterator, Sequence

from palaver.core.messages import File, Message, Part, has_files, is_stored_file, missing_file_notice, replace_files
from palaver.errors import NotFound, TooLarge
from palaver.workflows.context import Context

MAX_INLINED_BYTES = 32 * 1024 * 1024
"""Maximum size of all files of one call together; the workflow holds them in memory at once."""


def has_stored_files(messages: Sequence[Message]) -> bool:
    return has_files(messages) and any(map(is_stored_file, _all_parts(messages)))


async def inline_files(messages: Sequence[Message], context: "Context") -> tuple[Message, ...]:
    """Return the messages with every stored file as base64 data.

    A deleted file is replaced by a notice. An unknown file id in an assistant message is the provider's, and is kept.
    """
    data_by_id: dict[str, str] = {}
    size = 0
    for file, count in Counter(filter(is_stored_file, _all_parts(messages))).items():
        assert isinstance(file, File)
        try:
            content = await context.fetch(file)
        except NotFound:
            continue
        size += len(content) * count
        if size > MAX_INLINED_BYTES:
            raise TooLarge(
                f"The files in this conversation exceed the limit of {MAX_INLINED_BYTES:,} bytes. Use fewer files."
            )
        assert file.file_id is not None
        data_by_id[file.file_id] = (await asyncio.to_thread(base64.b64encode, content)).decode()

    def inline_any(part: File) -> Part:
        if not is_stored_file(part) or part.file_id is None:
            return part
        data = data_by_id.get(part.file_id)
        if data is None:
            return missing_file_notice(part)
        return File(part.media_type, None, data, None, part.filename, part.detail)

    def inline_known(part: File) -> Part:
        return inline_any(part) if part.file_id in data_by_id else part

    inlined = [
        replace_files([message], inline_known if message.role == "assistant" else inline_any) for message in messages
    ]
    return tuple([message for (message,) in inlined])


def _all_parts(messages: Sequence[Message]) -> Iterator[Part]:
    return (part for message in messages for part in message.parts)
