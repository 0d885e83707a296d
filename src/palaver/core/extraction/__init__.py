"""Find the conversation in any value, and preview it. Nothing here raises.

    current_turn    the question, and its answer, beside a history
    explain         why no conversation was found
    locations       the keys that are searched, and their order
    messages        read the messages that a search found
    previews        previews of values for table cells
    search          the strict and the extended search
    truncation      cut texts, JSON and messages to size

The message formats are in core/dialects.
"""

from palaver.core.dialects.detection import dialect_of, is_chat_messages
from palaver.core.extraction.locations import Prefer
from palaver.core.extraction.previews import CELL, Budget, Preview, full, preview, preview_messages
from palaver.core.extraction.search import extract_chat_messages, read_conversation

__all__ = [
    "CELL",
    "Budget",
    "Prefer",
    "Preview",
    "dialect_of",
    "extract_chat_messages",
    "full",
    "is_chat_messages",
    "preview",
    "preview_messages",
    "read_conversation",
]
