"""One element of a list: who speaks, does it say something, and whose dialect is it?

The two tables that the rest of the house stands on, as pure functions of an object. Whether a list of them is a
conversation, recognition.py says.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

from palaver.core.kinds import Object, get, is_list, is_object, is_text, items, plain, text

Dialect = Literal[
    "langchain", "responses", "palaver", "gemini", "gen-ai", "ui-message", "anthropic", "chat-completions"
]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
"""In order of precedence: a list that mixes several has the name of the first that occurs in it."""

KNOWN_ROLES = frozenset("system developer user human assistant ai model bot chatbot agent tool function".split())

_ABSENT: Any = object()
_OBJECT, _LIST, _STRING_OR_OBJECT = (dict,), (list,), (str, dict)
# `type(x) in _OBJECT` is `type(x) is dict`, after which the checker believes to know less of x than before.
_PALAVER_PARTS = frozenset({"text", "reasoning", "file", "tool-call", "tool-result", "refusal", "data"})
_GEMINI_FIELDS = frozenset(
    "text functionCall functionResponse inlineData fileData executableCode codeExecutionResult function_call"
    " function_response inline_data file_data executable_code code_execution_result".split()
)
_GEN_AI_PARTS = frozenset("tool_call tool_call_response server_tool_call server_tool_call_response blob uri".split())
_CONTENT_PARTS: dict[str, Dialect] = {
    **dict.fromkeys("tool_use tool_result thinking redacted_thinking server_tool_use".split(), "anthropic"),
    **dict.fromkeys("input_text output_text input_image input_file".split(), "responses"),
}
_LANGCHAIN_TYPES = frozenset("human ai system tool function".split())
_LANGCHAIN_CHUNKS = frozenset(f"{kind}MessageChunk" for kind in ("Human", "AI", "System", "Tool", "Function", "Chat"))

_TELLING = frozenset(("type", "parts", "content"))
_COMMON = ("text", "image_url")
_OF_RESPONSES = ("input_text", "output_text")
_OF_GEMINI_OR_UI = (None, "text")
_LANGCHAIN: "Verdict" = ("langchain", True)
_RESPONSES: "Verdict" = ("responses", True)
_GEMINI: "Verdict" = ("gemini", True)
_UI_MESSAGE: "Verdict" = ("ui-message", True)
_PLAIN: dict[bool, tuple[Dialect, bool]] = {known: ("chat-completions", known) for known in (True, False)}


def actor(element: Object) -> str | None:
    """Who speaks: any role at all, or a sender or author whose name is a known role."""
    role = get(element, "role")
    if is_text(role) and (named := str.__str__(role)):
        return named
    sender = get(element, "sender")
    if type(sender) is str and sender in KNOWN_ROLES:
        return sender
    for key in ("sender", "author"):
        who = get(element, key)
        if is_text(who) and is_known(who):
            return str.__str__(who)
    return None


def is_known(role: str) -> bool:
    """Is this one of the roles that make a list a conversation, in any case?"""
    return role in KNOWN_ROLES or str.lower(role) in KNOWN_ROLES


def says_something(element: Object) -> bool:
    """The other half of the strict test."""
    content = element.get("content", _ABSENT)
    if content is not _ABSENT and (type(content) is str or content is None or _is_strings_and_objects(content)):
        return True
    if "parts" in element and _is_strings_and_objects(element["parts"]):
        return True
    if type(element.get("text")) is str:
        return True
    delta = element.get("delta")
    return (
        is_text(content)
        or (is_object(content) and is_text(get(content, "type")))
        or is_text(element.get("text"))
        or is_text(element.get("message"))
        or _is_objects(element.get("tool_calls"))
        or is_object(element.get("function_call"))
        or is_text(element.get("tool_call_id"))
        or (is_object(delta) and is_text(get(delta, "content")))
    )


def is_message(value: Object) -> bool:
    """Is this object, as it stands, a message for certain? What it holds was then said by somebody."""
    verdict = judge(plain(value))
    return verdict is not None and verdict[1]


def has_gemini_part(value: Object) -> bool:
    """Has it a part without a type that tells by one of Gemini's fields what it is?"""
    parts = get(value, "parts")
    return any(map(_is_gemini, _objects(parts))) if is_list(parts) else False


# Which dialect an element is in, and whether it alone makes certain that this is a conversation

Verdict = tuple[Dialect, bool]


