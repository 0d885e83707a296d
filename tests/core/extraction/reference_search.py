"""A reference implementation of extraction: slow and literal, to compare the fast implementation with.

Nothing here is shared with the code under test. Each function transcribes one rule of the specification, or one row of
its table of dialects; comments explain how an ambiguous rule was read.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Obj = dict[Any, Any]

KNOWN = "system developer user human assistant ai model bot chatbot agent tool function".split()
ROWS: Sequence[str] = "langchain responses palaver gemini gen-ai ui-message anthropic chat-completions".split()
"""The dialects, in the order of their table: a mixed list has the name of the first that occurs in it."""


# The strict test


def known(word: Any) -> bool:
    return isinstance(word, str) and word.lower() in KNOWN


def actor(element: Obj) -> str | None:
    """`role`, a string that is not empty; or else `sender` or `author`, a string that is a known role."""
    role = element.get("role")
    if isinstance(role, str) and role != "":
        return role
    for name in ("sender", "author"):
        if known(element.get(name)):
            return element[name]
    return None


def strings_and_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str | dict) for item in value)


def is_content(value: Any) -> bool:
    one_typed_object = isinstance(value, dict) and isinstance(value.get("type"), str)
    return value is None or isinstance(value, str) or strings_and_objects(value) or one_typed_object


def says_something(element: Obj) -> bool:
    calls, delta = element.get("tool_calls"), element.get("delta")
    return any(
        [
            "content" in element and is_content(element["content"]),
            isinstance(element.get("text"), str),
            isinstance(element.get("message"), str),
            strings_and_objects(element.get("parts")),
            isinstance(calls, list) and all(isinstance(call, dict) for call in calls),
            isinstance(element.get("function_call"), dict),
            isinstance(element.get("tool_call_id"), str),
            isinstance(delta, dict) and isinstance(delta.get("content"), str),
        ]
    )


def is_message(element: Any) -> bool:
    return isinstance(element, dict) and actor(element) is not None and says_something(element)


def is_known(element: Any) -> bool:
    return is_message(element) and known(actor(element))


def is_chat_messages(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(map(is_message, value)) and any(map(is_known, value))


# The strict search

STRICT_KEYS = {
    "input": "prompt input_messages".split(),
    "output": "completion output_messages responses".split(),
    "neutral": "messages message_history history chat conversation logs".split(),
}
STRICT_WRAPPERS = {
    "input": "inputs data.inputs request data outputs data.outputs response".split(),
    "output": "outputs data.outputs response data inputs data.inputs request".split(),
    None: "data inputs outputs request response".split(),
}
GROUPS = {
    "input": ("input", "neutral", "output"),
    "output": ("output", "neutral", "input"),
    None: ("neutral", "input", "output"),
}


def extract_chat_messages(value: Any, prefer: Any = None, depth: int = 0, seen: dict[int, int] | None = None) -> Any:
    seen = {} if seen is None else seen
    if depth > 6:
        return None
    if isinstance(value, list):  # step 2
        return value if is_chat_messages(value) else None
    if not isinstance(value, dict):  # step 1
        return None
    if seen.get(id(value), 7) <= depth:
        return None
    seen[id(value)] = depth
    for group in GROUPS[prefer]:  # step 3
        for key in STRICT_KEYS[group]:
            if is_chat_messages(value.get(key)):
                return value[key]
    for wrapper in STRICT_WRAPPERS[prefer]:  # step 4
        keys = wrapper.split(".")
        inner = value.get("data") if len(keys) == 2 else value
        if isinstance(inner, dict) and keys[-1] in inner:
            result = extract_chat_messages(inner[keys[-1]], prefer, depth + len(keys), seen)
            if result is not None:
                return result
    chosen = choices_of(value.get("choices"))
    if is_chat_messages(chosen):  # step 5
        return chosen
    return [value] if is_chat_messages([value]) else None  # step 6


def choices_of(choices: Any) -> list[Obj]:
    result: list[Obj] = []
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict):
            for key in ("message", "delta"):
                if isinstance(choice.get(key), dict) and choice[key]:
                    result.append(choice[key])
                    break
    return result


# The dialect of an element: one function per row, each gives None (not this row), False (it is) or True (certain)

LC_TYPES = "human ai system tool function".split()
LC_CHUNKS = "HumanMessageChunk AIMessageChunk SystemMessageChunk ToolMessageChunk FunctionMessageChunk".split()


def parts_of(element: Obj) -> list[Any]:
    return element["parts"] if strings_and_objects(element.get("parts")) else []


def typed(part: Any, *types: str) -> bool:
    return isinstance(part, dict) and part.get("type") in types


def content_of(element: Obj) -> list[Any]:
    """Return the content as a list; empty if there are parts, which take precedence."""
    content = element.get("content")
    if parts_of(element):
        return []
    return content if isinstance(content, list) else [content]


def langchain(element: Obj, _contents: bool) -> bool | None:
    if actor(element) is not None:
        return None
    kind, data = element.get("type"), element.get("data")
    marks = [element.get("additional_kwargs"), element.get("response_metadata")]
    if type(element.get("lc")) is int and element["lc"] == 1 and is_lc_id(element.get("id")):
        kwargs = element.get("kwargs")
        if isinstance(kwargs, dict) and isinstance(kwargs.get("content"), str | list):
            return True
    if kind not in LC_TYPES + LC_CHUNKS if isinstance(kind, str) else True:
        return None
    if isinstance(data, dict) and isinstance(data.get("content"), str | list):
        return True
    if isinstance(element.get("content"), str | list):
        return kind in ("human", "ai") or kind in LC_CHUNKS or any(isinstance(mark, dict) for mark in marks)
    return None


def is_lc_id(name: Any) -> bool:
    last = name[-1] if isinstance(name, list) and name else None
    return isinstance(last, str) and last.endswith(("Message", "MessageChunk"))


def responses(element: Obj, contents: bool) -> bool | None:
    kind = element.get("type")
    if is_known(element) and kind == "message" and not anthropic(element, contents):
        return True
    if is_message(element) and any(
        typed(part, "input_text", "output_text", "input_image", "input_file") for part in content_of(element)
    ):
        return True
    # "An element that is a message with a known role is read as a message whatever its `type`."
    return responses_item(element, kind) if isinstance(kind, str) and not is_known(element) else None


def responses_item(element: Obj, kind: str) -> bool | None:
    named, called = isinstance(element.get("name"), str), isinstance(element.get("call_id"), str)
    if kind in ("function_call", "custom_tool_call", "mcp_call"):
        return True if named and isinstance(element.get(RESPONSES_INPUT[kind]), str) else None
    if kind in ("function_call_output", "custom_tool_call_output"):
        return True if called and "output" in element else None
    if kind == "reasoning":
        lists = [isinstance(element.get(name), list) for name in ("summary", "content")]
        return False if any(lists) or isinstance(element.get("encrypted_content"), str) else None
    other = kind.endswith(("_call", "_call_output")) or kind.startswith("mcp_") or kind == "item_reference"
    return False if other and isinstance(element.get("id"), str) else None


RESPONSES_INPUT = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
OUR_TYPES = "text reasoning file tool-call tool-result refusal data".split()


def palaver(element: Obj, _contents: bool) -> bool | None:
    parts = parts_of(element)
    if not is_message(element) or not all(typed(part, *OUR_TYPES) for part in parts):
        return None
    return known(actor(element)) if any(map(is_only_ours, parts)) else None


def is_only_ours(part: Obj) -> bool:
    return (
        any(field in part for field in ("call_id", "media_type", "file_id", "encrypted"))
        or (part["type"] == "refusal" and "text" in part)
        or (part["type"] == "data" and "name" in part and "value" in part)
    )


GEMINI = "functionCall functionResponse inlineData fileData executableCode codeExecutionResult".split()
GEMINI_SNAKE = "function_call function_response inline_data file_data executable_code code_execution_result".split()


def gemini(element: Obj, contents: bool) -> bool | None:
    absent = contents and actor(element) is None  # A role that is null or not a string counts as absent.
    fields = ["text", *GEMINI, *GEMINI_SNAKE]
    if not (is_message(element) or absent):
        return None
    for part in parts_of(element):
        if isinstance(part, dict) and "type" not in part and any(field in part for field in fields):
            return absent or known(actor(element))
    return None


GEN_AI = "tool_call tool_call_response server_tool_call server_tool_call_response blob uri".split()


def gen_ai(element: Obj, _contents: bool) -> bool | None:
    for part in parts_of(element) if is_message(element) else []:
        if typed(part, *GEN_AI) or (typed(part, "text", "reasoning") and "content" in part and "text" not in part):
            return known(actor(element))
    return None


def ui_message(element: Obj, _contents: bool) -> bool | None:
    if not is_message(element) or not strings_and_objects(element.get("parts")):
        return None
    parts = element["parts"]
    if parts == [] and "content" in element:
        return None
    every = all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts)
    return known(actor(element)) if every else None


ANTHROPIC = "tool_use tool_result thinking redacted_thinking server_tool_use".split()


def anthropic(element: Obj, _contents: bool) -> bool | None:
    if not is_message(element):
        return None
    holds = any(
        typed(part, *ANTHROPIC) or (isinstance(part, dict) and isinstance(part.get("source"), dict))
        for part in content_of(element)
    )
    complete = element.get("type") == "message" and "stop_reason" in element
    return known(actor(element)) if holds or complete else None


def chat_completions(element: Obj, _contents: bool) -> bool | None:
    return known(actor(element)) if is_message(element) else None


READERS = [langchain, responses, palaver, gemini, gen_ai, ui_message, anthropic, chat_completions]


def row_of(element: Any, contents: bool = False) -> tuple[str, bool] | None:
    """Return the dialect of an element, and whether it is certain."""
    if not isinstance(element, dict):
        return None
    for name, row in zip(ROWS, READERS, strict=True):
        certain = row(element, contents)
        if certain is not None:
            return name, certain
    # "also {"message": {…}} without an actor, judged by what is inside": one level deep, by the inner object.
    inside = element.get("message")
    if actor(element) is None and isinstance(inside, dict):
        return next(
            (
                (name, certain)
                for name, row in zip(ROWS, READERS, strict=True)
                if (certain := row(inside, False)) is not None
            ),
            None,
        )
    return None


def dialect_of(value: Any, *, contents: bool = False) -> str | None:
    elements = [value] if isinstance(value, dict) else value
    if not isinstance(elements, list):
        return None
    rows = [row_of(element, contents) for element in elements]
    known_rows = [row for row in rows if row is not None]
    if len(known_rows) < len(rows) or not any(certain for _, certain in known_rows):
        return None
    return min((name for name, _ in known_rows), key=ROWS.index)


# The wide search

WIDE_KEYS = {
    "input": STRICT_KEYS["input"]
    + "input contents new_message gen_ai.input.messages llm.input_messages ai.prompt.messages".split(),
    "output": STRICT_KEYS["output"] + "output gen_ai.output.messages llm.output_messages replies".split(),
    "neutral": STRICT_KEYS["neutral"] + "chat_history message conversations".split(),
}
TWO_KEYS: dict[str, list[str]] = {"data.inputs": ["data", "inputs"], "data.outputs": ["data", "outputs"]}
WIDE = {
    "input": "inputs data.inputs request input input.value mlflow.spanInputs traceloop.entity.input ai.prompt".split(),
    "output": (
        "outputs data.outputs response output result output.value mlflow.spanOutputs traceloop.entity.output".split()
    ),
    "neutral": "data attributes ag gen_ai llm kwargs values body __default__".split(),
}
FIRST = "data inputs outputs request response".split()
WIDE_WRAPPERS = {
    "input": WIDE["input"] + WIDE["neutral"] + WIDE["output"],
    "output": WIDE["output"] + WIDE["neutral"] + WIDE["input"],
    None: FIRST + [name for name in WIDE["neutral"] + WIDE["input"] + WIDE["output"] if name not in FIRST],
}
SIDES: dict[str, str] = {
    **{name: side for side in ("input", "output") for name in WIDE_KEYS[side] + WIDE[side]},
    **dict.fromkeys("choices candidates generations".split(), "output"),
}


class Found(NamedTuple):
    """A match: the raw value, its dialect, the JSON pointer to it and its side (input, output or neutral)."""

    value: Any
    dialect: str
    path: str
    side: str


class Search:
    """A walk over one value. Keeps all parsed texts alive, so that an `id` always means the same object."""

    def __init__(self, prefer: str | None) -> None:
        self.prefer = prefer
        self.seen: dict[int, int] = {}
        self.texts: dict[tuple[int, str], Any] = {}

    def open_text(self, holder: Any, key: str, value: Any, hops: int) -> tuple[Any, int]:
        """Return the value of a JSON text and the number of texts parsed so far; other values unchanged."""
        if not isinstance(value, str) or hops >= 3:
            return value, hops
        index = (id(holder), key)
        if index not in self.texts:
            self.texts[index] = parse_text(value)
        parsed = self.texts[index]
        return (value, hops) if parsed is None else (parsed, hops + 1)

    def visit(self, value: Any, path: list[str], depth: int, hops: int, in_message: bool) -> Iterator[Found]:
        """Yield every match in a value that is not a JSON text, in the order of the steps."""
        if depth > 6:
            return
        if isinstance(value, list):
            yield from self.matches_at(value, path)
        if not isinstance(value, dict) or self.seen.get(id(value), 7) <= depth:
            return
        self.seen[id(value)] = depth
        in_message = in_message or self.is_one_message(value)
        yield from self.keys(value, path, hops, in_message)
        yield from self.wrappers(value, path, depth, hops, in_message)
        yield from self.answers(value, path)
        yield from self.matches_at(value, path)

    def is_one_message(self, value: Obj) -> bool:
        # An OpenInference box, `{"message": {…}}`, is not a message itself: its other keys are not content.
        boxed = actor(value) is None and isinstance(value.get("message"), dict)
        return dialect_of(value) is not None and not boxed

    def keys(self, value: Obj, path: list[str], hops: int, in_message: bool) -> Iterator[Found]:
        for group in GROUPS[self.prefer]:
            for key in WIDE_KEYS[group]:
                under = value.get(key)
                if key != "message" and not in_message:
                    under, _ = self.open_text(value, key, under, hops)
                yield from self.matches_at(under, [*path, key])
                if under == [] and key in HISTORIES and actor(value) is None and asked(value):
                    side = next((SIDES[name] for name in path if name in SIDES), "neutral")
                    yield Found(under, "chat-completions", "".join(f"/{name}" for name in [*path, key]), side)

    def wrappers(self, value: Obj, path: list[str], depth: int, hops: int, in_message: bool) -> Iterator[Found]:
        for wrapper in WIDE_WRAPPERS[self.prefer]:
            keys = TWO_KEYS.get(wrapper, [wrapper])
            inner, created = value, hops
            for key in keys:
                if not isinstance(inner, dict) or key not in inner:
                    break
                holder, inner = inner, inner[key]
                if not in_message:
                    inner, created = self.open_text(holder, key, inner, created)
            else:
                yield from self.visit(inner, path + keys, depth + len(keys), created, in_message)

    def answers(self, value: Obj, path: list[str]) -> Iterator[Found]:
        chosen = choices_of(value.get("choices"))
        deltas = {id(choice["delta"]) for choice in objects(value.get("choices")) if "delta" in choice}
        dialect = [
            {**item, "role": "assistant"} if id(item) in deltas and actor(item) is None else item for item in chosen
        ]
        yield from self.matches_at(dialect, [*path, "choices"])
        candidates = [item.get("content") for item in objects(value.get("candidates"))]
        yield from self.matches_at(present(candidates), [*path, "candidates"])
        rows = value.get("generations")
        cells = [cell for row in (rows if isinstance(rows, list) else []) for cell in objects(row)]
        yield from self.matches_at(present([cell.get("message") for cell in cells]), [*path, "generations"])
        content = value.get("content")
        if actor(value) is None and isinstance(content, dict) and isinstance(content.get("parts"), list):
            yield from self.matches_at(content, [*path, "content"])

    def matches_at(self, value: Any, path: list[str]) -> Iterator[Found]:
        """Yield the value itself if it is messages; a list of exactly one list stands for that list."""
        contents = path[-1:] == ["contents"]
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
            value, path = value[0], [*path, "0"]
        dialect = dialect_of(value, contents=contents)
        if dialect is not None:
            side = next((SIDES[key] for key in path if key in SIDES), "neutral")
            yield Found(value, dialect, "".join(f"/{key}" for key in path), side)


HISTORIES = "history chat_history message_history".split()
QUESTIONS = "question input query content message prompt user_input".split()


def asked(value: Obj) -> bool:
    """Whether a question beside an empty history is a text that is not blank."""
    return any(isinstance(value.get(key), str) and value[key].strip() for key in QUESTIONS)


def objects(value: Any) -> list[Obj]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def present(values: list[Any]) -> list[Obj]:
    return [value for value in objects(values) if value]


def parse_text(text: str) -> Any:
    """Return the object or list that a JSON text encodes, or None."""
    trimmed = text.strip()
    if trimmed[:1] + trimmed[-1:] not in ("{}", "[]"):
        return None
    try:
        return json.loads(trimmed, parse_constant=reject_constant)
    except (ValueError, RecursionError):
        return None


def reject_constant(name: str) -> None:
    raise ValueError(name)


def find(value: Any, prefer: str | None = None) -> Found | None:
    """Return the first match on the preferred side, else the first neutral one, else the first on the other side."""
    search = Search(prefer)
    root, hops = search.open_text(None, "", value, 0)
    matches = list(search.visit(root, [], 0, hops, False))
    for side in GROUPS[prefer] if prefer else ():
        for match in matches:
            if match.side == side:
                return match
    return matches[0] if matches else None
