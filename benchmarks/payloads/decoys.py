"""Values that resemble a conversation more or less closely."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from benchmarks.payloads import turns, writers

Decoy = Callable[[Random, int], Any]
"""Makes a value with about `count` entries."""


def issues(rng: Random, count: int) -> Any:
    return [
        {
            "number": n,
            "title": _random_words(rng, 60),
            "author": {"login": "jane"},
            "state": "open",
            "body": _random_words(rng),
        }
        for n in range(count)
    ]


def posts(rng: Random, count: int) -> Any:
    return {
        "responses": [{"id": n, "author": "Jane", "text": _random_words(rng), "likes": n % 9} for n in range(count)]
    }


def log_rows(rng: Random, count: int) -> Any:
    return {"logs": [{"level": "info", "at": 1772356500 + n, "message": _random_words(rng, 120)} for n in range(count)]}


def matrix(rng: Random, count: int) -> Any:
    return {"model": "embed-2", "data": [[rng.random() for _ in range(8)] for _ in range(count)]}


def translations(rng: Random, count: int) -> Any:
    return {
        "messages": {
            f"ferry.line.{n}": {"en": _random_words(rng, 60), "nb": _random_words(rng, 60)} for n in range(count)
        }
    }


def grants(rng: Random, count: int) -> Any:
    """Roles of people, not of speakers."""
    return {"data": [{"role": "admin", "content": _random_words(rng, 60), "rights": ["read"]} for _ in range(count)]}


def journal(rng: Random, count: int) -> Any:
    return {"history": [{"type": "system", "content": _random_words(rng, 120), "at": n} for n in range(count)]}


def documents(rng: Random, count: int) -> Any:
    found = [{"id": f"doc_{n}", "content": _random_words(rng, 400), "score": rng.random()} for n in range(count)]
    return {"inputs": {"query": _random_words(rng, 60)}, "outputs": {"documents": found}}


def invalid_last_message(rng: Random, count: int) -> Any:
    """A conversation with an invalid last element: the worst case of an unsuccessful search."""
    return {
        "messages": [
            *writers.chat_completions(turns.random_conversation(rng, count)),
            {"role": "user", "content": 5},
        ]
    }


def settings(rng: Random, count: int) -> Any:
    """Many unrelated keys."""
    return {"data": {f"option_{n}": {"value": n, "help": _random_words(rng, 60)} for n in range(count)}}


def json_table(rng: Random, count: int) -> Any:
    """A JSON text without a conversation, which has to be parsed to find out."""
    rows = [{"name": _random_words(rng, 30), "price": n, "stock": n % 4} for n in range(count)]
    return {"span_id": "31d6cfe04b9011ec", "attributes": {"output.value": msgspec.json.encode(rows).decode()}}


def prose(rng: Random, count: int) -> Any:
    return {
        "input": _random_words(rng, 40),
        "output": _random_words(rng, 100 * count),
        "latency": rng.random(),
    }


DECOYS: Sequence[Decoy] = (
    *(
        issues,
        posts,
        log_rows,
        matrix,
        translations,
        grants,
        journal,
        documents,
        invalid_last_message,
        settings,
        json_table,
        prose,
    ),
)


def _random_words(rng: Random, length: int | None = None) -> str:
    return turns.random_text(rng, turns.ENGLISH, length)