def quick_look(element: Any) -> Verdict | None:
    """What `judge` says of the plainest elements there are; None for any other."""
    if type(element) not in _OBJECT:
        return None
    role, content = element.get("role"), element.get("content")
    if role is None:
        return _LANGCHAIN if type(content) is str and _is_plainly_langchain(element) else None
    if type(role) is not str or role not in KNOWN_ROLES:
        return None
    if "type" in element:
        return _RESPONSES if _kind(element) == "message" and _begins(content, _OF_RESPONSES) else None
    parts = element.get("parts")
    if parts is None:
        return _PLAIN[True] if type(content) is str or (content and are_common(content)) else None
    if not _begins(parts, _OF_GEMINI_OR_UI):
        return None
    part = parts[0]
    if "type" not in part:
        return _GEMINI if type(part.get("text")) is str else None
    return _UI_MESSAGE if len(parts) == 1 and len(part) == 2 and type(part.get("text")) is str else None


def are_common(parts: Any) -> bool:
    """Are they nothing but text and images, as Chat Completions has them?"""
    if type(parts) not in _LIST:
        return False
    for part in parts:
        kind = part.get("type") if type(part) in _OBJECT else None
        if type(kind) is not str or kind not in _COMMON or "source" in part:
            return False
    return True


def _begins(parts: Any, kinds: tuple[str | None, ...]) -> bool:
    """Is it a list of objects, the first of such a kind?"""
    if type(parts) not in _LIST or not parts:
        return False
    for part in parts:
        if type(part) not in _OBJECT:
            return False
    kind = parts[0].get("type")
    return (kind is None or type(kind) is str) and kind in kinds


def _is_plainly_langchain(element: Object) -> bool:
    kind = _kind(element)
    if "role" in element or "sender" in element or "author" in element:
        return False
    return kind == "human" or kind == "ai" or (kind == "system" and type(element.get("additional_kwargs")) is dict)  # noqa: PLR1714 - a tuple costs more


def judge(element: Object | None) -> Verdict | None:
    """Whose it is, and whether it makes certain that this is a conversation; None for what is nobody's."""
    if element is None:
        return None
    role, content = element.get("role"), element.get("content")
    if type(role) is not str or not role:
        role = actor(element)
        if role is not None and content is None and type(element.get("text")) is str and _TELLING.isdisjoint(element):
            return _PLAIN[is_known(role)]  # Somebody's text, as chat widgets keep it.
    parts = element.get("parts")
    if role is not None and type(content) is str and parts is None and "type" not in element:
        return _PLAIN[is_known(role)]  # By far the most common: nothing more to look at.
    known = role is not None and is_known(role)
    if known and says_something(element):
        return _judge_message(element, known=True)
    item = _judge_item(element, has_actor=role is not None)
    return item or (_judge_message(element, known=False) if role is not None and says_something(element) else None)


def _judge_message(element: Object, *, known: bool) -> Verdict:
    parts, content = element.get("parts"), element.get("content")
    listed = items(parts) if is_list(parts) else None
    of_anthropic, of_responses = _judge_content(content) if not listed else (False, False)
    if _kind(element) == "message":
        of_anthropic = of_anthropic or "stop_reason" in element
        of_responses = of_responses or (known and not of_anthropic)
    if of_responses:
        return "responses", True
    by_parts = _judge_parts(listed) if listed or (listed is not None and "content" not in element) else None
    return by_parts or ("anthropic" if of_anthropic else "chat-completions"), known


def _judge_content(content: object) -> tuple[bool, bool]:
    """Does it hold what only Anthropic has, or what only Responses has?"""
    of_anthropic = of_responses = False
    if type(content) is not str:
        for part in _objects(content):
            whose = _CONTENT_PARTS.get(_kind(part))
            of_responses = of_responses or whose == "responses"
            of_anthropic = of_anthropic or whose == "anthropic" or is_object(get(part, "source"))
    return of_anthropic, of_responses


def inside(element: Object | None) -> Object | None:
    """What stands in OpenInference's `{"message": {…}}`."""
    return plain(element.get("message")) if element is not None and actor(element) is None else None


def _judge_parts(parts: list[Any]) -> Dialect | None:
    """By what its parts are; None where they are no parts of anybody's, and it is judged by its content."""
    typed = all_ours = True
    one_ours = of_gemini = of_gen_ai = False
    for item in parts:
        part = item if type(item) in _OBJECT else plain(item)
        if part is None:
            typed = False
            continue
        kind = _kind(part)
        if not kind:
            typed = False
            of_gemini = of_gemini or _is_gemini(part)
        elif kind == "text" and len(part) == 2 and "text" in part:
            pass  # Most are: nothing in it tells whose it is.
        else:
            all_ours = all_ours and kind in _PALAVER_PARTS
            one_ours = one_ours or _is_ours(part, kind)
            of_gen_ai = of_gen_ai or _is_gen_ai(part, kind)
    if typed and all_ours and one_ours:
        return "palaver"
    if of_gemini:
        return "gemini"
    if of_gen_ai:
        return "gen-ai"
    return "ui-message" if typed else None  # Text and reasoning alone look the same in ours; it reads both alike.


