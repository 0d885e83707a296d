"""What looks like a conversation, a little or a lot, and is none."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from benchmarks.payloads import turns, writers

Decoy = Callable[[Random, int], Any]
"""A value with about so many entries."""


def issues(chance: Random, count: int) -> Any:
    return [
        {
            "number": n,
            "title": _random_words(chance, 60),
            "author": {"login": "jane"},
            "state": "open",
            "body": _random_words(chance),
        }
        for n in range(count)
    ]


def posts(chance: Random, count: int) -> Any:
    return {
        "responses": [{"id": n, "author": "Jane", "text": _random_words(chance), "likes": n % 9} for n in range(count)]
    }


def log_rows(chance: Random, count: int) -> Any:
    return {
        "logs": [{"level": "info", "at": 1772356500 + n, "message": _random_words(chance, 120)} for n in range(count)]
    }


def matrix(chance: Random, count: int) -> Any:
    return {"model": "embed-2", "data": [[chance.random() for _ in range(8)] for _ in range(count)]}


def translations(chance: Random, count: int) -> Any:
    return {
        "messages": {
            f"ferry.line.{n}": {"en": _random_words(chance, 60), "nb": _random_words(chance, 60)} for n in range(count)
        }
    }


def grants(chance: Random, count: int) -> Any:
    """Roles of people, not of speakers."""
    return {"data": [{"role": "admin", "content": _random_words(chance, 60), "rights": ["read"]} for _ in range(count)]}


def journal(chance: Random, count: int) -> Any:
    return {"history": [{"type": "system", "content": _random_words(chance, 120), "at": n} for n in range(count)]}


def documents(chance: Random, count: int) -> Any:
    found = [{"id": f"doc_{n}", "content": _random_words(chance, 400), "score": chance.random()} for n in range(count)]
    return {"inputs": {"query": _random_words(chance, 60)}, "outputs": {"documents": found}}


def invalid_last_message(chance: Random, count: int) -> Any:
    """A conversation but for its last element: the most that a search can look at in vain."""
    return {
        "messages": [
            *writers.chat_completions(turns.random_conversation(chance, count)),
            {"role": "user", "content": 5},
        ]
    }


def settings(chance: Random, count: int) -> Any:
    """Many keys, none of ours."""
    return {"data": {f"option_{n}": {"value": n, "help": _random_words(chance, 60)} for n in range(count)}}


def json_table(chance: Random, count: int) -> Any:
    """JSON text that has to be opened to see that there is nothing in it."""
    rows = [{"name": _random_words(chance, 30), "price": n, "stock": n % 4} for n in range(count)]
    return {"span_id": "31d6cfe04b9011ec", "attributes": {"output.value": msgspec.json.encode(rows).decode()}}


def prose(chance: Random, count: int) -> Any:
    return {
        "input": _random_words(chance, 40),
        "output": _random_words(chance, 100 * count),
        "latency": chance.random(),
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


def _random_words(chance: Random, length: int | None = None) -> str:
    return turns.random_text(chance, turns.ENGLISH, length)
