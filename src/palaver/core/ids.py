"""Create sortable ids, limit the length of ids from elsewhere, and assign the ids of a run's messages and items."""

import hashlib

MAX_ID_LENGTH = 64
_KEPT_LENGTH, _DIGEST_LENGTH = 40, 12  # Of an id that is longer.
_TRUNCATED_LENGTH = _KEPT_LENGTH + 1 + _DIGEST_LENGTH

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32, lower case: no i, l, o, u to misread.

_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]  # Ten bits at a time.


def sortable_id(milliseconds: int, randomness: int) -> str:
    """Return 26 characters that sort by time: 48 bits of milliseconds, then 80 random bits (a ULID)."""
    number = (milliseconds & (1 << 48) - 1) << 80 | randomness & (1 << 80) - 1
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def id_timestamp_ms(text: str) -> int | None:
    """Return the milliseconds encoded in an id that ends in `sortable_id`, or None if it does not."""
    total = 0
    for character in text[-26:-16]:
        digit = _ALPHABET.find(character)
        if digit < 0:
            return None
        total = total << 5 | digit
    return total if len(text) >= 26 else None


def truncate_id(text: str) -> str:
    """Return the id, or if it is too long its first 40 characters and 12 of its hash. Deterministic."""
    if len(text) <= MAX_ID_LENGTH:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_KEPT_LENGTH]}-{digest[:_DIGEST_LENGTH]}"


def is_truncated_id(text: str) -> bool:
    """Whether the id may be the output of `truncate_id` for a longer one."""
    return len(text) == _TRUNCATED_LENGTH and text[-_DIGEST_LENGTH - 1] == "-"


_MESSAGE, _ITEM = 1, 2


class IdAllocator:
    """Assign the ids of one run's messages and items, the same on every replay.

    Generated ids consist of a prefix, the run's id without `run_`, and a number. Ids from the producer are kept where
    possible: truncated, and never used twice.
    """

    def __init__(self, run_id: str) -> None:
        self._tail = run_id.removeprefix("run_")
        self._count = 0
        self._message: str | None = None
        self._messages_since_result: dict[str, str] = {}  # Message id of the producer -> assigned id.
        self._used: dict[str, int] = {}  # Id -> bits for message and item. One dict, to save memory per run.
        self._call_items: dict[str, str] = {}  # Item id of the producer -> assigned id.

    def new(self, prefix: str) -> str:
        while True:
            self._count += 1
            candidate = f"{prefix}_{self._tail}_{self._count}"
            if candidate not in self._used:  # A producer may have guessed it.
                return candidate

    # Messages

    def message_for(self, name: str) -> str:
        """Return the message of an item: the one named by the producer, else the current one, else a new one.

        After a tool result no item belongs to an earlier message, even if the producer names one.
        """
        if not name:
            if self._message is None:
                self._message = self._claim_message(self.new("msg"))
            return self._message
        message = self._messages_since_result.get(name)
        if message is None:
            message = truncate_id(name)
            if self._is_used(message, _MESSAGE) and message != self._message:
                message = self.new("msg")
            self._messages_since_result[name] = self._messages_since_result[message] = self._claim_message(message)
        self._message = message
        return message

    def end_message(self) -> None:
        """End the current message: the next item that names no message starts a new one."""
        self._message = None

    def result_message(self, name: str) -> str:
        """Return the id of a tool result's message. It is always a new one, and so is the next message."""
        self._message = None
        self._messages_since_result = {}
        message = truncate_id(name)
        return self._claim_message(message if message and not self._is_used(message, _MESSAGE) else self.new("msg"))

    def _claim_message(self, message: str) -> str:
        self._used[message] = self._used.get(message, 0) | _MESSAGE
        return message

    def _is_used(self, name: str, kind: int) -> bool:
        return self._used.get(name, 0) & kind != 0

    # Items

    def is_item(self, item: str) -> bool:
        """Whether an item has or had this id."""
        return self._is_used(item, _ITEM)

    def claim_item(self, name: str) -> str | None:
        """Claim the id for an item named `name`; None if it is already taken."""
        item = truncate_id(name)
        if self._is_used(item, _ITEM):
            return None
        self._used[item] = self._used.get(item, 0) | _ITEM
        return item

    def release_item(self, item: str) -> None:
        """Release an item's id so that it can be reused."""
        self._used[item] &= ~_ITEM

    def claim_call_item(self, call_id: str, *, producer_name: str) -> str | None:
        """Claim the id of a call's item and remember the producer's name for it; None if taken."""
        item = self.claim_item(f"fc_{call_id}")
        if item is not None and producer_name:
            self._call_items[producer_name] = item
        return item

    def call_item_id(self, name: str) -> str:
        """Return the item id of a call for the producer's name, the item id (fc_…) or the call id."""
        item = self._call_items.get(name) or truncate_id(name)
        return item if self._is_used(item, _ITEM) else truncate_id(f"fc_{name}")
