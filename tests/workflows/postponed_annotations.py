"""Functions with postponed annotations whose imports are under TYPE_CHECKING."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from decimal import Decimal

    from palaver import Context, Message, Parameter


class Config(TypedDict):
    heat: float
    words: NotRequired[int]


async def tutor(
    messages: list[Message],
    context: Context,
    price: Decimal,
    heat: Annotated[float, Parameter(description="How wild.")] = 0.2,
    subject: str = "maths",
) -> AsyncIterator[str]:
    yield subject


def configured(config: Config) -> list[Later]: ...


class Later(TypedDict):
    x: int
