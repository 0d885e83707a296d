"""Ten thousand values as tables of traces, test sets and evaluations hold them; the same ones every time.

    turns      conversations in nobody's dialect: who says what, tools and their answers
    written    the same as each of the eight dialects has them
    places     where they stand: requests, answers, test cases, spans, JSON texts within attributes
    decoys     what looks like a conversation and is none

A fifth are decoys, a tenth have their conversation in a JSON text, a tenth are answers of one turn. Among the others
all dialects are equally common, but for Chat Completions, which is twice as common. Small ones are many and large ones
few: half of the conversations have no more than four messages, one in ten has over fifty, the longest have a thousand.
All together about 100 MB.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec

from benchmarks.payloads import decoys, turns
from benchmarks.payloads.envelopes import ANSWER_ENVELOPES, CONVERSATION_ENVELOPES, TEXT_ENVELOPES, Envelope
from benchmarks.payloads.turns import Turn
from benchmarks.payloads.writers import WRITERS, Writer
from palaver.core.dialects.detection import DIALECTS, Dialect

COUNT = 10_000
TEXT_KINDS = (*{place.__name__ for places in TEXT_ENVELOPES.values() for place in places}, decoys.json_table.__name__)
"""How the kinds end whose conversation, or what looks like one, stands in a JSON text."""
_MAX_MESSAGES = 1_000
_MAX_BYTES = 1_000_000
_T = TypeVar("_T")


class Payload(msgspec.Struct, frozen=True):
    """A value as bytes, and what it is."""

    kind: str
    """Its dialect's writer and its place, or the decoy that it is."""
    dialect: Dialect | None
    """None for a decoy."""
    data: bytes

    @property
    def texts(self) -> list[str]:
        """The JSON texts that stand in it."""
        found: list[str] = []
        waiting: list[Any] = [msgspec.json.decode(self.data)]
        while waiting:
            match waiting.pop():
                case str(text) if text[:1] in ("{", "["):
                    found.append(text)
                case dict(held):
                    waiting += held.values()
                case list(held):
                    waiting += held
                case _:
                    pass
        return found


def payloads(count: int = COUNT, seed: int = 4) -> Iterator[Payload]:
    """The first of them are the same, however many are asked for."""
    for number in range(count):
        chance = Random(seed * 1_000_003 + number)
        share = chance.random()
        if share < 0.2:
            yield _decoy(chance)
        elif share < 0.3:
            yield _conversation(chance, TEXT_ENVELOPES)
        elif share < 0.4:
            yield _answer(chance)
        else:
            yield _conversation(chance, CONVERSATION_ENVELOPES)


def _decoy(chance: Random) -> Payload:
    make = chance.choice(decoys.DECOYS)
    return Payload(make.__name__, None, msgspec.json.encode(make(chance, _message_count(chance))))


def _conversation(chance: Random, places: Mapping[Writer, Sequence[Envelope]]) -> Payload:
    writer = _choose_writer(chance, places)
    said = turns.random_conversation(chance, _message_count(chance))
    if chance.random() < 0.005:  # Somebody pastes a document.
        length = int(10_000 * (_MAX_BYTES / 10_000) ** chance.random() * 0.9)
        said[0] = said[0]._replace(text=turns.random_text(chance, turns.ENGLISH, length))
    return _payload(chance, writer, places, said)


def _answer(chance: Random) -> Payload:
    said = [turns.random_answer(chance, turns.random_style(chance))]
    return _payload(chance, _choose_writer(chance, ANSWER_ENVELOPES), ANSWER_ENVELOPES, said)


def _payload(
    chance: Random, writer: Writer, places: Mapping[Writer, Sequence[Envelope]], said: Sequence[Turn]
) -> Payload:
    place = chance.choice(places[writer])
    kind = f"{writer.__name__} {place.__name__}"
    return Payload(kind, WRITERS[writer], msgspec.json.encode(place(writer(said))))


def _choose_writer(chance: Random, places: Mapping[Writer, Sequence[Envelope]]) -> Writer:
    """Of a dialect first: how many ways there are to write it does not make it more common."""
    common = [dialect for dialect in (*DIALECTS, "chat-completions") if any(WRITERS[one] == dialect for one in places)]
    dialect = chance.choice(common)
    ways = [writer for writer in places if WRITERS[writer] == dialect]
    return chance.choices(ways, [len(places[way]) for way in ways])[0]


def _message_count(chance: Random) -> int:
    """One to a thousand: twice as long is a little less than half as common, so that all lengths cost alike."""
    return int((1 - chance.random() * (1 - _MAX_MESSAGES**-0.5)) ** -2)
