"""Usage: what an answer cost."""

from typing import TypeVar

import msgspec

_Number = TypeVar("_Number", int, float)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens, and money where it is known. `input_tokens` counts all input, cached included."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Both together; what neither knows stays unknown."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=_sum(self.cached_input_tokens, other.cached_input_tokens),
            cache_creation_input_tokens=_sum(self.cache_creation_input_tokens, other.cache_creation_input_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cost=_sum(self.cost, other.cost),
        )

    @property
    def total_tokens(self) -> int:
        """Input and output."""
        return self.input_tokens + self.output_tokens


def _sum(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
