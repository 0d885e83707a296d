"""Ten thousand generated values as found in traces, test sets and evaluations; the same ones every time.

    decoys      values that resemble a conversation
    envelopes   values around messages: requests, answers, test cases, spans, JSON texts in attributes
    turns       conversations independent of a dialect: turns, tool calls and results
    writers     the messages of a conversation in each of the eight dialects

A fifth are decoys, a tenth hold their conversation in a JSON text, a tenth are answers of one turn. Among the others
all dialects are equally common, except Chat Completions, which is twice as common. Half of the conversations have at
most four messages, one in ten has over fifty, the longest have a thousand. The total is about 100 MB.
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
TEXT_KINDS = (
    *{envelope.__name__ for envelopes in TEXT_ENVELOPES.values() for envelope in envelopes},
    decoys.json_table.__name__,
)
"""Suffixes of the kinds whose messages are in a JSON text."""
_MAX_MESSAGES = 1_000
_MAX_BYTES = 1_000_000
_T = TypeVar("_T")


class Payload(msgspec.Struct, frozen=True):
    """An encoded value and its kind."""

    kind: str
    """The names of its writer and envelope, or of the decoy."""
    dialect: Dialect | None
    """None for a decoy."""
    data: bytes

    @property
    def texts(self) -> list[str]:
        """The JSON texts in the value."""
        json_texts: list[str] = []
        stack: list[Any] = [msgspec.json.decode(self.data)]
        while stack:
            match stack.pop():
                case str(text) if text[:1] in ("{", "["):
                    json_texts.append(text)
                case dict(children):
                    stack += children.values()
                case list(children):
                    stack += children
                case _:
                    pass
        return json_texts


def payloads(count: int = COUNT, seed: int = 4) -> Iterator[Payload]:
    """Yield payloads; the first ones don't depend on `count`."""
    for number in range(count):
        rng = Random(seed * 1_000_003 + number)
        share = rng.random()
        if share < 0.2:
            yield _decoy(rng)
        elif share < 0.3:
            yield _conversation(rng, TEXT_ENVELOPES)
        elif share < 0.4:
            yield _answer(rng)
        else:
            yield _conversation(rng, CONVERSATION_ENVELOPES)


def _decoy(rng: Random) -> Payload:
    make = rng.choice(decoys.DECOYS)
    return Payload(make.__name__, None, msgspec.json.encode(make(rng, _message_count(rng))))


def _conversation(rng: Random, envelopes: Mapping[Writer, Sequence[Envelope]]) -> Payload:
    writer = _choose_writer(rng, envelopes)
    conversation = turns.random_conversation(rng, _message_count(rng))
    if rng.random() < 0.005:  # A pasted document.
        length = int(10_000 * (_MAX_BYTES / 10_000) ** rng.random() * 0.9)
        conversation[0] = conversation[0]._replace(text=turns.random_text(rng, turns.ENGLISH, length))
    return _payload(rng, writer, envelopes, conversation)


def _answer(rng: Random) -> Payload:
    conversation = [turns.random_answer(rng, turns.random_style(rng))]
    return _payload(rng, _choose_writer(rng, ANSWER_ENVELOPES), ANSWER_ENVELOPES, conversation)


def _payload(
    rng: Random, writer: Writer, envelopes: Mapping[Writer, Sequence[Envelope]], conversation: Sequence[Turn]
) -> Payload:
    envelope = rng.choice(envelopes[writer])
    kind = f"{writer.__name__} {envelope.__name__}"
    return Payload(kind, WRITERS[writer], msgspec.json.encode(envelope(writer(conversation))))


def _choose_writer(rng: Random, envelopes: Mapping[Writer, Sequence[Envelope]]) -> Writer:
    """Choose a dialect first, so that the number of its writers doesn't make it more common."""
    dialects = [
        dialect
        for dialect in (*DIALECTS, "chat-completions")
        if any(WRITERS[writer] == dialect for writer in envelopes)
    ]
    dialect = rng.choice(dialects)
    dialect_writers = [writer for writer in envelopes if WRITERS[writer] == dialect]
    return rng.choices(dialect_writers, [len(envelopes[writer]) for writer in dialect_writers])[0]


def _message_count(rng: Random) -> int:
    """One to a thousand, distributed so that all lengths contribute about the same total cost."""
    return int((1 - rng.random() * (1 - _MAX_MESSAGES**-0.5)) ** -2)
