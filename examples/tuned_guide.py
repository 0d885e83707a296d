"""A Pydantic model of parameters, with variants kept in git: one guide, tuned three ways without code changes.

palaver variant import examples/variants --against examples/tuned_guide.py && palaver serve examples/tuned_guide.py
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from palaver import Message, chat

PLACES = {
    "Oslo": ("the roof of the opera", "the fjord", "the sculpture park"),
    "Rome": ("the Pantheon", "the market of Testaccio", "the keyhole on the Aventine"),
}


class Budget(BaseModel):
    amount: Annotated[int, Field(ge=0, description="Amount per day.")] = 100
    currency: Literal["EUR", "NOK"] = "EUR"


class Style(BaseModel):
    tone: Annotated[Literal["warm", "dry"], Field(description="Tone of the answer.")] = "warm"
    places: Annotated[int, Field(ge=1, le=3, description="Number of places to suggest.")] = 2
    budget: Budget = Budget()


@chat
def guide(messages: list[Message], config: Style) -> str:
    """Suggests what to see in Oslo and Rome.

    Send the header `x-palaver-variant: brief` to use the variant in `variants/guide/brief.json`.
    """
    city = next((city for city in PLACES if city in messages[-1].text), None)
    if city is None:
        return f"I only know {' and '.join(PLACES)}."
    seen = ", ".join(PLACES[city][: config.places])
    money = f"{config.budget.amount} {config.budget.currency} a day"
    if config.tone == "dry":
        return f"{city}: {seen}. {money}."
    return f"You will love {city}! Don't miss: {seen}. {money} is enough."
