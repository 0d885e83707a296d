"""Does this value hold chat messages that should be shown as a conversation? One answer, for every table and reply.

    places.py    the names that the searches know, and in which order they are tried
    strict.py    the search as it was written down: the messages as they stand in the value
    wide.py      the same steps over every dialect, with more names: messages of ours, where they stood, on which side
    reading.py   what the wide search found, read into messages, whatever it holds
    reasons.py   where nothing was found: place by place, why not
    cells.py     what a table's cell shows of a value: the conversation, a text, or JSON; its values are in previews.py,
                 and words, cutting and compact make its texts

What a message looks like, and in whose dialect, elements.py and recognition.py say; the dialects read them. Whatever
the value, nothing here raises.
"""

from palaver.core.dialects.detection import Dialect, dialect_of, is_chat_messages
from palaver.core.extraction.conversation import Conversation
from palaver.core.extraction.explain import Reason, explain_absence
from palaver.core.extraction.locations import Prefer
from palaver.core.extraction.previews import CELL, Budget, Preview, Whole, full, preview, preview_messages
from palaver.core.extraction.search import extract_chat_messages, read_conversation

__all__ = [
    "CELL",
    "Budget",
    "Conversation",
    "Dialect",
    "Prefer",
    "Preview",
    "Reason",
    "Whole",
    "dialect_of",
    "extract_chat_messages",
    "full",
    "is_chat_messages",
    "preview",
    "preview_messages",
    "read_conversation",
    "explain_absence",
]
