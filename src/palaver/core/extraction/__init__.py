"""Does this value hold chat messages that should be shown as a conversation? One answer, for every table and reply.

    strict.py    the search as it was written down: the messages as they stand in the value
    wide.py      the same steps over every dialect, with more names: messages of ours, where they stood, on which side

What a message looks like, and in whose dialect, recognition.py says; the dialects read them. Whatever the value,
nothing here raises.
"""

from palaver.core.extraction.strict import Prefer, extract_chat_messages
from palaver.core.extraction.wide import Conversation, read_conversation
from palaver.core.recognition import Dialect, dialect_of, is_chat_messages

__all__ = [
    "Conversation",
    "Dialect",
    "Prefer",
    "dialect_of",
    "extract_chat_messages",
    "is_chat_messages",
    "read_conversation",
]
