"""No value makes extraction raise, overflow the stack, or take more than linear time."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from palaver.core.extraction import dialect_of, extract_chat_messages, is_chat_messages, preview, read_conversation
from palaver.core.json import encode
from palaver.core.messages import Message
from tests.core.extraction import near_misses
from tests.growth import assert_linear

U = {"role": "user", "content": "hi"}
A = {"role": "assistant", "content": "hello"}
DEPTH = 100_000
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "is_chat_messages": is_chat_messages,
    "dialect_of": dialect_of,
    **{f"extract {prefer}": partial(extract_chat_messages, prefer=prefer) for prefer in near_misses.PREFERENCES},
    **{f"read {prefer}": partial(read_conversation, prefer=prefer) for prefer in near_misses.PREFERENCES},
    **{f"preview {prefer}": partial(preview, prefer=prefer) for prefer in near_misses.PREFERENCES},
}
every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def dialect_and_path(value: Any, prefer: Any = None) -> tuple[str, str] | None:
    read = read_conversation(value, prefer)
    return read and (read.dialect, read.path)


def roles_and_texts(value: Any) -> list[tuple[str, str]] | None:
    read = read_conversation(value)
    return read and [(message.role, message.text) for message in read.messages]


# Depth


def nested(key: str, inner: Any = None) -> Any:
    value = inner
    for _ in range(DEPTH):
        value = {key: value}
    return value


def nested_lists(inner: Any = None) -> Any:
    value = inner
    for _ in range(DEPTH):
        value = [value]
    return value


DEEP_VALUES: dict[str, Callable[[], Any]] = {
    "objects": lambda: nested("x", U),
    "lists": lambda: nested_lists(U),
    "objects in wrappers": lambda: {"inputs": {"data": nested("x")}},
    "lists in wrappers": lambda: {"inputs": {"data": nested_lists()}},
    "objects under a key": lambda: {"messages": nested("x"), "input": nested("x"), "output": nested_lists()},
    "lists in a batch": lambda: {"messages": [nested_lists([U])]},
    "boxes in boxes": lambda: nested("message", U),
    "contents in contents": lambda: nested("content", U),
    "choices": lambda: {"choices": [{"message": nested("message", A)}, nested("delta", A)]},
    "generations": lambda: {"generations": nested_lists({"message": A})},
    "candidates": lambda: {"candidates": [{"content": nested("parts")}]},
    **{f"objects of {name}": partial(nested, name, [U]) for name in ("data", "inputs", "output", "ag", "input.value")},
    "a text of lists": lambda: "[" * DEPTH + "]" * DEPTH,
    "a text of objects": lambda: '{"data":' * DEPTH + "1" + "}" * DEPTH,
    "a text of lists in a wrapper": lambda: {"input.value": "[" * DEPTH + "]" * DEPTH},
}


@pytest.mark.parametrize("name", DEEP_VALUES)
def test_values_nested_100000_levels_deep_return_in_time(name: str) -> None:
    value = DEEP_VALUES[name]()
    for function_name, function in FUNCTIONS.items():
        started = time.thread_time()
        function(value)

        assert time.thread_time() - started < 20, function_name  # A watchdog: a quadratic algorithm takes hours.


DEEP_MESSAGES: dict[str, Callable[[Any], Any]] = {
    "content": lambda deep: {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "x", "y": deep}]},
    "one content": lambda deep: {"role": "user", "content": {"type": "x", "y": deep}},
    "another field": lambda deep: {"role": "user", "content": "hi", "metadata": deep},
    "arguments": lambda deep: {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": deep}}],
    },
    "args": lambda deep: {"type": "ai", "content": "", "tool_calls": [{"id": "c", "name": "f", "args": deep}]},
    "tool_use": lambda deep: {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c", "name": "f", "input": deep}],
    },
    "tool_result": lambda deep: {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": [deep]}],
    },
    "functionCall": lambda deep: {"role": "model", "parts": [{"functionCall": {"name": "f", "args": deep}}]},
    "functionResponse": lambda deep: {"role": "user", "parts": [{"functionResponse": {"response": deep}}]},
    "tool part": lambda deep: {
        "role": "assistant",
        "parts": [
            {"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": deep, "output": deep},
        ],
    },
    "our result": lambda deep: {"role": "tool", "parts": [{"type": "tool-result", "call_id": "c", "output": deep}]},
    "an output": lambda deep: {"type": "function_call_output", "call_id": "c", "output": deep},
    "gen-ai's response": lambda deep: {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c", "response": deep}],
    },
    "kwargs": lambda deep: {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "x", "additional_kwargs": deep}},
}


@pytest.mark.parametrize("name", DEEP_MESSAGES)
def test_messages_with_deeply_nested_content_are_found(name: str) -> None:
    for deep in (nested("x"), nested_lists()):
        value = {"messages": [U, DEEP_MESSAGES[name](deep)]}
        started = time.thread_time()
        for function in FUNCTIONS.values():
            function(value)
        read = read_conversation(value)

        assert time.thread_time() - started < 5
        assert read is not None
        assert (read.path, read.messages[0].text) == ("/messages", "hi")
        assert encode(read.messages)


# Size


def test_a_million_unrelated_keys_do_not_slow_the_search() -> None:
    message: dict[str, Any] = {**dict.fromkeys(map(str, range(1_000_000)), 0), "role": "user", "text": "hi"}
    value = {**message, "role": None, "messages": [message, U]}
    for function_name, function in FUNCTIONS.items():
        if "preview" not in function_name:  # A preview renders the value.
            started = time.thread_time()
            for _ in range(10):
                function(value)

            assert time.thread_time() - started < 1, function_name


VALUES_OF_SIZE: dict[str, Callable[[int], Any]] = {
    **{f"messages like {number}": lambda count, one=one: [one] * count for number, one in enumerate(near_misses.EXACT)},
    "one bad element at the end": lambda count: [U] * count + [5],
    "dialects in turn": lambda count: [near_misses.EXACT[place % len(near_misses.EXACT)] for place in range(count)],
    "parts": lambda count: [{"role": "user", "parts": [{"type": "text", "text": "x"}] * count}],
    "content": lambda count: [{"role": "user", "content": [{"type": "text", "text": "x"}] * count}],
    "content of results": lambda count: [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "1"}, "x"] * count}
    ],
    "tool parts": lambda count: [
        {
            "role": "assistant",
            "parts": [{"type": "tool-f", "toolCallId": "c", "state": "output-available", "output": 1}] * count,
        }
    ],
    "calls": lambda count: [
        {
            "role": "assistant",
            "tool_calls": [{"id": f"{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(count)],
        }
    ],
    "choices": lambda count: {"choices": [{"delta": {"content": "x"}}] * count},
    "generations": lambda count: {"generations": [[{"message": A}]] * count},
    "candidates": lambda count: {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}] * count},
    "contents": lambda count: {"contents": [{"parts": [{"text": "x"}]}] * count},
    "one refused among many": lambda count: [
        *([U] * count),
        {"role": "user", "content": [{"type": "x", "y": object()}]},
    ],
    "a text": lambda count: json.dumps({"messages": [U] * count}),
    "brackets": lambda count: "[" * count + "]" * count,
    "spaces": lambda count: " " * count * 10 + "[" + " " * count * 10,
}


@pytest.mark.parametrize("name", VALUES_OF_SIZE)
def test_time_grows_linearly_with_the_number_of_elements(name: str) -> None:
    for function in (is_chat_messages, dialect_of, extract_chat_messages, read_conversation):
        assert_linear(function, VALUES_OF_SIZE[name], 16_000)


# Shared and cyclic values


@pytest.mark.parametrize("names", [("data", "inputs", "outputs", "request", "response"), tuple(near_misses.WRAPPERS)])
@pytest.mark.parametrize("function_name", [name for name in FUNCTIONS if not name.startswith("preview")])
def test_shared_objects_are_not_searched_once_per_path(function_name: str, names: tuple[str, ...]) -> None:
    """All functions but `preview`, which writes the value out."""
    value: dict[str, Any] = {}
    for _ in range(8):
        value = dict.fromkeys(names, value)
    started = time.thread_time()
    FUNCTIONS[function_name](value)

    assert time.thread_time() - started < 2


def test_the_first_of_many_paths_to_a_shared_match_is_returned() -> None:
    value: dict[str, Any] = {"messages": [U]}
    for _ in range(6):
        value = dict.fromkeys(near_misses.WRAPPERS, value)

    assert dialect_and_path(value) == ("chat-completions", "/data/data/data/data/data/data/messages")
    assert dialect_and_path(value, "output") == (
        "chat-completions",
        "/outputs/outputs/outputs/outputs/outputs/outputs/messages",
    )


@every_function
def test_every_function_returns_for_cyclic_values(function: Callable[[Any], Any]) -> None:
    few = ["data", "input", "messages", "message", "contents", "choices", "content", "candidates", "generations"]
    for name in few if "preview" in str(function) else [*few, *near_misses.WRAPPERS, *near_misses.KEYS]:
        dict_cycle: dict[str, Any] = {}
        dict_cycle[name] = dict_cycle
        list_cycle: list[Any] = []
        list_cycle.append({name: list_cycle})
        of_lists: list[Any] = []
        of_lists.append(of_lists)
        everywhere: dict[str, Any] = {}
        everywhere.update(dict.fromkeys(near_misses.WRAPPERS, everywhere))
        everywhere[name] = [everywhere]
        for value in (
            dict_cycle,
            list_cycle,
            of_lists,
            everywhere,
            {name: of_lists},
            {**U, "data": dict_cycle, name: dict_cycle},
        ):
            function(value)


@pytest.mark.parametrize("name", [*near_misses.WRAPPERS, "unrelated"])
def test_messages_are_found_in_cyclic_values(name: str) -> None:
    value: dict[str, Any] = {"response": {"messages": [A]}}
    value["response"][name] = value

    assert [extract_chat_messages(value, prefer) for prefer in near_misses.PREFERENCES] == [[A]] * 3
    assert [dialect_and_path(value, prefer) for prefer in near_misses.PREFERENCES] == [
        ("chat-completions", "/response/messages")
    ] * 3


# Texts


def test_texts_of_fifty_megabytes_return_in_time() -> None:
    long = "x" * 50_000_000
    values = [
        long,
        f"[{long}]",
        f'["{long}" oops]',
        {"messages": f"{{{long}}}"},
        [{"role": "user", "content": long}],
        [{"role": long, "content": ""}, U],
        {"role": "user", "content": [{"type": "text", "text": long}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": long}}]},
    ]
    for function_name, function in FUNCTIONS.items():
        started = time.thread_time()
        for value in values:
            function(value)

        assert time.thread_time() - started < 30, function_name  # A watchdog: they take some tenths of a second.


def test_a_valid_json_text_of_fifty_megabytes_is_parsed() -> None:
    long = "x" * 50_000_000
    value = f'{{"messages": [{{"role": "user", "content": "{long}"}}]}}'

    assert dialect_and_path(value) == ("chat-completions", "/messages")
    assert roles_and_texts(value) == [("user", long)]


@pytest.mark.parametrize("odd", ["\0", "a\0b", "\ud800", "x\udfff", "\u2028", "\ufeff"])
def test_odd_characters_pass_through(odd: str) -> None:
    assert roles_and_texts([{"role": "user", "content": odd}]) == [("user", odd)]
    assert roles_and_texts([U, {"role": "user", "content": [{"type": "text", "text": odd}]}]) == [
        ("user", "hi"),
        ("user", odd),
    ]
    for value in (odd, f"[{odd}]", {"messages": f'["{odd}"]'}, {odd: [U]}, [{"role": odd, "content": odd}, U]):
        for function in FUNCTIONS.values():
            function(value)


# Subclasses and arbitrary objects


class HostileError(Exception):
    """Raised by every hostile method."""


def _raise_hostile_error(*_: Any, **__: Any) -> Any:
    raise HostileError


_METHODS = "get __getitem__ __eq__ __ne__ __iter__ __bool__ __len__ __contains__ __repr__ __str__ __reversed__".split()
_DICT_METHODS = "keys items values copy __or__ __ror__ pop setdefault".split()
_LIST_METHODS = "index count copy __add__ __radd__ __mul__ __lt__".split()
_STRING_METHODS = (
    "lower casefold strip startswith endswith split isspace join encode __add__ __getitem__ __format__".split()
)

HostileDict: Any = type("HostileDict", (dict,), dict.fromkeys([*_METHODS, *_DICT_METHODS], _raise_hostile_error))
HostileList: Any = type("HostileList", (list,), dict.fromkeys([*_METHODS, *_LIST_METHODS], _raise_hostile_error))
HostileText: Any = type(
    "HostileText",
    (str,),
    {**dict.fromkeys([*_METHODS, *_STRING_METHODS], _raise_hostile_error), "__hash__": str.__hash__},
)
HostileKey: Any = type("HostileKey", (str,), {"__eq__": _raise_hostile_error, "__hash__": str.__hash__})


def make_hostile(value: Any, *, texts: bool) -> Any:
    """The same value, made of subclasses whose every method raises."""
    if isinstance(value, dict):
        return HostileDict({key: make_hostile(content, texts=texts) for key, content in value.items()})
    if isinstance(value, list):
        return HostileList([make_hostile(content, texts=texts) for content in value])
    return HostileText(value) if texts and isinstance(value, str) else value


@pytest.mark.parametrize("number", range(len(near_misses.EXACT)))
def test_dict_and_list_subclasses_are_read_like_plain_values(number: int) -> None:
    plain = {"data": {"messages": [U, near_misses.EXACT[number]]}}
    value = make_hostile(plain, texts=False)

    assert (dialect_and_path(value), roles_and_texts(value)) == (dialect_and_path(plain), roles_and_texts(plain))
    for function in FUNCTIONS.values():
        function(value)


@pytest.mark.parametrize("number", range(len(near_misses.EXACT)))
def test_str_subclasses_do_not_change_the_match(number: int) -> None:
    plain = {"data": {"messages": [U, near_misses.EXACT[number]]}}
    value = make_hostile(plain, texts=True)

    assert dialect_and_path(value) == dialect_and_path(plain)
    for function in FUNCTIONS.values():
        function(value)


@every_function
def test_hostile_model_responses_never_raise(function: Callable[[Any], Any]) -> None:
    for plain in (
        {"choices": [{"message": A}, {"delta": {"content": "x"}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}]},
        {"generations": [[{"message": {"type": "ai", "content": "x"}}]]},
        {"content": {"role": "model", "parts": [{"text": "x"}]}},
        {"contents": [{"parts": [{"text": "x"}]}]},
        {"messages": [[U]]},
        {"input.value": json.dumps([U])},
    ):
        function(make_hostile(plain, texts=False))
        function(make_hostile(plain, texts=True))


@every_function
def test_keys_of_any_type_never_raise(function: Callable[[Any], Any]) -> None:
    for key in (1, None, True, 1.5, float("nan"), (1, 2), b"messages", frozenset(), "\ud800"):
        function({key: [U], "data": {key: [U]}})
        function([{**U, key: 1}])
        function([{"role": "user", "content": [{"type": "x", key: 1}]}])


@every_function
def test_keys_that_cannot_be_compared_never_raise(function: Callable[[Any], Any]) -> None:
    function({HostileKey("messages"): [U], "data": {HostileKey("messages"): [U]}})
    function([{HostileKey("role"): "user", HostileKey("content"): "hi"}])
    function([{"role": "user", "content": [{HostileKey("type"): "x"}]}])


class FakeClass:
    """Claims to be of another class, as mocks do."""

    def __init__(self, claimed: type) -> None:
        self._claimed = claimed

    @property
    def __class__(self) -> Any:  # type: ignore[override]  # the lie is the point
        return self._claimed


class RaisingClass:
    """An object whose __class__ raises."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]  # as above
        raise HostileError


