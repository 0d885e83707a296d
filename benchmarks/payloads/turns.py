"""Conversations in nobody's dialect yet: who says what, which tool is called, what it answers."""

import math
from random import Random
from typing import Any, Literal, NamedTuple

Role = Literal["system", "user", "assistant"]
IMAGE = "https://files.example/photos/oslo-harbour-1024.png"


class Call(NamedTuple):
    """A tool that the assistant calls, and its answer."""

    id: str
    name: str
    arguments: dict[str, Any]
    output: dict[str, Any]


class Turn(NamedTuple):
    """What one side says; with a call, most dialects make two messages of it."""

    role: Role
    text: str
    thought: str | None = None
    call: Call | None = None
    image: str | None = None


class Style(NamedTuple):
    """What a conversation is like."""

    book: str
    """Where its texts are cut from."""
    has_calls: bool
    has_images: bool
    has_thoughts: bool


_PASSAGES = {
    "english": (
        "The ferry leaves the harbour at a quarter past nine, and the last one comes back shortly before midnight. "
        "Take the tram to the square, change there, and walk along the river for about ten minutes.\n\n"
        'Somebody wrote "closed for repairs" on the door; I would call first. Prices go up in June, so book early. '
        "1. Check the weather. 2. Pack something warm: evenings are cool even in July.\n"
        "The museum has three floors, and the second one alone is worth the trip; plan two hours, or better three. "
    ),
    "norwegian": (
        "Fergen går fra havnen kvart over ni, og den siste kommer tilbake like før midnatt. Været blir bedre på "
        "lørdag, sier de, men ta med noe varmt likevel.\nMåltidet på øya var utmerket: røkt ørret og en åpen eplekake. "
    ),
    "japanese": (
        "船は九時十五分に港を出て、最終便は真夜中の少し前に戻ります。土曜日には天気が良くなるそうです。"
        "暖かい服を持って行ってください。🚢 博物館は三階建てで、二階だけでも見る価値があります。\n"
    ),
}
_SOURCE_TEXTS = {language: passage * math.ceil(4_000 / len(passage)) for language, passage in _PASSAGES.items()}
ENGLISH = _SOURCE_TEXTS["english"]
_OTHER_LANGUAGES = [language for language in _SOURCE_TEXTS if language != "english"]
_TOOLS = ("weather", "search_timetable", "book_table", "find_document")
_CITIES = ("Oslo", "Bergen", "Tromsø", "Lisbon", "大阪")


def random_style(chance: Random) -> Style:
    """One conversation in six is not in English, two in five use tools, some show images or think aloud."""
    language = "english" if chance.random() < 5 / 6 else chance.choice(_OTHER_LANGUAGES)
    return Style(_SOURCE_TEXTS[language], chance.random() < 0.4, chance.random() < 0.15, chance.random() < 0.15)


def random_conversation(chance: Random, messages: int) -> list[Turn]:
    """Turns that most dialects make so many messages of, or one more."""
    kind = random_style(chance)
    turns: list[Turn] = []
    if messages > 2 and chance.random() < 0.5:
        turns.append(Turn("system", random_text(chance, kind.book)))
    made = len(turns)
    while made < messages:
        if not turns or turns[-1].role != "user":
            turns.append(_random_question(chance, kind))
            made += 1
        else:
            turns.append(random_answer(chance, kind))
            made += 1 if turns[-1].call is None else 2
    return turns


def random_answer(chance: Random, kind: Style) -> Turn:
    """What a model says, or the tool that it calls."""
    thought = random_text(chance, kind.book) if kind.has_thoughts and chance.random() < 0.5 else None
    if kind.has_calls and chance.random() < 0.4:
        return Turn("assistant", "", thought, _random_call(chance))
    return Turn("assistant", random_text(chance, kind.book), thought)


def random_text(chance: Random, book: str, length: int | None = None) -> str:
    """Some 200 characters, seldom under 60 or over 600, unless told."""
    if length is None:
        length = max(30, min(4_000, int(chance.lognormvariate(math.log(180), 0.7))))
    begin = chance.randrange(len(book))
    return (book * (length // len(book) + 2))[begin : begin + length]


def _random_question(chance: Random, kind: Style) -> Turn:
    image = IMAGE if kind.has_images and chance.random() < 0.3 else None
    return Turn("user", random_text(chance, kind.book), image=image)


def _random_call(chance: Random) -> Call:
    city = chance.choice(_CITIES)
    name = chance.choice(_TOOLS)
    rows = [{"at": f"{hour:02}:15", "degrees": hour / 2, "wind": hour % 7} for hour in range(chance.randrange(1, 5))]
    arguments = {"city": city, "days": chance.randrange(1, 8)}
    return Call(f"call_{chance.getrandbits(64):016x}", name, arguments, {"city": city, "forecast": rows})
