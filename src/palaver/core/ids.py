"""Ids: short, ordered by time where they are ours, of bounded length where they are a stranger's."""

import hashlib

MAX_ID_LENGTH = 64
"""The most characters that an id may have, ours or anybody's."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32, lower case: no i, l, o, u to misread.

_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]  # Ten bits at a time: one is made per request.


def sortable_id(milliseconds: int, randomness: int) -> str:
    """26 characters that sort by time: 48 bits of milliseconds, then 80 bits of randomness."""
    number = (milliseconds & (1 << 48) - 1) << 80 | randomness & (1 << 80) - 1
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def id_timestamp_ms(text: str) -> int | None:
    """The milliseconds that the 26 characters at its end begin with; None where there are none."""
    total = 0
    for character in text[-26:-16]:
        digit = _ALPHABET.find(character)
        if digit < 0:
            return None
        total = total << 5 | digit
    return total if len(text) >= 26 else None


def truncate_id(text: str) -> str:
    """The id itself, or 40 characters of it and 12 of its hash: the same one wherever that id occurs."""
    if len(text) <= MAX_ID_LENGTH:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:40]}-{digest[:12]}"


_MESSAGE, _ITEM = 1, 2


class IdAllocator:
    """Makes ids, and knows which are taken and which message is being spoken."""

    def __init__(self, run_id: str) -> None:
        self._tail = run_id.removeprefix("run_")
        self._made = 0
        self._message: str | None = None
        self._since_result: dict[str, str] = {}  # A producer's message id -> the one we use for it.
        self._taken: dict[str, int] = {}  # Ids of messages, items or both; one dict, for there may be thousands of us.
        self._calls: dict[str, str] = {}  # What a producer calls a call's item -> the one we use for it.

    def new(self, prefix: str) -> str:
        """An id that nothing had before."""
        while True:
            self._made += 1
            made = f"{prefix}_{self._tail}_{self._made}"
            if made not in self._taken:  # A producer may have guessed it.
                return made

    # Messages

    def message_for(self, given: str) -> str:
        """The message that an item belongs to: the one its producer names, else the one being spoken, else a new one.

        After a tool result nothing belongs to a message from before it, whatever the producer says.
        """
        if not given:
            if self._message is None:
                self._message = self._take(self.new("msg"))
            return self._message
        known = self._since_result.get(given)
        if known is None:
            known = truncate_id(given)
            if self._is(known, _MESSAGE) and known != self._message:
                known = self.new("msg")
            self._since_result[given] = self._since_result[known] = self._take(known)
        self._message = known
        return known

    def end_message(self) -> None:
        """The next item that names no message starts a new one."""
        self._message = None

    def result_message(self, given: str) -> str:
        """The message of a tool result, always one of its own; what comes after it starts anew."""
        self._message = None
        self._since_result = {}
        message = truncate_id(given)
        return self._take(message if message and not self._is(message, _MESSAGE) else self.new("msg"))

    def _take(self, message: str) -> str:
        self._taken[message] = self._taken.get(message, 0) | _MESSAGE
        return message

    def _is(self, name: str, kind: int) -> bool:
        return self._taken.get(name, 0) & kind != 0

    # Items

    def is_item(self, item: str) -> bool:
        """Is there, or was there, an item of that id?"""
        return self._is(item, _ITEM)

    def item(self, name: str) -> str | None:
        """The id of an item of that name, from now on taken; None if it was taken before."""
        item = truncate_id(name)
        if self._is(item, _ITEM):
            return None
        self._taken[item] = self._taken.get(item, 0) | _ITEM
        return item

    def forget_item(self, item: str) -> None:
        """The item never was."""
        self._taken[item] &= ~_ITEM

    def call_item(self, call_id: str, *, given: str) -> str | None:
        """The id of a call's item, which also answers to the name that its producer gave it; None if taken."""
        item = self.item(f"fc_{call_id}")
        if item is not None and given:
            self._calls[given] = item
        return item

    def called(self, name: str) -> str:
        """The item of a call by any of its names: its producer's, the item's (fc_…) or the call's id."""
        item = self._calls.get(name) or truncate_id(name)
        return item if self._is(item, _ITEM) else truncate_id(f"fc_{name}")
