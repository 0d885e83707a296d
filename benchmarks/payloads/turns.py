"""Random conversations independent of a dialect: turns, tool calls and results."""

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
    """One turn; with a call it becomes two messages in most dialects."""

    role: Role
    text: str
    thought: str | None = None
    call: Call | None = None
    image: str | None = None


class Style(NamedTuple):
    """Properties of a conversation."""

    book: str
    """The text that its messages are cut from."""
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


def random_style(rng: Random) -> Style:
    """One conversation in six is not in English, two in five use tools, some have images or reasoning."""
    language = "english" if rng.random() < 5 / 6 else rng.choice(_OTHER_LANGUAGES)
    return Style(_SOURCE_TEXTS[language], rng.random() < 0.4, rng.random() < 0.15, rng.random() < 0.15)


def random_conversation(rng: Random, messages: int) -> list[Turn]:
    """Turns that become `messages` messages in most dialects, or one more."""
    style = random_style(rng)
    turns: list[Turn] = []
    if messages > 2 and rng.random() < 0.5:
        turns.append(Turn("system", random_text(rng, style.book)))
    count = len(turns)
    while count < messages:
        if not turns or turns[-1].role != "user":
            turns.append(_random_question(rng, style))
            count += 1
        else:
            turns.append(random_answer(rng, style))
            count += 1 if turns[-1].call is None else 2
    return turns


def random_answer(rng: Random, style: Style) -> Turn:
    """A turn of the model: text or a tool call."""
    thought = random_text(rng, style.book) if style.has_thoughts and rng.random() < 0.5 else None
    if style.has_calls and rng.random() < 0.4:
        return Turn("assistant", "", thought, _random_call(rng))
    return Turn("assistant", random_text(rng, style.book), thought)


def random_text(rng: Random, book: str, length: int | None = None) -> str:
    """Text of `length` characters; by default about 200, rarely under 60 or over 600."""
    if length is None:
        length = max(30, min(4_000, int(rng.lognormvariate(math.log(180), 0.7))))
    start = rng.randrange(len(book))
    return (book * (length // len(book) + 2))[start : start + length]


def _random_question(rng: Random, style: Style) -> Turn:
    image = IMAGE if style.has_images and rng.random() < 0.3 else None
    return Turn("user", random_text(rng, style.book), image=image)


def _random_call(rng: Random) -> Call:
    city = rng.choice(_CITIES)
    name = rng.choice(_TOOLS)
    rows = [{"at": f"{hour:02}:15", "degrees": hour / 2, "wind": hour % 7} for hour in range(rng.randrange(1, 5))]
    arguments = {"city": city, "days": rng.randrange(1, 8)}
    return Call(f"call_{rng.getrandbits(64):016x}", name, arguments, {"city": city, "forecast": rows})
