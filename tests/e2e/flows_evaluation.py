"""Workflows and an evaluator for the browser tests of evaluations."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from palaver import Case, Failure, Message, Parameter, ToolCall, ToolResult, chat, evaluator, workflow
from palaver.demo import eliza

__all__ = ["atlas", "eliza", "guide", "polite", "short", "sleepy"]

CAPITALS = {
    "France": "Paris",
    "Norway": "Oslo",
    "Japan": "Tokyo",
    "Peru": "Lima",
    "Kenya": "Nairobi",
    "Chile": "Santiago",
}
HITS = {"refund": "Refunds take 14 days.", "delivery": "We deliver within 3 days.", "price": "It costs 20 euros."}


@workflow
def atlas(
    country: str, style: Annotated[Literal["long", "short"], Parameter(description="How it answers")] = "long"
) -> str:
    """The capital of a country; the short style knows less, and of Atlantis nobody knows."""
    if country == "Atlantis":
        raise Failure("no_such_country", "Atlantis is not on the map.", status=422)
    capital = CAPITALS.get(country, "London")
    if style == "short":
        return capital if country in ("France", "Norway", "Japan", "Kenya") else "I do not know."
    return f"The capital of {country} is {capital}."


@chat
async def guide(
    messages: list[Message], careful: Annotated[bool, Parameter(description="Look it up before it answers")] = True
) -> AsyncIterator[Any]:
    """A shop's assistant: looks things up with tools, then answers."""
    question = messages[-1].text.lower()
    topic = next((name for name in HITS if name in question), None)
    if topic is None:
        yield "Hello, how can I help?"
        return
    if careful:
        yield ToolCall(call_id=f"call_{len(messages)}", name="search_docs", arguments=f'{{"q": "{topic}"}}')
        yield ToolResult(call_id=f"call_{len(messages)}", output={"hits": [{"title": topic, "text": HITS[topic]}]})
    yield HITS[topic] if careful else f"I think the {topic} is fine."


@workflow
async def sleepy(text: str) -> str:
    """The same text, after a while."""
    await asyncio.sleep(0.4)
    return text


@evaluator(title="Short")
def short(case: Case) -> bool:
    """Whether the answer is short; it breaks without the region of the country."""
    return len(case.text) < len(case.row["region"]) + 20


@evaluator(title="Polite", threshold=0.5)
def polite(case: Case, words: list[str] | None = None) -> float:
    """The share of kind words that are in the answer."""
    expected_words = words or ["capital", "please"]
    return sum(word in case.text for word in expected_words) / len(expected_words)
