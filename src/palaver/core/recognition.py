"""Is this value messages, and in which dialect? One test, used by replies, requests, tables and evaluators alike.

Pure, total functions: whatever the value, nothing here raises. *Object* means dict and *list* means list; tuples, bytes
and other Python objects are leaves and never match. The search for messages inside a larger value comes on top of this.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeGuard, cast, get_args

Dialect = Literal[
    "langchain", "responses", "palaver", "gemini", "gen-ai", "ui-message", "anthropic", "chat-completions"
]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
"""In order of precedence: a list that mixes several has the name of the first that occurs in it."""

KNOWN_ROLES = frozenset("system developer user human assistant ai model bot chatbot agent tool function".split())

_Object = dict[str, Any]
_PALAVER_PARTS = frozenset({"text", "reasoning", "file", "tool-call", "tool-result", "refusal", "data"})
_GEMINI_FIELDS = frozenset(
    "text functionCall functionResponse inlineData fileData executableCode codeExecutionResult function_call"
    " function_response inline_data file_data executable_code code_execution_result".split()
)
_GEN_AI_PARTS = frozenset("tool_call tool_call_response server_tool_call server_tool_call_response blob uri".split())
_ANTHROPIC_PARTS = frozenset("tool_use tool_result thinking redacted_thinking server_tool_use".split())
_RESPONSES_PARTS = frozenset("input_text output_text input_image input_file".split())
_LANGCHAIN_TYPES = frozenset("human ai system tool function".split())
_LANGCHAIN_CHUNKS = frozenset(f"{kind}MessageChunk" for kind in ("Human", "AI", "System", "Tool", "Function", "Chat"))


def is_chat_messages(value: object) -> bool:
    """The strict test: a list of nothing but messages, at least one of them by somebody we know."""
    if not _is_list(value) or not value:
        return False
    known = False
    for element in value:
        who = actor(element) if _is_object(element) else None
        if who is None or not _says_something(element):
            return False
        known = known or who.lower() in KNOWN_ROLES
    return known


def dialect_of(value: object) -> Dialect | None:
    """The dialect of a list of messages, or of one message; None where it is no such thing."""
    elements = value if _is_list(value) else [value]
    found: set[Dialect] = set()
    certain = False
    for element in elements:
        judged = _judge(element)
        if judged is None:
            return None
        found.add(judged[0])
        certain = certain or judged[1]
    return min(found, key=DIALECTS.index) if certain else None


def element_dialect(element: object) -> Dialect | None:
    """The dialect of one element of a list, certain or not."""
    judged = _judge(element)
    return judged[0] if judged else None


def unwrapped(element: Any) -> Any:
    """The message itself, out of OpenInference's `{"message": {…}}`."""
    return element if _judge_bare(element) else _inside(element) or element


def why_not(value: object) -> tuple[int | None, str]:
    """For a value that is no messages: the index of the first bad element, and what is wrong with it."""
    if not _is_list(value):
        return None, "is not a list of messages"
    for index, element in enumerate(value):
        if _judge(element) is None:
            if not _is_object(element):
                return index, "is not an object"
            if actor(element) is None:
                return index, "has no role"
            return index, "says nothing that we can read (content, parts, tool_calls …)"
    return None, "has no message with a known role"


def actor(element: Mapping[str, Any]) -> str | None:
    """Who speaks: any role at all, or a sender or author whose name is a known role."""
    role = element.get("role")
    if isinstance(role, str) and role:
        return role
    for key in ("sender", "author"):
        who = element.get(key)
        if isinstance(who, str) and who.lower() in KNOWN_ROLES:
            return who
    return None


def _says_something(element: _Object) -> bool:
    """The other half of the strict test."""
    if "content" in element:
        content = element["content"]
        if content is None or isinstance(content, str) or _is_strings_and_objects(content):
            return True
        if _is_object(content) and isinstance(content.get("type"), str):
            return True
    delta = element.get("delta")
    return (
        isinstance(element.get("text"), str)
        or isinstance(element.get("message"), str)
        or _is_strings_and_objects(element.get("parts"))
        or _is_objects(element.get("tool_calls"))
        or _is_object(element.get("function_call"))
        or isinstance(element.get("tool_call_id"), str)
        or (_is_object(delta) and isinstance(delta.get("content"), str))
    )


# Which dialect an element is in, and whether it alone makes certain that this is a conversation


def _judge(element: object) -> tuple[Dialect, bool] | None:
    return _judge_bare(element) or _judge_bare(_inside(element))


def _judge_bare(element: object) -> tuple[Dialect, bool] | None:
    if not _is_object(element):
        return None
    who = actor(element)
    if who is None or not _says_something(element):
        return _judge_item(element, has_actor=who is not None)
    known = who.lower() in KNOWN_ROLES
    parts, content = element.get("parts"), element.get("content")
    if _is_list(parts) and (parts or "content" not in element):
        by_parts = _judge_parts(parts)
        if by_parts is not None:
            return by_parts, known
    if type(content) is str and "type" not in element:
        return "chat-completions", known  # By far the most common: nothing more to look at.
    return _judge_content(element, content, known=known)


