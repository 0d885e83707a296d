"""What a table's cell shows of a value: a conversation, a text, JSON, or nothing; never more than 4 KiB of it.

    1  a conversation is found in it      chat: one line, and a block of messages for tall rows
    2  a text, or one where texts stand   text: one line, and a block of ten lines
    3  an object with one key             rule 2 on what stands under it, once
    4  anything else                      JSON: its beginning, in the same way

A text that is a JSON object or list counts as what it holds. Previews are made when a row is written and are kept with
it, so that no list ever loads a payload; `full` is for the one value that somebody looks at. Nothing here raises,
whatever the value, and of a long text only the beginning is read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, assert_never, cast

from palaver.core import jsons
from palaver.core.extraction import words
from palaver.core.extraction.compact import Written, written
from palaver.core.extraction.cutting import cut, one_line
from palaver.core.extraction.places import WIDE, Prefer, ordered
from palaver.core.extraction.previews import (
    CELL,
    Budget,
    ChatPreview,
    EmptyPreview,
    JsonPreview,
    MessagePreview,
    Preview,
    TextPreview,
    Whole,
    WholeChat,
    WholeEmpty,
    WholeJson,
    WholeText,
)
from palaver.core.extraction.wide import Conversation, read_conversation
from palaver.core.kinds import honest
from palaver.core.messages import Message, Role

MOST_BYTES = 4096
"""A preview is smaller than this, as JSON."""
PAGE = 200
"""Messages of a whole conversation that are shown at once."""

_Object = dict[str, Any]
_get = _Object.get  # Not the value's own: it may be anybody's subclass.
_SPEAKERS: dict[Prefer | None, Sequence[Role]] = {
    "input": ("user",),
    "output": ("assistant",),
    None: ("user", "assistant"),
}


class _Other(NamedTuple):
    value: Any


_Held = Conversation | str | _Other | None


def preview(value: object, prefer: Prefer | None = None, budget: Budget = CELL) -> Preview:
    """What a cell shows of a value: in a column of inputs or outputs with that side as `prefer`."""
    ordered(WIDE, prefer)
    try:
        return _fitting(value, prefer, budget)
    except Exception:  # Somebody's own dict, list or text, or what only claims to be one.
        return _fitting(honest(value), prefer, budget)


def preview_of(messages: Sequence[Message], prefer: Prefer | None = None, budget: Budget = CELL) -> Preview:
    """What a cell shows of messages that are known to be some, as if they stood under `messages` in our dialect."""
    return _fit(Conversation(tuple(messages), "palaver", "/messages"), prefer, budget)


def _fitting(value: object, prefer: Prefer | None, budget: Budget) -> Preview:
    return _fit(_held(value, prefer), prefer, budget)


def _fit(held: _Held, prefer: Prefer | None, budget: Budget) -> Preview:
    made = _preview(held, prefer, budget)
    while len(jsons.encode(made)) >= MOST_BYTES and (smaller := _smaller(budget)) != budget:
        budget, made = smaller, _preview(held, prefer, smaller)
    return made


def full(value: object, prefer: Prefer | None = None, *, first: int = 0) -> Whole:
    """All that a cell stands for: of a conversation the page that begins with message `first`."""
    held = _held(value, prefer)
    match held:
        case None:
            return WholeEmpty()
        case str():
            return WholeText(held)
        case _Other(value=other):
            return WholeJson(other)
        case Conversation(messages=messages):
            end = max(first, 0) + PAGE
            page = messages[end - PAGE : end]
            return WholeChat(page, len(messages), held.path, held.dialect, end if end < len(messages) else None)
        case _:
            assert_never(held)


# What a value holds


def _held(value: object, prefer: Prefer | None) -> _Held:
    conversation = read_conversation(value, prefer)
    if conversation is not None:
        return conversation
    value = _opened(value)
    if value is None:
        return None
    text = _text(value, prefer)
    if text is None and isinstance(value, dict) and len(known := dict[str, Any].values(cast("_Object", value))) == 1:
        text = _text(_opened(next(iter(known))), prefer)
    return _Other(value) if text is None else text or None


def _opened(value: object) -> object:
    """What a text holds that is a JSON object or list; anything else as it is."""
    if not isinstance(value, str):
        return value
    text = str.__str__(value)
    inner = text.strip()
    if (inner[:1], inner[-1:]) not in (("{", "}"), ("[", "]")):
        return text
    read = jsons.parsed(inner)
    return text if isinstance(read, str) else read


def _text(value: object, prefer: Prefer | None) -> str | None:
    """The value, if it is a text; or else the first of the texts where an object has them."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for place in _places(cast("_Object", value), prefer):
            inner = _opened(place)
            if isinstance(inner, str):
                return inner
    return None