def generator() -> Iterator[Any]:
    yield U


LEAVES: list[Any] = [
    (U,),
    b"[]",
    bytearray(b"{}"),
    {1, 2},
    frozenset([1]),
    range(3),
    object(),
    dict,
    generator,
    float("nan"),
    float("inf"),
    10**400,
    1j,
    U.items(),
    Mock(),
]
LEAVES_WITH_FAKE_CLASS: list[Any] = [
    Mock(spec=dict),
    Mock(spec=list),
    Mock(spec=str),
    FakeClass(dict),
    FakeClass(list),
    FakeClass(str),
    RaisingClass(),
]


@every_function
@pytest.mark.parametrize("leaves", [LEAVES, LEAVES_WITH_FAKE_CLASS], ids=["honest", "lying about their class"])
def test_values_that_are_not_json_never_raise(function: Callable[[Any], Any], leaves: list[Any]) -> None:
    for leaf in [*leaves, generator()]:
        function(leaf)
        function([leaf])
        function([U, leaf])
        for name in [*near_misses.KEYS, *near_misses.WRAPPERS, "choices", "candidates", "generations", "content"]:
            function({name: leaf})
            function({name: [leaf]})


@pytest.mark.parametrize("leaves", [LEAVES, LEAVES_WITH_FAKE_CLASS], ids=["honest", "lying about their class"])
def test_values_that_are_not_json_are_never_messages(leaves: list[Any]) -> None:
    for leaf in leaves:
        assert is_chat_messages(leaf) is False
        assert (dialect_of(leaf), extract_chat_messages(leaf), read_conversation(leaf)) == (None, None, None)


