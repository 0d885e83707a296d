"""The JavaScript in a Markdown text: what stands in fences marked js."""

import re

import msgspec

_OPENING = re.compile(r"(?P<indent>[ \t]*(?:>[ \t]?)*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^`\n]*")
_LANGUAGES = frozenset({"js", "javascript", "mjs", "cjs"})


class CodeBlock(msgspec.Struct, frozen=True):
    """One fenced block."""

    code: str
    line: int
    """Of the text, where the code begins."""


def javascript_blocks(text: str) -> list[CodeBlock]:
    """The blocks of JavaScript, in order. One that is never closed, as the answer was cut off, goes to the end."""
    blocks: list[CodeBlock] = []
    opened: re.Match[str] | None = None
    lines: list[str] = []
    begin = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if opened is None:
            opened, lines, begin = _OPENING.fullmatch(line), [], number + 1
        elif _closes(line, opened["fence"]):
            blocks += _made(opened, lines, begin)
            opened = None
        else:
            lines.append(_outdented(line, opened["indent"]))
    return blocks + _made(opened, lines, begin) if opened is not None else blocks


def _closes(line: str, fence: str) -> bool:
    mark = line.strip(" \t>")
    return mark.startswith(fence) and not mark.strip(fence[0])


def _made(opened: re.Match[str], lines: list[str], begin: int) -> list[CodeBlock]:
    code = "\n".join(lines)
    return [CodeBlock(code, begin)] if opened["language"].lower() in _LANGUAGES and code.strip() else []


def _outdented(line: str, indent: str) -> str:
    """A line of a block that stands in a list or a quotation, without what makes it stand there."""
    same = 0
    while same < min(len(line), len(indent)) and line[same] == indent[same]:
        same += 1
    return line[same:]