def _places(value: _Object, prefer: Prefer | None) -> Iterator[object]:
    """Where an object of that side may have its text."""
    if prefer != "output":
        yield _get(value, "input")
    if prefer != "input":
        yield _get(value, "output")
        returned = _get(value, "returnValues")
        if isinstance(returned, dict):
            yield _get(cast("_Object", returned), "output")
        yield _generated(_get(value, "generations"))


def _generated(generations: object) -> str | None:
    """The texts of what LangChain's models gave, for each prompt one or several."""
    texts: list[str] = []
    for batch in cast("list[object]", generations) if isinstance(generations, list) else ():
        for one in cast("list[object]", batch) if isinstance(batch, list) else (batch,):
            text = _get(cast("_Object", one), "text") if isinstance(one, dict) else None
            if isinstance(text, str):
                texts.append(text)
    return "\n".join(texts) if texts else None


# What is shown of it


def _preview(held: _Held, prefer: Prefer | None, budget: Budget) -> Preview:
    match held:
        case None:
            return EmptyPreview()
        case str():
            return TextPreview(*_lines(Written(held, len(held)), budget))
        case _Other(value=other):
            return JsonPreview(*_lines(written(other, 2 * budget.characters), budget))
        case Conversation():
            return _chat(held, prefer, budget)
        case _:
            assert_never(held)


def _lines(whole: Written, budget: Budget) -> tuple[str, str, int]:
    """The one line, the block, and how much shorter that is."""
    body = cut(whole.text, characters=budget.characters, lines=budget.lines, length=whole.length)
    return one_line(whole.text, budget.line_characters), body.text, body.left_out


def _chat(found: Conversation, prefer: Prefer | None, budget: Budget) -> ChatPreview:
    messages = found.messages
    speaking = _last(messages, _SPEAKERS[prefer])
    shown = _last_user(messages, budget) if prefer == "input" else _first(messages, budget)
    return ChatPreview(
        text=words.line(messages[speaking], budget.line_characters) if messages else "",
        role=messages[speaking].role if messages else None,
        count=len(messages),
        path=found.path,
        dialect=found.dialect,
        messages=shown,
        more=len(messages) - len(shown),
    )


def _last(messages: Sequence[Message], roles: Sequence[Role]) -> int:
    """The last message of one of these roles, else the last."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role in roles:
            return index
    return len(messages) - 1


def _last_user(messages: Sequence[Message], budget: Budget) -> tuple[MessagePreview, ...]:
    index = _last(messages, ("user",))
    return (_message(index, messages[index], budget)[0],) if messages else ()


def _first(messages: Sequence[Message], budget: Budget) -> tuple[MessagePreview, ...]:
    """From the start while the budget lasts, at least one."""
    shown: list[MessagePreview] = []
    left = budget.lines
    for index, message in enumerate(messages):
        made, lines = _message(index, message, budget)
        left -= lines
        if shown and left < 0:
            break
        shown.append(made)
    return tuple(shown)


def _message(index: int, message: Message, budget: Budget) -> tuple[MessagePreview, int]:
    """A message, and the lines it takes."""
    said = words.block(message, budget.message_characters)
    body = cut(said.text, characters=budget.message_characters, lines=budget.message_lines, length=said.length)
    calls = words.calls(message, most=budget.calls, characters=budget.call_characters)
    made = MessagePreview(index, message.role, body.text, body.left_out, calls, words.attachments(message))
    return made, 1 + max(1, body.lines)


def _smaller(budget: Budget) -> Budget:
    """Half the room for characters, and no more lines than a cell has: for what is too large as JSON."""
    return Budget(
        lines=min(budget.lines, CELL.lines),
        characters=budget.characters // 2,
        message_lines=budget.message_lines,
        message_characters=budget.message_characters // 2,
        line_characters=min(budget.line_characters, CELL.line_characters),
        calls=min(budget.calls, CELL.calls),
        call_characters=budget.call_characters // 2,
    )
