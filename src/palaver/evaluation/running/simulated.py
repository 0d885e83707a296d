"""A simulated user: what the workflow that plays the user is told, and when it is done."""

from collections.abc import Sequence
from typing import Final

from palaver.core.messages import Message
from palaver.testsets.scripts import Simulate

DONE: Final = "[done]"
"""What the simulated user says, on a line of its own at the end, when it has nothing more to ask."""
BEGIN: Final = "(The conversation begins. Write your first message.)"


def asked(simulate: Simulate, said: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation as the user sees it: what the assistant said is said to it, and its own words are its own.

    Instructions, tools and data are the assistant's own business and left out.
    """
    turned = [
        Message.user(message.text) if message.role == "assistant" else Message.assistant(message.text)
        for message in said
        if message.role in ("user", "assistant") and message.text.strip()
    ]
    if not turned or turned[0].role == "assistant":
        turned.insert(0, Message.user(BEGIN))
    return (Message.system(_told(simulate)), *turned)


def is_done(text: str) -> bool:
    """Does the simulated user end the conversation?"""
    lines = text.strip().splitlines()
    return bool(lines) and lines[-1].strip().casefold() == DONE


def _told(simulate: Simulate) -> str:
    persona = f"You are {simulate.persona}\n" if simulate.persona else ""
    return (
        "You play the user in a conversation with an assistant. Write only what the user says next, nothing else.\n"
        f"{persona}What you want: {simulate.goal}\n"
        f"When you have it, or see that you will not get it, answer exactly {DONE}"
    )