# Bad values inside messages of every dialect

FULL_MESSAGES: dict[str, dict[str, Any]] = {
    "langchain": {
        "type": "ai",
        "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "c", "name": "f", "input": {}}],
        "id": "run-1",
        "name": "n",
        "additional_kwargs": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        "response_metadata": {},
        "tool_calls": [{"id": "c", "name": "f", "args": {"a": 1}}],
    },
    "langchain, serialised": {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "ToolMessage"],
        "kwargs": {"content": "12", "tool_call_id": "c", "name": "f", "status": "error", "artifact": {}},
    },
    "responses": {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "x", "annotations": [{"type": "url_citation", "url": "u", "title": "t"}]},
            {"type": "refusal", "refusal": "no"},
            {"type": "input_image", "image_url": "u", "detail": "low"},
        ],
    },
    "responses, a call": {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": "{}"},
    "responses, an output": {
        "type": "function_call_output",
        "call_id": "c",
        "output": [{"type": "input_text", "text": ""}],
    },
    "palaver": {
        "role": "assistant",
        "id": "m",
        "name": "n",
        "metadata": {"a": 1},
        "parts": [
            {"type": "text", "text": "x", "annotations": [{"kind": "url", "url": "u"}]},
            {"type": "tool-call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "tool-result", "call_id": "c", "output": {"a": 1}, "is_error": False},
            {"type": "file", "media_type": "image/png", "data": "AAAA"},
            {"type": "data", "name": "n", "value": {"a": 1}},
        ],
    },
    "gemini": {
        "role": "model",
        "parts": [
            {"text": "x", "thought": True, "thoughtSignature": "s"},
            {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}},
            {"functionResponse": {"id": "c", "name": "f", "response": {"a": 1}}},
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"executableCode": {"language": "PYTHON", "code": "1"}},
        ],
    },
    "gen-ai": {
        "role": "assistant",
        "name": "n",
        "finish_reason": "stop",
        "parts": [
            {"type": "text", "content": "x"},
            {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}},
            {"type": "tool_call_response", "id": "c", "response": {"a": 1}},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        ],
    },
    "ui-message": {
        "role": "assistant",
        "id": "m",
        "metadata": {"a": 1},
        "parts": [
            {"type": "text", "text": "x", "state": "done"},
            {"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {"a": 1}, "output": {"a": 1}},
            {"type": "file", "mediaType": "image/png", "url": "u", "filename": "n"},
            {"type": "data-x", "id": "d", "data": {"a": 1}},
        ],
    },
    "anthropic": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        "content": [
            {"type": "thinking", "thinking": "x", "signature": "s"},
            {"type": "text", "text": "x", "citations": [{"type": "char_location", "cited_text": "x"}]},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
            {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "x"}], "is_error": True},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ],
    },
    "chat-completions": {
        "role": "assistant",
        "name": "n",
        "refusal": None,
        "content": [
            {"type": "text", "text": "x"},
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_id": "f", "filename": "n"}},
        ],
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        "function_call": {"name": "f", "arguments": "{}"},
        "audio": {"id": "a"},
    },
    "chat-completions, a result": {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x"}]},
}


