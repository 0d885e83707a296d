"""Find a piece of code in a job: exactly, or ignoring line ends, indentation, or spaces between tokens.

Models repeat code almost exactly. Four tiers are tried from strict to tolerant, and the first with a match decides, so
that a tolerant match never competes with an exact one. Spaces in strings, templates and JSX text always count.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Literal

import msgspec

from palaver_jobchat.javascript import Span, common_prefix, parse_program

Tier = Literal["exact", "line-ends", "indent", "tokens"]
Overlap = Literal["overlapping", "apart"]
"""Whether matches may overlap, or each must start after the end of the previous one."""
MAX_MATCHES = 100
"""Matches that are counted; an edit with more is ambiguous anyway."""

_BLANKS = " \t"
_MAX_TOKEN_COMPARISONS = 2_000_000
_CLOSING_BRACKETS = frozenset(")]}")
_TOKEN = re.compile(
    r"[\w$]+|>>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.|\+\+|--"
    r"|[-+*/%&|^]=|<<|>>|\*\*|\S"
)
_STATEMENT_START = re.compile(r"[\w$'\"}]|/[/*]")


class Match(msgspec.Struct, frozen=True):
    """A matching range of the text, and how replacement lines must be reindented."""

    start: int
    end: int
    added: str = ""
    """Indentation that the text has in addition to the code searched for."""
    removed: str = ""
    """Indentation that the text lacks."""
    shifts_literals: bool = False
    """Whether this also applies to lines that start inside of a template or JSX text."""
    first_indentation: str | None = None
    """If set, the first line of a replacement gets this indentation instead of its own."""
    tail: str = ""
    """The comma or semicolon at the end of the range that the code searched for lacks."""


class _Token(msgspec.Struct, frozen=True):
    text: str
    start: int
    end: int
    is_first: bool
    """Whether it is the first on its line."""


class _Code:
    """A text with what the tiers need to know about it, computed on first use."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")

    @cached_property
    def starts(self) -> list[int]:
        """The offsets of the lines."""
        starts = [0]
        for line in self.lines[:-1]:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def literals(self) -> Sequence[Span]:
        return parse_program(self.text).literals

    @cached_property
    def literal_line_ends(self) -> frozenset[int]:
        """The indexes of lines that end inside of a string, a template or JSX text."""
        return frozenset(
            line
            for literal in self.literals
            if not literal.is_comment
            for line in range(self.line_index(literal.start), self.line_index(literal.end))
        )

    @cached_property
    def trimmed_ends(self) -> list[str]:
        """The lines without trailing whitespace, unless it is part of a literal."""
        ends = self.literal_line_ends
        return [
            line.removesuffix("\r") if index in ends else line.removesuffix("\r").rstrip(_BLANKS)
            for index, line in enumerate(self.lines)
        ]

    @cached_property
    def tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        for literal in (*self.literals, Span(len(self.text), len(self.text))):
            for match in _TOKEN.finditer(self.text, position, literal.start):
                tokens.append(self._token(match[0], match.start(), match.end(), tokens))
            if literal.end > literal.start:
                text = self.text[literal.start : literal.end]
                text = " ".join(text.split()) if literal.is_comment else text.replace("\r\n", "\n")
                tokens.append(self._token(text, literal.start, literal.end, tokens))
            position = literal.end
        return tokens

    def line_index(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1

    def _token(self, text: str, start: int, end: int, before: list[_Token]) -> _Token:
        is_first = "\n" in self.text[before[-1].end if before else 0 : start] or not before
        return _Token(text, start, end, is_first)


def find_matches(text: str, code: str, *, overlap: Overlap) -> tuple[Tier, list[Match]] | None:
    """Return all matches of `code` in `text` and the tier that found them, or None."""
    tiers: tuple[tuple[Tier, Callable[[_Code, _Code, Overlap], list[Match]]], ...] = (
        ("exact", _match_exactly),
        ("line-ends", _match_ignoring_line_ends),
        ("indent", _match_ignoring_indentation),
        ("tokens", _match_tokens),
    )
    searched, wanted = _Code(text), _Code(code)
    for tier, search in tiers:
        if matches := search(searched, wanted, overlap):
            return tier, matches
    return None


def line_at(text: str, offset: int) -> int:
    """Return the line number of an offset, from 1."""
    return text.count("\n", 0, offset) + 1


def reindent(code: str, match: Match) -> str:
    """Adapt the indentation and the end of replacement code to a match. Blank lines stay unchanged."""
    first = 0
    if match.tail and code.strip() and not code.rstrip().endswith(match.tail):
        end = len(code.rstrip())
        code = code[:end] + match.tail + code[end:]
    if match.first_indentation is not None:
        code, first = code.lstrip() and match.first_indentation + code.lstrip(), 1
    if not match.added and not match.removed:
        return code
    lines = code.split("\n")
    kept = frozenset[int]() if match.shifts_literals else _Code(code).literal_line_ends
    for index, line in enumerate(lines[first:], first):
        if line.strip() and index - 1 not in kept:
            lines[index] = _shift_line(line, match)
    return "\n".join(lines)


def _shift_line(line: str, match: Match) -> str:
    if match.added:
        return match.added + line
    # A line with less indentation loses all it has.
    return line.removeprefix(common_prefix(line, match.removed))


def _offsets(text: str, code: str, overlap: Overlap, *, shared: int = 0) -> Iterator[int]:
    """Yield the offsets of the code. Matches that don't overlap may share `shared` characters at their ends."""
    if overlap == "overlapping":
        return islice(_find_all(text, code, 1), MAX_MATCHES + 1)
    return _find_all(text, code, len(code) - shared)


def _find_all(text: str, code: str, step: int) -> Iterator[int]:
    offset = text.find(code)
    while offset >= 0:
        yield offset
        offset = text.find(code, offset + step)


def _match_exactly(text: _Code, code: _Code, overlap: Overlap) -> list[Match]:
    matches = [Match(offset, offset + len(code.text)) for offset in _offsets(text.text, code.text, overlap)]
    # `\n…` also matches in the middle of a `\r\n`; the next tier treats a line end as one unit.
    if any(_splits_line_end(text.text, offset) for match in matches for offset in (match.start, match.end)):
        return []
    return matches


def _splits_line_end(text: str, offset: int) -> bool:
    return 0 < offset < len(text) and text[offset - 1 : offset + 1] == "\r\n"


def _match_ignoring_line_ends(text: _Code, code: _Code, overlap: Overlap) -> list[Match]:
    target = "\n".join(code.trimmed_ends)
    if not target:
        return []
    trimmed = _Code("\n".join(text.trimmed_ends))

    def original_offset(offset: int) -> int:
        line = trimmed.line_index(offset)
        return text.starts[line] + offset - trimmed.starts[line]

    # Trailing blanks of the code count as a line end only where a line of the text ends.
    must_end_line = len(code.trimmed_ends[-1]) < len(code.lines[-1])
    matches: list[Match] = []
    for offset in _offsets(trimmed.text, target, overlap):
        end = offset + len(target)
        if not must_end_line:
            matches.append(Match(original_offset(offset), original_offset(end)))
        elif end == len(trimmed.text) or trimmed.text[end] == "\n":
            matches.append(Match(original_offset(offset), _line_end(text.text, original_offset(end))))
    return matches


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    if end < 0:
        return len(text)
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def _match_ignoring_indentation(text: _Code, code: _Code, overlap: Overlap) -> list[Match]:
    non_blank = [index for index, line in enumerate(code.lines) if line.strip()]
    if not non_blank:
        return []
    wanted = range(non_blank[0], non_blank[-1] + 1)
    # Line feeds around each line make only whole lines match; two matches may share the line feed between them.
    trimmed = "\n" + "\n".join(line.lstrip() for line in text.trimmed_ends) + "\n"
    trimmed_code = "\n" + "\n".join(code.trimmed_ends[index].lstrip() for index in wanted) + "\n"
    matches: list[Match] = []
    line = counted_to = 0
    for offset in _offsets(trimmed, trimmed_code, overlap, shared=1):
        line, counted_to = line + trimmed.count("\n", counted_to, offset), offset
        last = line + len(wanted) - 1
        pairs = list(zip(range(line, last + 1), wanted, strict=True))
        if (shift := _line_shift(text, code, pairs)) is None:
            continue
        find_end = _past_line_end if code.text.endswith("\n") else _line_end
        end = find_end(text.text, text.starts[last])
        matches.append(msgspec.structs.replace(shift, start=text.starts[line], end=end))
    return matches


def _past_line_end(text: str, offset: int) -> int:
    return text.find("\n", offset) + 1 or len(text)


def _line_shift(text: _Code, code: _Code, pairs: Sequence[tuple[int, int]]) -> Match | None:
    """Return how the lines of the text are shifted against those of the code, or None if their literals differ.

    Each pair is the index of a line of the text and that of the equal line of the code.
    """
    is_literal = [line - 1 in text.literal_line_ends for line, _ in pairs]
    code_pairs = [pair for pair, literal in zip(pairs, is_literal, strict=True) if not literal]
    added, removed = _indentation_difference(
        [code.lines[wanted] for _, wanted in code_pairs], [text.lines[line] for line, _ in code_pairs]
    )
    shift = Match(0, 0, added, removed)
    literal_lines = [
        (text.trimmed_ends[line], code.trimmed_ends[wanted])
        for (line, wanted), literal in zip(pairs, is_literal, strict=True)
        if literal
    ]
    if all(actual == wanted for actual, wanted in literal_lines):
        return shift
    if all(actual == (_shift_line(wanted, shift) if wanted.strip() else wanted) for actual, wanted in literal_lines):
        return msgspec.structs.replace(shift, shifts_literals=True)
    return None


def _indentation_difference(target: list[str], found: list[str]) -> tuple[str, str]:
    """Return the indentation that all lines have in addition to the target's, or lack; empty if they differ."""
    added: set[str | None] = set()
    removed: set[str | None] = set()
    for wanted, actual in zip(target, found, strict=True):
        if wanted.strip():
            added.add(_extra_prefix(_indentation(actual), _indentation(wanted)))
            removed.add(_extra_prefix(_indentation(wanted), _indentation(actual)))
    return _only_value(added), _only_value(removed)


def _only_value(found: set[str | None]) -> str:
    return (found.pop() or "") if len(found) == 1 else ""


def _extra_prefix(longer: str, shorter: str) -> str | None:
    return longer.removesuffix(shorter) if longer.endswith(shorter) else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _match_tokens(text: _Code, code: _Code, overlap: Overlap) -> list[Match]:
    wanted, found = code.tokens, text.tokens
    matches: list[Match] = []
    next_start = comparisons = 0
    for index, token in enumerate(found if wanted else ()):
        if index < next_start or token.text != wanted[0].text:
            continue
        pairs, is_complete = _align_tokens(found, index, wanted)
        comparisons += len(pairs)
        if comparisons > _MAX_TOKEN_COMPARISONS:
            return []
        if is_complete:
            matches.append(_token_match(text, code, pairs))
            next_start = pairs[-1][0] + 1 if overlap == "apart" else 0
            if overlap == "overlapping" and len(matches) > MAX_MATCHES:
                break
    return matches


def _align_tokens(found: list[_Token], start: int, wanted: list[_Token]) -> tuple[list[tuple[int, int]], bool]:
    """Return the pairs of equal tokens, as indexes, and whether all that is wanted was found."""
    pairs: list[tuple[int, int]] = []
    index, position = start, 0
    while position < len(wanted):
        if index < len(found) and found[index].text == wanted[position].text:
            pairs.append((index, position))
            index, position = index + 1, position + 1
        elif _is_optional(wanted, position, found, index):
            position += 1
        elif _is_optional(found, index, wanted, position):
            index += 1
        else:
            return pairs, False
    return pairs, True


def _is_optional(tokens: list[_Token], index: int, others: list[_Token], other_index: int) -> bool:
    """Whether a token is a comma before a bracket or a semicolon at a line end, which the other code may lack."""
    text = tokens[index].text if index < len(tokens) else ""
    other = others[other_index] if other_index < len(others) else None
    if text == ";":
        return other is None or other.text == "}" or (other.is_first and bool(_STATEMENT_START.match(other.text)))
    next_text = tokens[index + 1].text if index + 1 < len(tokens) else None
    return text == "," and other is not None and other.text in _CLOSING_BRACKETS and next_text in (None, other.text)


def _token_match(text: _Code, code: _Code, pairs: Sequence[tuple[int, int]]) -> Match:
    (first, _), (last, _) = pairs[0], pairs[-1]
    start, end = text.tokens[first].start, text.tokens[last].end
    line_end = _line_end(text.text, end)
    rest = text.text[end:line_end].strip()
    tail = rest if rest in (",", ";") else ""
    if tail:
        end = text.text.index(tail, end) + 1
    if rest == tail and "\n" in code.text[code.tokens[-1].end :]:
        end = _past_line_end(text.text, end)
    line_start = text.starts[text.line_index(start)]
    indentation = text.text[line_start:start]
    if not indentation.strip():
        start = line_start
    line_pairs = [
        (text.line_index(text.tokens[index].start), code.line_index(code.tokens[position].start))
        for index, position in pairs[1:]
        if text.tokens[index].is_first and code.tokens[position].is_first
    ]
    added, removed = _indentation_difference(
        [code.lines[wanted] for _, wanted in line_pairs], [text.lines[line] for line, _ in line_pairs]
    )
    return Match(
        start,
        end,
        added,
        removed,
        first_indentation=indentation if start == line_start else "",
        tail=tail,
    )
