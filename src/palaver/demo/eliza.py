"""A chat modelled on Joseph Weizenbaum's ELIZA of 1966, with its own script."""

import asyncio
import re
from collections.abc import AsyncIterator

from palaver import Message, chat

# In order of priority: a pattern and its replies. {0} is the matched text, with "I" and "you" swapped.
SCRIPT = [
    (
        r"\b(?:hello|hi|hey|good (?:morning|evening))\b",
        ["Hello. What brings you here today?", "Good to see you. Go on."],
    ),
    (r"\bi (?:need|want) (.+)", ["What would it change if you had {0}?", "How long have you wanted {0}?"]),
    (r"\bi(?:'m| am) (.+)", ["How long have you been {0}?", "Do you like being {0}?", "What makes you {0}?"]),
    (r"\bi feel (.+)", ["When did you first feel {0}?", "Who else knows that you feel {0}?"]),
    (r"\bi (?:can't|cannot) (.+)", ["What keeps you from trying to {0}?", "What if you could {0} tomorrow?"]),
    (r"\bi (?:don't|do not) (.+)", ["Why don't you {0}?", "Would you like to {0}?"]),
    (r"\b(?:i dreamt|i dreamed|dream)\b", ["What was your first thought when you woke up?", "And how did it end?"]),
    (
        r"\bmy (mother|father|sister|brother|wife|husband|family|boss)\b",
        ["Tell me more about your {0}.", "What would your {0} say to that?"],
    ),
    (r"\bbecause (.+)", ["Is that the only reason?", "What if it weren't true that {0}?"]),
    (r"\b(?:always|never|nobody|everybody)\b", ["Can you think of one exception?", "Really? When was the last time?"]),
    (r"\b(?:you|your)\b", ["We were talking about you, not about me.", "Why do you ask about me?"]),
    (r"\b(?:computer|machine|robot)s?\b", ["Do machines worry you?", "What would a machine know about that?"]),
    (r"\b(?:bye|goodbye|quit)\b", ["Goodbye. We were only getting started.", "Until next time."]),
    (r"\?\s*$", ["What do you think?", "Why does that question matter to you?"]),
    (r"\b(yes|no)\b", ["You seem quite sure.", "I see. And how is that for you?"]),
]
DEFAULT_REPLIES = [
    "Please go on.",
    "What does that suggest to you?",
    "I'm not sure I follow. Can you put it another way?",
]
REFLECTIONS = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "am": "are", "i'm": "you're", "myself": "yourself",
    "you": "I", "your": "my", "yours": "mine", "are": "am", "was": "were", "i've": "you've", "i'd": "you'd",
}  # fmt: skip


@chat
async def eliza(messages: list[Message]) -> AsyncIterator[str]:
    """Listens and asks questions. Nothing you say leaves this machine."""
    lines = [message.text for message in messages if message.role == "user"]
    for word in re.findall(r"\S+\s*", answer(lines)):
        yield word
        await asyncio.sleep(0.03)  # The pace of someone thinking.


def answer(lines: list[str]) -> str:
    """Return a reply of the first pattern that matches. The replies of a pattern are used in turn."""
    last = lines[-1].strip() if lines else "hello"
    for pattern, replies in SCRIPT:
        if match := re.search(pattern, last, re.IGNORECASE):
            # A repeated remark gets the next reply.
            earlier_matches = sum(1 for earlier in lines[:-1] if re.search(pattern, earlier, re.IGNORECASE))
            return replies[earlier_matches % len(replies)].format(*(reflect(group) for group in match.groups()))
    return DEFAULT_REPLIES[(len(lines) - 1) % len(DEFAULT_REPLIES)]


def reflect(text: str) -> str:
    """Swap first and second person: "my work" becomes "your work"."""
    words = re.split(r"[.!?;,]", text, maxsplit=1)[0].split()
    return " ".join(REFLECTIONS.get(word.lower(), word) for word in words)
