"""Messages: who said what."""

from collections.abc import Iterable
from typing import Any, Literal, Self, get_args

import msgspec

from palaver.core.parts import Part, Text, ToolCall, ToolResult

Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: frozenset[str] = frozenset(get_args(Role))


class _Nothing(dict[str, Any]):
    """The metadata of most messages: one empty dict for all of them, which therefore nobody may fill."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("A message is frozen: make a new one, Message(…, metadata={…}).")

    __setitem__ = __ior__ = update = setdefault = _refuse  # pyright: ignore[reportAssignmentType]  # They only raise.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]  # OpenAPI asks it of every default.


NOTHING: dict[str, Any] = _Nothing()


class Message(msgspec.Struct, frozen=True, omit_defaults=True, eq=False, gc=False):
    """One turn of a conversation.

    Not watched for cycles, as what it holds is JSON, which has none: a long conversation would keep the garbage
    collector busier than its reader.
    """

    role: Role
    parts: tuple[Part, ...]
    id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] = NOTHING

    def __eq__(self, other: object) -> bool:
        # Authors write lists of parts. Whether it is one must not matter; to make a tuple of each would cost a call
        # for every message of every conversation that is read.
        return (
            isinstance(other, Message)
            and self.role == other.role
            and tuple(self.parts) == tuple(other.parts)
            and (self.id, self.name, self.metadata) == (other.id, other.name, other.metadata)
        )

    def __hash__(self) -> int:
        return hash((self.role, tuple(self.parts), self.id, self.name))

    @property
    def text(self) -> str:
        """The text parts, joined without a separator."""
        return "".join([part.text for part in self.parts if type(part) is Text])

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls that this message makes, in order."""
        return [part for part in self.parts if type(part) is ToolCall]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results that this message brings, in order."""
        return [part for part in self.parts if type(part) is ToolResult]

    @classmethod
    def user(cls, *said: str | Part) -> Self:
        """`Message.user("What is this?", File(media_type="image/png", url="…"))`."""
        return cls(role="user", parts=_parts(said))

    @classmethod
    def assistant(cls, *said: str | Part) -> Self:
        """The workflow's own words. With nothing said it only separates two messages."""
        return cls(role="assistant", parts=_parts(said))

    @classmethod
    def system(cls, *said: str | Part) -> Self:
        """Instructions."""
        return cls(role="system", parts=_parts(said))

    @classmethod
    def tool(cls, call_id: str, output: Any, *, is_error: bool = False) -> Self:
        """What a tool answered to the call of that id."""
        return cls(role="tool", parts=(ToolResult(call_id=call_id, output=output, is_error=is_error),))


def _parts(said: Iterable[str | Part]) -> tuple[Part, ...]:
    return tuple(Text(text=piece) if isinstance(piece, str) else piece for piece in said)