def replace_each_value(value: Any, bad: Any) -> Iterator[Any]:
    """Yield `bad` instead of the value, then copies of the value with `bad` at every nested position."""
    yield bad
    if isinstance(value, dict):
        for key, content in value.items():
            for variant in replace_each_value(content, bad):
                yield {**value, key: variant}
        yield {**value, "unrelated": bad}
    elif isinstance(value, list):
        for place, content in enumerate(value):
            for variant in replace_each_value(content, bad):
                yield [*value[:place], variant, *value[place + 1 :]]
        yield [*value, bad]


def cyclic_part() -> Any:
    value: dict[str, Any] = {"type": "text", "text": "x"}
    value["content"] = value["parts"] = value["source"] = [value]
    return value


def cyclic_list() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "deep objects": lambda: nested("content"),
    "deep lists": nested_lists,
    "a circle": cyclic_part,
    "a circle of lists": cyclic_list,
    "a lone surrogate": lambda: "\ud800",
    "NUL": lambda: "\0",
    "an object": object,
    "a tuple": lambda: (1, object()),
    "bytes": lambda: b"\xff",
    "NaN": lambda: float("nan"),
    "a huge number": lambda: 10**400,
    "a set": lambda: {1},
    "a hostile object": lambda: HostileDict(type="text", text="x"),
    "a hostile list": lambda: HostileList(["x"]),
    "a hostile text": lambda: HostileText("x"),
    "lying: a mock of an object": lambda: Mock(spec=dict),
    "lying: a mock of a text": lambda: Mock(spec=str),
    "lying: a faceless thing": RaisingClass,
    "null": lambda: None,
    "an empty object": dict,
    "an empty list": list,
}


