"""The rule that an edit leaves alone what it was not asked to change.

It needs to be told how the job was before, and where it was to be changed.
"""

import re

from palaver_jobchat.rules import Finding

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

ID = "outside_untouched"


def outside_untouched(code: str, *, old: str, span: tuple[int, int]) -> tuple[Finding, ...]:
    """Whether only the lines from the first to the last of `span`, counted in the old code from 1, are others now.

    They may have become more or fewer; a span one less at its end than at its beginning is a place between two lines.
    """
    first, last = span
    lines = _LINE.findall(old)
    before, after = "".join(lines[: max(first - 1, 0)]), "".join(lines[max(last, 0) :])
    if not code.startswith(before):
        same = _same_lines(code, before)
        return (Finding(ID, "error", same + 1, "This was changed, though it stands before what was to change."),)
    if not code[len(before) :].endswith(after):
        from_end = _same_lines(code[::-1], after[::-1])
        line = max(code.count("\n") + 1 - from_end, 1)
        return (Finding(ID, "error", line, "This was changed, though it stands after what was to change."),)
    return ()


def _same_lines(code: str, other: str) -> int:
    """How many lines are the same from the beginning on."""
    same = 0
    for one, two in zip(code, other, strict=False):
        if one != two:
            break
        same += 1
    return code.count("\n", 0, same)
