"""A model of parameters, and variants of them kept in git: one guide, tuned in three ways without touching code.

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
    amount: Annotated[int, Field(ge=0, description="For one day.")] = 100
    currency: Literal["EUR", "NOK"] = "EUR"


class Style(BaseModel):
    tone: Annotated[Literal["warm", "dry"], Field(description="How it speaks.")] = "warm"
    places: Annotated[int, Field(ge=1, le=3, description="How many places it names.")] = 2
    budget: Budget = Budget()


@chat
def guide(messages: list[Message], config: Style) -> str:
    """Knows what to see in Oslo and in Rome.

    A caller says `x-palaver-variant: brief` to get the one that is saved as `variants/guide/brief.json`.
    """
    city = next((city for city in PLACES if city in messages[-1].text), None)
    if city is None:
        return f"I only know {' and '.join(PLACES)}."
    seen = ", ".join(PLACES[city][: config.places])
    money = f"{config.budget.amount} {config.budget.currency} a day"
    if config.tone == "dry":
        return f"{city}: {seen}. {money}."
    return f"You will love {city}! Do not miss: {seen}. {money} will do."
