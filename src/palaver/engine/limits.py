"""Limits of a run, and the errors raised when they are exceeded."""

import msgspec

from palaver.errors import TooManyEvents, TooMuchOutput


class RunLimits(msgspec.Struct, frozen=True):
    seconds: float = 600
    events: int = 200_000
    bytes: int = 64 * 1024 * 1024

    def check(self, *, events: int, size: int) -> None:
        if events > self.events:
            raise TooManyEvents(f"The run gave more than {self.events} events.")
        if size > self.bytes:
            raise TooMuchOutput(f"The run said more than {self.bytes} bytes.")

    def check_value(self, size: int) -> None:
        if size > self.bytes:
            raise TooMuchOutput(f"The run's value is larger than {self.bytes} bytes.")
