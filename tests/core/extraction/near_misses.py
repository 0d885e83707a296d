"""Values that are nearly messages: every field of every dialect, with right and slightly wrong values, in wrappers,
JSON texts, batches and answers of every kind, shared and in cycles.

Generated from a `random.Random`: Hypothesis passes one whose choices it can shrink, and a loop over seeds generates
many more values in the same time. The few shapes that the specification leaves open are left out.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.core.extraction.reference_search import (
    GEMINI,
    GEMINI_SNAKE,
    HISTORIES,
    KNOWN,
    QUESTIONS,
    WIDE,
    WIDE_KEYS,
)

PREFERENCES = (None, "input", "output")

_ROLES = [*["user", "assistant", "tool", "model"] * 4, *KNOWN, "User", "ASSISTANT", "admin", "weather", "", None, 5, {}]
_WORDS = ["hi", "", "[]", '[{"role":"user","content":"x"}]', '{"messages":[]}', "Größe", "a\nb"]
_WRONG: list[Any] = [None, 5, True, 1.5, [], {}, [1, 2], {"a": 1}, "x", [[]], {"type": "text"}, {"type": 5}]

_PART_TYPES = (
    "text text reasoning file tool-call tool-result refusal data input_text output_text input_image input_file"
    " tool_call tool_call_response server_tool_call server_tool_call_response blob uri tool_use tool_result thinking"
    " redacted_thinking server_tool_use image image_url step-start tool-weather dynamic-tool other"
).split()
_PALAVER_VARIANTS = {"data": 2, "refusal": 1, "file": 4}
_PART_FIELDS = (
    "text content source thought call_id media_type file_id encrypted id url name input output arguments toolCallId"
    " state tool_use_id"
).split()
_ITEM_TYPES = (
    "message message function_call custom_tool_call function_call_output custom_tool_call_output reasoning"
    " web_search_call computer_call_output mcp_list_tools item_reference human ai system tool function"
    " HumanMessageChunk AIMessageChunk ToolMessageChunk Human user"
).split()
_KWARGS: list[Any] = [{}, {"content": "said"}, {"content": [{"type": "text", "text": "x"}]}, {"content": 5}]
_IDS: list[Any] = ["i", ["langchain", "HumanMessage"], ["AIMessageChunk"], ["x"], [], 5]
_BOXED: list[Any] = ["m", {"role": "user", "content": "boxed"}, {"type": "ai", "content": ""}, {"type": "system"}]

_FIELDS: dict[str, Callable[[Random], Any]] = {
    **dict.fromkeys(["role", "sender", "author"], lambda rng: rng.choice(_ROLES)),
    "content": lambda rng: rng.choice([_word, _parts, _parts, _part, _wrong])(rng),
    "parts": lambda rng: _parts(rng) if rng.random() < 0.8 else rng.choice([None, 5, {}, "x"]),
    "message": lambda rng: rng.choice(_BOXED + _WRONG),
    "tool_calls": lambda rng: rng.choice([[{"id": "c", "function": {"name": "f", "arguments": "{}"}}], *_WRONG]),
    "function_call": lambda rng: rng.choice([{"name": "f", "arguments": "{}"}, *_WRONG]),
    "delta": lambda rng: rng.choice(_KWARGS + _WRONG),
    "type": lambda rng: rng.choice([*_ITEM_TYPES, 5, None, ["human"]]),
    "lc": lambda rng: rng.choice([1, 1, 2, "1", None]),
    "id": lambda rng: rng.choice(_IDS),
    **dict.fromkeys(["kwargs", "data"], lambda rng: rng.choice(_KWARGS * 3 + _WRONG)),
    **dict.fromkeys(["additional_kwargs", "response_metadata", "unrelated"], lambda rng: rng.choice(_WRONG)),
    "summary": lambda rng: rng.choice([[], *_WRONG]),
    **dict.fromkeys(
        "text tool_call_id name arguments input call_id output encrypted_content".split(),
        lambda rng: rng.choice(_WORDS * 2 + _WRONG),
    ),
    "stop_reason": lambda rng: rng.choice(["end_turn", None]),
}

EXACT: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
    {"type": "human", "content": "hi"},
    {"type": "system", "content": "be kind"},
    {"type": "tool", "content": "12", "additional_kwargs": {}},
    {"type": "ai", "data": {"content": "hello"}},
    {"lc": 1, "id": ["langchain", "AIMessage"], "kwargs": {"content": "hello"}},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "12"},
    {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
    {"type": "reasoning", "summary": []},
    {"type": "web_search_call", "id": "ws_1"},
    {"role": "tool", "parts": [{"type": "tool-result", "call_id": "c", "output": 1}]},
    {"role": "model", "parts": [{"text": "hello"}]},
    {"parts": [{"text": "who?"}]},
    {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
    {"role": "user", "parts": [{"type": "text", "text": "hi"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "12"}]},
    {"role": "assistant", "type": "message", "content": [], "stop_reason": None},
    {"message": {"role": "user", "content": "hi"}},
]


def _word(rng: Random) -> str:
    return rng.choice(_WORDS)


def _wrong(rng: Random) -> Any:
    return rng.choice(_WRONG)


def _word_or_wrong(rng: Random) -> Any:
    return _word(rng) if rng.random() < 0.7 else _wrong(rng)


def _part(rng: Random) -> Any:
    kind = rng.choice(["plain", "untyped", "typed", "typed", "gemini", "any", "word"])
    if kind == "word":
        return _word(rng)
    if kind == "plain":
        return {"type": "text", "text": _word(rng)}
    if kind == "untyped":
        return {"text": _word(rng)}
    if kind == "gemini":
        return {rng.choice(GEMINI + GEMINI_SNAKE): {"name": "f", "args": {}}}
    part = {name: _word_or_wrong(rng) for name in rng.sample(_PART_FIELDS, rng.randint(0, 2))}
    if kind == "typed":
        part["type"] = rng.choice(_PART_TYPES)
        if part["type"] in (
            "data",
            "refusal",
            "file",
        ):  # Unspecified: whether another part's field makes these Palaver's.
            part = {name: content for name, content in part.items() if name in ("type", "text", "content", "url")}
            part |= rng.choice(
                [{}, {"name": "n", "value": 1}, {"media_type": "m"}, {"file_id": "f"}][
                    : _PALAVER_VARIANTS[part["type"]]
                ]
            )
    return part


def _parts(rng: Random) -> list[Any]:
    return [_part(rng) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]


def message(rng: Random) -> dict[str, Any]:
    """A message as it should be; or with a field or two lost, changed or added; or some fields of any."""
    kind = rng.choice(["exact", "mutant", "mutant", "some", "some with a role"])
    if kind.startswith("some"):
        created = {name: _FIELDS[name](rng) for name in rng.sample(sorted(_FIELDS), rng.randint(0, 4))}
        if kind != "some":
            created["role"] = rng.choice(_ROLES)
    else:
        created = dict(rng.choice(EXACT))
        for _ in range(0 if kind == "exact" else rng.randint(1, 2)):
            if rng.random() < 0.4:
                created.pop(rng.choice(sorted(created) or ["role"]), None)
            else:
                name = rng.choice(sorted(_FIELDS))
                created[name] = _FIELDS[name](rng)
    if created.get("type") == "message" and created.get("parts"):
        del created["type"]  # Whether this or the parts name the dialect is left open.
    return created


def messages(rng: Random) -> list[Any]:
    """A list of messages, or nearly."""
    kind = rng.choice(["exact", "near", "near", "spoilt"])
    created: list[Any] = [
        dict(rng.choice(EXACT)) if kind == "exact" else message(rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))
    ]
    if kind == "spoilt":
        created.insert(rng.randint(0, len(created)), _wrong(rng))
    return [created] if rng.random() < 0.1 else created


KEYS = sorted({name for group in WIDE_KEYS.values() for name in group})
WRAPPERS = sorted({name for group in WIDE.values() for name in group if name not in ("data.inputs", "data.outputs")})


def answer(rng: Random) -> dict[str, Any]:
    """Responses of model APIs, or nearly."""
    key = rng.choice(["choices", "candidates", "generations", "content"])
    if key == "content":
        return {key: message(rng)}
    return {key: _entries(rng) if key != "generations" else [_entries(rng) for _ in range(rng.randint(0, 2))]}


def _entries(rng: Random) -> list[Any]:
    created: list[Any] = []
    for _ in range(rng.randint(0, 3)):
        names = rng.sample(["message", "delta", "content"], rng.randint(1, 2))
        created.append(
            {name: message(rng) if rng.random() < 0.9 else _wrong(rng) for name in names}
            if rng.random() < 0.95
            else _wrong(rng)
        )
    return created


def chain(rng: Random) -> Any:
    """A match, or nearly one, up to eight keys down, some of them texts or batches."""
    created: Any = rng.choice([message, messages, messages, answer])(rng)
    for _ in range(rng.randint(0, 8)):
        if rng.random() < 0.1 and isinstance(created, list):
            created = [created]
        if rng.random() < 0.25:
            created = json.dumps(created)
        created = {
            rng.choice(
                [*WRAPPERS, "data", "inputs", *(["messages", "contents"] if rng.random() < 0.1 else [])]
            ): created
        }
    return f" {json.dumps(created)}\n" if rng.random() < 0.1 else created


def tree(rng: Random, levels: int = 3) -> Any:
    """Several known keys at each level, with near matches under most."""
    if levels == 0 or rng.random() < 0.2:
        return rng.choice([message, messages, messages, chain, answer, _wrong])(rng)
    created: dict[str, Any] = answer(rng) if rng.random() < 0.2 else {}
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.5:
            created[rng.choice(WRAPPERS)] = tree(rng, levels - 1)
        elif kind < 0.95:
            created[rng.choice(KEYS)] = rng.choice([messages, messages, message, chain])(rng)
        else:
            created = {**message(rng), **created}
    if rng.random() < 0.15:
        created[rng.choice(HISTORIES)] = messages(rng) if rng.random() < 0.5 else []
        created[rng.choice(QUESTIONS)] = rng.choice([_word, _word, _wrong, message])(rng)
    return json.dumps(created) if rng.random() < 0.1 else created


def graph(rng: Random) -> Any:
    """Objects that refer to each other: shared, and in cycles."""
    pool: list[dict[str, Any]] = [{} for _ in range(rng.randint(1, 5))]
    content = [rng.choice([message, messages])(rng) for _ in range(2)]
    for thing in pool:
        for name in rng.sample([*WRAPPERS], rng.randint(0, 4)):
            thing[name] = rng.choice(pool)
        if rng.random() < 0.4:
            thing[rng.choice(KEYS + WRAPPERS)] = rng.choice(content)
    return pool[0]


def value(rng: Random) -> Any:
    return rng.choice([tree, tree, chain, graph])(rng)


def strategy_for(generate: Callable[[Random], Any]) -> st.SearchStrategy[Any]:
    """The same values for Hypothesis: half from choices that it can make smaller, half from seeds, which vary more."""
    return st.one_of(
        st.randoms(use_true_random=False).map(generate),
        st.integers(0, 2**32).map(lambda seed: generate(Random(seed))),
    )


def samples(generate: Callable[[Random], Any], count: int) -> list[Any]:
    """Return `count` values, the same in every run."""
    return [generate(Random(seed)) for seed in range(count)]