def _inside(element: object) -> object:
    return element.get("message") if _is_object(element) and actor(element) is None else None


def _judge_content(element: _Object, content: object, *, known: bool) -> tuple[Dialect, bool]:
    parts = _objects(content)
    of_anthropic = any(_kind(part) in _ANTHROPIC_PARTS or _is_object(part.get("source")) for part in parts)
    is_message = _kind(element) == "message"
    if is_message and "stop_reason" in element:
        of_anthropic = True
    if is_message and known and not of_anthropic:
        return "responses", True
    if any(_kind(part) in _RESPONSES_PARTS for part in parts):
        return "responses", True
    return ("anthropic" if of_anthropic else "chat-completions"), known


def _judge_parts(parts: list[Any]) -> Dialect | None:
    objects = _objects(parts)
    typed = len(objects) == len(parts) and all(map(_kind, objects))
    if typed and all(part["type"] in _PALAVER_PARTS for part in objects) and any(map(_is_ours, objects)):
        return "palaver"
    if any("type" not in part and any(field in part for field in _GEMINI_FIELDS) for part in objects):
        return "gemini"
    if any(map(_is_gen_ai, objects)):
        return "gen-ai"
    return "ui-message" if typed else None  # Text and reasoning alone look the same in ours; it reads both alike.


def _is_ours(part: _Object) -> bool:
    match part["type"]:
        case "refusal":
            return "text" in part
        case "data":
            return "name" in part  # A value of null is left out when we write.
        case "file":
            return "media_type" in part or ("file_id" in part and "modality" not in part)  # That is OpenTelemetry's.
        case _:
            return not part.keys().isdisjoint(("call_id", "media_type", "file_id", "encrypted"))


def _is_gen_ai(part: _Object) -> bool:
    kind = _kind(part)
    if kind in _GEN_AI_PARTS or (kind == "file" and "modality" in part):
        return True
    return kind in ("text", "reasoning") and "content" in part and "text" not in part


def _judge_item(element: _Object, *, has_actor: bool) -> tuple[Dialect, bool] | None:
    """What has no actor, or says nothing as a message: an item of Responses, or one of LangChain's own forms."""
    langchain = None if has_actor else _judge_langchain(element)
    if langchain is not None:
        return "langchain", langchain
    item = _judge_response_item(element)
    return ("responses", item) if item is not None else None


def _judge_langchain(element: _Object) -> bool | None:
    """Certain or not, for a LangChain message; None for anything else."""
    version, kwargs, path = element.get("lc"), element.get("kwargs"), element.get("id")
    if isinstance(version, int) and version == 1 and _is_list(path) and path and isinstance(path[-1], str):
        named = path[-1].endswith(("Message", "MessageChunk"))
        return True if named and _is_object(kwargs) and _is_said(kwargs.get("content")) else None
    kind = _kind(element)
    if kind not in _LANGCHAIN_TYPES and kind not in _LANGCHAIN_CHUNKS:
        return None
    data = element.get("data")
    if _is_object(data) and _is_said(data.get("content")):
        return True
    if not _is_said(element.get("content")):
        return None
    extras = _is_object(element.get("additional_kwargs")) or _is_object(element.get("response_metadata"))
    return extras or kind in ("human", "ai") or kind in _LANGCHAIN_CHUNKS


def _judge_response_item(element: _Object) -> bool | None:
    """Certain or not, for an item of Responses; None for anything else."""
    kind = _kind(element)
    given: Callable[[str], bool] = lambda key: isinstance(element.get(key), str)  # noqa: E731 - three words, used below
    match kind:
        case "function_call":
            return True if given("name") and given("arguments") else None
        case "custom_tool_call":
            return True if given("name") and given("input") else None
        case "function_call_output" | "custom_tool_call_output":
            return True if given("call_id") and "output" in element else None
        case "reasoning":
            told = _is_list(element.get("summary")) or _is_list(element.get("content")) or given("encrypted_content")
            return False if told else None
        case "mcp_approval_response" if given("approval_request_id"):
            return True
        case "palaver:data" | "palaver:file":
            return True if given("name") or given("media_type") else None
        case _:
            other = kind == "item_reference" or kind.endswith(("_call", "_call_output")) or kind.startswith("mcp_")
            return False if other and given("id") else None


# Shapes


def _is_object(value: object) -> TypeGuard[_Object]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _kind(value: _Object) -> str:
    """Its `type`, or nothing."""
    kind = value.get("type")
    return kind if isinstance(kind, str) else ""


def _is_said(value: object) -> bool:
    return isinstance(value, str | list)


def _objects(value: object) -> list[_Object]:
    if _is_object(value):
        return [value]
    return [item for item in value if _is_object(item)] if _is_list(value) else []


def _is_objects(value: object) -> bool:
    return _is_list(value) and all(isinstance(item, dict) for item in value)


def _is_strings_and_objects(value: object) -> bool:
    return _is_list(value) and all(isinstance(item, str | dict) for item in cast("list[object]", value))