def _is_gemini(part: Object) -> bool:
    return get(part, "type", _ABSENT) is _ABSENT and not _GEMINI_FIELDS.isdisjoint(Object.keys(part))


def _is_ours(part: Object, kind: str) -> bool:
    match kind:
        case "refusal":
            return "text" in part
        case "data":
            return "name" in part  # A value of null is left out when we write.
        case "file":
            return "media_type" in part or ("file_id" in part and "modality" not in part)  # That is OpenTelemetry's.
        case _:
            return "call_id" in part or "encrypted" in part or "media_type" in part or "file_id" in part


def _is_gen_ai(part: Object, kind: str) -> bool:
    if kind in _GEN_AI_PARTS or (kind == "file" and "modality" in part):
        return True
    return kind in ("text", "reasoning") and "content" in part and "text" not in part


def _judge_item(element: Object, *, has_actor: bool) -> Verdict | None:
    """What is no message by itself: an item of Responses, or one of LangChain's own forms."""
    kind = _kind(element)
    langchain = None if has_actor else _judge_langchain(element, kind)
    if langchain is not None:
        return "langchain", langchain
    item = _judge_response_item(element, kind) if kind else None
    return ("responses", item) if item is not None else None


def _judge_langchain(element: Object, kind: str) -> bool | None:
    """Certain or not, for a LangChain message; None for anything else."""
    if "lc" in element and _is_serialised(element):
        return True
    if kind not in _LANGCHAIN_TYPES and kind not in _LANGCHAIN_CHUNKS:
        return None
    data = element.get("data")
    if is_object(data) and _is_said(get(data, "content")):
        return True
    if not _is_said(element.get("content")):
        return None
    if kind in ("human", "ai") or kind in _LANGCHAIN_CHUNKS:
        return True
    return is_object(element.get("additional_kwargs")) or is_object(element.get("response_metadata"))


def _is_serialised(element: Object) -> bool:
    version, path, kwargs = element["lc"], element.get("id"), element.get("kwargs")
    last = items(path)[-1:] if is_list(path) else []
    named = bool(last) and is_text(last[0]) and str.endswith(last[0], ("Message", "MessageChunk"))
    return type(version) is int and version == 1 and named and is_object(kwargs) and _is_said(get(kwargs, "content"))


def _judge_response_item(element: Object, kind: str) -> bool | None:
    """Certain or not, for an item of Responses; None for anything else."""
    given: Callable[[str], bool] = lambda key: is_text(element.get(key))  # noqa: E731 - three words, used below
    match kind:
        case "function_call":
            return True if given("name") and given("arguments") else None
        case "custom_tool_call":
            return True if given("name") and given("input") else None
        case "function_call_output" | "custom_tool_call_output":
            return True if given("call_id") and "output" in element else None
        case "reasoning":
            told = is_list(element.get("summary")) or is_list(element.get("content")) or given("encrypted_content")
            return False if told else None
        case "mcp_approval_response" if given("approval_request_id"):
            return True
        case "palaver:data" | "palaver:file":
            return True if given("name") or given("media_type") else None
        case _:
            other = kind == "item_reference" or kind.endswith(("_call", "_call_output")) or kind.startswith("mcp_")
            return False if other and given("id") else None


# Shapes


def _kind(value: Object) -> str:
    """Its `type`, or nothing."""
    kind = get(value, "type")
    return kind if type(kind) is str else text(kind) or ""


def _is_said(value: object) -> bool:
    return is_text(value) or is_list(value)


def _objects(value: object) -> list[Object]:
    if is_list(value):
        return [item for item in items(value) if is_object(item)]
    return [value] if is_object(value) else []


def _is_objects(value: object) -> bool:
    return is_list(value) and all(is_object(item) for item in items(value))


def _is_strings_and_objects(value: Any) -> bool:
    if type(value) not in _LIST:
        return is_list(value) and _is_strings_and_objects(items(value))
    for item in value:  # noqa: SIM110 - a generator would cost more than all else that is done for a message
        if type(item) not in _STRING_OR_OBJECT and not (is_text(item) or is_object(item)):
            return False
    return True
