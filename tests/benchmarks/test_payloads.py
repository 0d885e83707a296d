"""The generated payloads of the extraction benchmark: deterministic, and in the stated proportions."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from benchmarks.payloads import COUNT, Payload, payloads
from benchmarks.payloads.decoys import DECOYS
from benchmarks.payloads.envelopes import ANSWER_ENVELOPES, CONVERSATION_ENVELOPES, TEXT_ENVELOPES
from palaver.core.extraction import extract_chat_messages, read_conversation

SAMPLE = 2_000  # Enough for every kind; all of them would take seconds.


@pytest.fixture(scope="module")
def corpus() -> Sequence[Payload]:
    return list(payloads())


def test_payloads_are_deterministic(corpus: Sequence[Payload]) -> None:
    assert list(payloads(200)) == corpus[:200]


def test_there_are_ten_thousand_payloads_of_mixed_sizes(corpus: Sequence[Payload]) -> None:
    sizes = sorted(len(payload.data) for payload in corpus)

    assert len(sizes) == COUNT == 10_000
    assert 60e6 < sum(sizes) < 120e6
    assert 50 < sizes[0] < 150
    assert 500_000 < sizes[-1] <= 1_000_000
    assert sizes[len(sizes) * 7 // 10] < 4_096 < sizes[len(sizes) * 17 // 20]


def test_a_fifth_are_decoys_and_a_tenth_texts_within_json(corpus: Sequence[Payload]) -> None:
    kinds = Counter(payload.kind for payload in corpus)
    texts = {
        f"{writer.__name__} {envelope.__name__}"
        for writer, envelopes in TEXT_ENVELOPES.items()
        for envelope in envelopes
    }
    decoys = {decoy.__name__ for decoy in DECOYS}

    assert sum(kinds[kind] for kind in decoys) == pytest.approx(2_000, rel=0.05)
    assert sum(kinds[kind] for kind in texts) == pytest.approx(1_000, rel=0.1)


def test_every_kind_occurs(corpus: Sequence[Payload]) -> None:
    expected_kinds = {
        f"{writer.__name__} {envelope.__name__}"
        for table in (CONVERSATION_ENVELOPES, ANSWER_ENVELOPES, TEXT_ENVELOPES)
        for writer, envelopes in table.items()
        for envelope in envelopes
    }

    assert {payload.kind for payload in corpus} == expected_kinds | {decoy.__name__ for decoy in DECOYS}


def test_each_payload_is_read_in_its_dialect_and_no_decoy_is_read(corpus: Sequence[Payload]) -> None:
    mistaken = Counter[tuple[str, str | None]]()
    for payload in corpus[:SAMPLE]:
        result = read_conversation(msgspec.json.decode(payload.data))
        dialect = result.dialect if result else None
        if dialect != payload.dialect:
            mistaken[payload.kind, dialect] += 1

    assert mistaken == {}


def test_the_strict_search_finds_no_decoy(corpus: Sequence[Payload]) -> None:
    decoys = [payload for payload in corpus if payload.dialect is None]
    result = {payload.kind for payload in decoys if extract_chat_messages(msgspec.json.decode(payload.data))}

    assert result == set()


def test_conversations_have_one_message_to_a_thousand(corpus: Sequence[Payload]) -> None:
    conversations = [
        read_conversation(msgspec.json.decode(payload.data)) for payload in corpus[:SAMPLE] if payload.dialect
    ]
    lengths = sorted(len(result.messages) for result in conversations if result)

    assert lengths[0] == 1
    assert 2 <= lengths[len(lengths) // 2] <= 4
    assert 500 < lengths[-1] <= 1_100
