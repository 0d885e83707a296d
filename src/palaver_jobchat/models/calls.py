"""A call of a tool while a model writes it, piece by piece."""

import msgspec

from palaver_jobchat.models.base import CallBegan, CallEnded


class Writing:
    """One call. What was cut off stays cut off: half a call must not look like a whole one."""

    def __init__(self, call_id: str, name: str) -> None:
        self.began = CallBegan(call_id, name)
        self._written: list[str] = []

    def add(self, piece: str) -> None:
        """A piece of its input, as JSON text."""
        self._written.append(piece)

    @property
    def ended(self) -> CallEnded:
        """The call with all that was written. Nothing at all is an input without fields."""
        try:
            value = msgspec.json.decode("".join(self._written) or "{}")
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            value = None
        return CallEnded(self.began.id, self.began.name, value)
