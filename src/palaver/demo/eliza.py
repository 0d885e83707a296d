"""A chat after Joseph Weizenbaum's of 1966: it turns what you say around and asks on. The script is our own."""

import asyncio
import re
from collections.abc import AsyncIterator

from palaver import Message, chat

# In order of weight: what the words look like, and what may be asked then; {0} is what was said, turned around.
SCRIPT = [
    (
        r"\b(?:hello|hi|hey|good (?:morning|evening))\b",
        ["Hello. What brings you here today?", "Good to see you. Go on."],
    ),
    (r"\bi (?:need|want) (.+)", ["What would it change if you had {0}?", "How long have you wanted {0}?"]),
    (r"\bi(?:'m| am) (.+)", ["How long have you been {0}?", "Do you like being {0}?", "What makes you {0}?"]),
    (r"\bi feel (.+)", ["When did you first feel {0}?", "Who else knows that you feel {0}?"]),
    (r"\bi (?:can't|cannot) (.+)", ["What keeps you from trying to {0}?", "What if you could {0} tomorrow?"]),
    (r"\bi (?:don't|do not) (.+)", ["Why do you not {0}?", "Would you like to {0}?"]),
    (r"\b(?:i dreamt|i dreamed|dream)\b", ["What did you think of first when you woke?", "And how did it end?"]),
    (
        r"\bmy (mother|father|sister|brother|wife|husband|family|boss)\b",
        ["Tell me more about your {0}.", "What would your {0} say to that?"],
    ),
    (r"\bbecause (.+)", ["Is that the only reason?", "And if it were not so that {0}?"]),
    (r"\b(?:always|never|nobody|everybody)\b", ["Can you think of one exception?", "Really? When was the last time?"]),
    (r"\b(?:you|your)\b", ["We were talking about you, not about me.", "Why do you ask about me?"]),
    (r"\b(?:computer|machine|robot)s?\b", ["Do machines worry you?", "What would a machine know about that?"]),
    (r"\b(?:bye|goodbye|quit)\b", ["Goodbye. We have only just begun.", "Until next time."]),
    (r"\?\s*$", ["What do you think yourself?", "Why does that question matter to you?"]),
    (r"\b(yes|no)\b", ["You seem quite sure.", "I see. And how is that for you?"]),
]
OTHERWISE = ["Please go on.", "What does that suggest to you?", "I am not sure I follow. Say it another way?"]
TURNED = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "am": "are", "i'm": "you're", "myself": "yourself",
    "you": "I", "your": "my", "yours": "mine", "are": "am", "was": "were", "i've": "you've", "i'd": "you'd",
}  # fmt: skip


@chat
async def eliza(messages: list[Message]) -> AsyncIterator[str]:
    """Listens, and asks back. Nothing you say leaves this machine."""
    said = [message.text for message in messages if message.role == "user"]
    for word in re.findall(r"\S+\s*", answer(said)):
        yield word
        await asyncio.sleep(0.03)  # At the pace of somebody who thinks about it.


def answer(said: list[str]) -> str:
    """What to reply: the first rule that fits; of its replies the one that was not used just before."""
    last = said[-1].strip() if said else "hello"
    for look, replies in SCRIPT:
        if found := re.search(look, last, re.IGNORECASE):
            # The same remark again gets the next reply, so that nobody hears the same thing twice in a row.
            before = sum(1 for earlier in said[:-1] if re.search(look, earlier, re.IGNORECASE))
            return replies[before % len(replies)].format(*(turn_around(group) for group in found.groups()))
    return OTHERWISE[(len(said) - 1) % len(OTHERWISE)]


def turn_around(text: str) -> str:
    """The words as the other one would say them: "my work" is "your work"."""
    words = re.split(r"[.!?;,]", text, maxsplit=1)[0].split()
    return " ".join(TURNED.get(word.lower(), word) for word in words)
