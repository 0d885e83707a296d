"""What a message says, in words: for one line of a table, and for a block of some lines."""

from typing import assert_never

from palaver.core.extraction.compact import Written, written
from palaver.core.extraction.cutting import one_line
from palaver.core.messages import Message
from palaver.core.parts import Data, File, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_REACH = 65_536
"""Characters of a message that are gathered; the rest is counted."""
_SHORT = 4096
"""Characters of a name, or of arguments, in which a line is looked for."""
_LABEL = 80
_ATTACHED = (File, Data)


def line(message: Message, characters: int) -> str:
    """Its words, with `[image]`, `[file name]` and `[data name]` in their places; without any, its calls."""
    said = one_line(_said(message, " ", characters, labels=True).text, characters)
    return said or one_line(", ".join(calls(message, most=characters, characters=characters)), characters)


def block(message: Message, characters: int) -> Written:
    """The beginning of its words as they stand: of a tool's message what the tool answered."""
    return _said(message, "\n", characters, labels=False)


def calls(message: Message, *, most: int, characters: int) -> tuple[str, ...]:
    """Its first calls, each like `weather({"city":"Oslo"})`."""
    made = message.tool_calls
    return tuple([one_line(_call(call), characters) for call in made[:most]]) if made else ()


def attachments(message: Message) -> int:
    """How many files and data it brings, which are no words."""
    return len([part for part in message.parts if isinstance(part, _ATTACHED)])


def _said(message: Message, gap: str, characters: int, *, labels: bool) -> Written:
    """The words of all parts. Texts that follow each other are one; what is not text stands apart."""
    reach = max(_REACH, 2 * characters)
    if len(message.parts) == 1 and type(only := message.parts[0]) is Text:  # As most are.
        return Written(only.text[:reach], len(only.text))
    pieces: list[str] = []
    length, gathered, after_text = 0, 0, False
    for part in message.parts:
        said = _words(part, reach, labels=labels)
        if not said.length:
            continue
        is_text = type(part) is Text
        apart = gap if length and not (is_text and after_text) else ""
        after_text = is_text
        length += len(apart) + said.length
        if gathered < reach:
            pieces += (apart, said.text[:reach])
            gathered += len(apart) + len(said.text)
    return Written("".join(pieces), length)


def _words(part: Part, reach: int, *, labels: bool) -> Written:
    match part:
        case Text(text=text) | Refusal(text=text):
            pass
        case ToolResult(output=output):
            if not isinstance(output, str):
                return written(output, reach)
            text = output
        case File() | Data():
            text = _label(part) if labels else ""
        case Reasoning() | ToolCall():
            text = ""
        case _:
            assert_never(part)
    return Written(text, len(text))


def _label(part: File | Data) -> str:
    if isinstance(part, Data):
        return f"[data {one_line(part.name, _LABEL)}]"
    if part.media_type.startswith("image/"):
        return "[image]"
    return f"[file {one_line(part.filename, _LABEL)}]" if part.filename else "[file]"


def _call(call: ToolCall) -> str:
    return f"{call.name[:_SHORT]}({call.arguments[:_SHORT]})"
