"""Names of one run's messages and items, the same on every replay: a prefix, the run's own characters, a number."""

from palaver.core.ids import bounded


class Names:
    """Makes ids, and knows which message is being spoken."""

    def __init__(self, run_id: str) -> None:
        self._tail = run_id.removeprefix("run_")
        self._made = 0
        self._message: str | None = None
        self._since_result: dict[str, str] = {}  # A producer's message id -> the one we use for it.
        self._taken: set[str] = set()

    def new(self, prefix: str) -> str:
        """An id that nobody had before."""
        self._made += 1
        return f"{prefix}_{self._tail}_{self._made}"

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
            known = bounded(given)
            if known in self._taken and known != self._message:
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
        message = bounded(given)
        return self._take(message if message and message not in self._taken else self.new("msg"))

    def _take(self, message: str) -> str:
        self._taken.add(message)
        return message
