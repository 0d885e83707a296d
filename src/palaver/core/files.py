"""Files in messages: are there any, which stored ones do they name, and messages with something else in their place."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from palaver.core.messages import Message
from palaver.core.parts import File, Part, Text


def has_files(messages: Iterable[Message]) -> bool:
    """Is there any? Asked of every call, most of which have none: so it looks at nothing else."""
    for message in messages:
        for part in message.parts:
            if type(part) is File:
                return True
    return False


def is_stored(part: Part) -> bool:
    """Is it a file that is only named by the id of a stored one?"""
    return isinstance(part, File) and part.file_id is not None and part.data is None and part.url is None


def file_ids(messages: Iterable[Message]) -> list[str]:
    """The stored files that messages name."""
    parts = [part for message in messages for part in message.parts]
    return [part.file_id for part in parts if isinstance(part, File) and part.file_id is not None]


def with_files(messages: Sequence[Message], change: Callable[[File], Part]) -> tuple[Message, ...]:
    """The messages with what `change` makes of each of their files; those without files are the same ones."""
    return tuple([_changed(message, change) if has_files([message]) else message for message in messages])


def gone(file: File) -> Text:
    """What a workflow is given in place of a file that was deleted: whoever asked about it shall not get a guess."""
    name = f"{file.filename!r}, {file.media_type}" if file.filename else file.media_type
    return Text(f"[A file was here ({name}). It is not available any more.]")


def _changed(message: Message, change: Callable[[File], Part]) -> Message:
    return replace(message, parts=tuple([change(part) if isinstance(part, File) else part for part in message.parts]))