@pytest.mark.parametrize("bad", BAD_VALUES)
@pytest.mark.parametrize("name", FULL_MESSAGES)
def test_detected_messages_are_read_with_a_bad_value_in_any_field(name: str, bad: str) -> None:
    for variant in replace_each_value(FULL_MESSAGES[name], BAD_VALUES[bad]()):
        value = {"messages": [U, variant]}
        result = extract_chat_messages(value)
        read = read_conversation(value)

        assert (read is None) == (dialect_of(value["messages"]) is None)
        assert result is None or read is not None
        if read is not None:
            assert read.messages[0].text == "hi"


ENCODABLE_BAD_VALUES = [
    name for name in BAD_VALUES if name not in ("a lone surrogate", "a hostile text", "lying: a mock of a text")
]
"""Without the values that pass through unchanged; none of those can come from decoded JSON."""


@pytest.mark.parametrize("bad", ENCODABLE_BAD_VALUES)
@pytest.mark.parametrize("name", FULL_MESSAGES)
def test_messages_read_with_a_bad_value_in_any_field_can_be_encoded(name: str, bad: str) -> None:
    for variant in replace_each_value(FULL_MESSAGES[name], BAD_VALUES[bad]()):
        read = read_conversation({"messages": [U, variant]})

        assert read is None or msgspec.json.decode(encode(read.messages), type=list[Message])


@pytest.mark.parametrize("bad", BAD_VALUES)
def test_previews_of_messages_with_bad_values_never_raise(bad: str) -> None:
    for element in FULL_MESSAGES.values():
        for variant in replace_each_value(element, BAD_VALUES[bad]()):
            preview({"messages": [U, variant]})


def test_a_part_that_cannot_be_encoded_becomes_an_empty_data_part() -> None:
    read = read_conversation([{"role": "user", "content": ["hi", {"type": "chart", "value": object()}]}])

    assert read is not None
    assert encode(read.messages) == encode(
        [
            {
                "role": "user",
                "parts": [{"type": "text", "text": "hi"}, {"type": "data", "name": "chat-completions:chart"}],
            }
        ]
    )
