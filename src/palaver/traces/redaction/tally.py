"""Where a pass over a record is, and what it has removed so far."""

from palaver.traces.record import Redaction

MOST_REDACTIONS = 100
_LONGEST_PATH = 1_000
_LONGEST_STEP = 512


class Tally:
    """A place that moves through a record, and counts of what was removed at it."""

    def __init__(self) -> None:
        self.at: list[str | int] = []
        """Names and indexes, from the field of the record down."""
        self.changes = 0
        """How often something was put in place of something."""
        self._counts: dict[tuple[str, str], int] = {}

    def enter(self, step: str | int) -> None:
        """One step down."""
        self.at.append(step if isinstance(step, int) else step[:_LONGEST_STEP])

    def leave(self) -> None:
        """And up again."""
        self.at.pop()

    def count(self, by: str, count: int = 1) -> None:
        """Something was removed here, by that detector or rule."""
        self.changes += count
        path = ".".join("*" if isinstance(step, int) else step for step in self.at)[:_LONGEST_PATH]
        if (path, by) not in self._counts and len(self._counts) >= MOST_REDACTIONS:
            path = "*"
        self._counts[path, by] = self._counts.get((path, by), 0) + count

    def redactions(self) -> tuple[Redaction, ...]:
        """What was removed."""
        return tuple(Redaction(path, by, count) for (path, by), count in self._counts.items())

    def words(self) -> tuple[str, ...]:
        """Which names of the map that stands here have values that are words and times of ours."""
        match self.at:
            case ["messages_in" | "messages_out", _]:
                return ("role",)
            case ["messages_in" | "messages_out", _, "parts", _]:
                return ("type",)
            case ["messages_in" | "messages_out", _, "parts", _, "annotations", _]:
                return ("kind",)
            case ["events", _]:
                return ("at",)
            case ["links", _]:
                return ("trace_id", "span_id")
            case _:
                return ()

    def structure(self) -> tuple[str, ...]:
        """The same, and those by which one part finds another."""
        words = self.words()
        return (*words, "call_id", "media_type") if words == ("type",) else words
