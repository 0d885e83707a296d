"""tool_results_used: what the tools found is in what was said or asked after it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from palaver.core import jsons
from palaver.core.messages import Message
from palaver.core.parts import Text, ToolCall, ToolResult
from palaver.evaluation.matching.marks import Marks
from palaver.evaluation.scoring.aside import aside
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score
from palaver.evaluation.values import paths

_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_VERDICT: Final = {
    "type": "object",
    "properties": {"used": {"type": "boolean"}},
    "required": ["used"],
}


class _Said(msgspec.Struct, frozen=True):
    """All that the assistant said and asked, folded."""

    text: str
    starts: Sequence[int]
    """Where in it each message begins."""
    numbers: Mapping[Decimal, int]
    """Where in it each number stands last."""


def _check(parameters: Any, reach: Reach) -> None:
    if parameters.judge is not None:
        reach.check_judge(parameters.judge, "/parameters/judge")


@evaluator(needs={"tools"}, check=_check)
async def tool_results_used(
    case: Case,
    reach: Reach,
    min_length: Annotated[int, Meta(ge=1, description="Shorter texts of a result do not count.")] = 3,
    judge: Annotated[str | None, Meta(description="A workflow or model, asked where no words are found again.")] = None,
) -> Score:
    """Each result that is no error has a text or number in a later answer or call; the score is the share.

    A judge, where one is named, is asked about those of which nothing is found again word for word.
    """
    results = [
        (result, place + 1)
        for place, message in enumerate(case.messages)
        for result in message.tool_results
        if not result.is_error
    ]
    used, said = await aside(reach, _used, case.messages, results, min_length)
    if judge is not None:
        for place, (result, after) in enumerate(results):
            used[place] = used[place] or await _judged(reach, judge, result, said.text[said.starts[after] :])
    names = {call.call_id: call.name for call in case.tool_calls}
    told = [
        {"call_id": result.call_id, "name": names.get(result.call_id, ""), "used": one}
        for (result, _), one in zip(results, used, strict=True)
    ]
    unused = [str(one["name"]) for one in told if not one["used"]]
    return Score(
        passed=not unused,
        score=sum(used) / len(used) if used else 1.0,
        reason=f"not used: the result of {', '.join(unused)}" if unused else "",
        details={"results": told},
    )


def _used(
    messages: Sequence[Message], results: Sequence[tuple[ToolResult, int]], min_length: int
) -> tuple[list[bool], _Said]:
    said = _said(messages)
    return [
        any(_is_said(leaf, said, said.starts[after], min_length) for leaf in _leaves(result.output))
        for result, after in results
    ], said


def _said(messages: Sequence[Message]) -> _Said:
    pieces: list[str] = []
    starts = [0]
    for message in messages:
        own = [text.casefold() for text in _texts(message)] if message.role == "assistant" else []
        pieces += own
        starts.append(starts[-1] + sum(len(text) + 1 for text in own))
    text = "".join(f"{piece}\n" for piece in pieces)
    numbers = {Decimal(found[0].replace(",", "")): found.start() for found in _NUMBER.finditer(text)}
    return _Said(text=text, starts=starts, numbers=numbers)


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, ToolCall):
            yield part.arguments
            yield from (leaf for leaf in _leaves(part.parsed) if isinstance(leaf, str))


def _is_said(leaf: Any, said: _Said, start: int, min_length: int) -> bool:
    if isinstance(leaf, str):
        wanted = leaf.strip().casefold()
        return len(wanted) >= min_length and said.text.find(wanted, start) >= 0
    if isinstance(leaf, bool) or not isinstance(leaf, int | float):
        return False
    try:
        return said.numbers.get(abs(Decimal(str(leaf))), -1) >= start
    except (InvalidOperation, ValueError):  # An integer of thousands of digits.
        return False


def _leaves(value: Any) -> Iterator[Any]:
    """What a result holds; JSON that came as text is looked into, too."""
    for _, leaf in paths.leaves(value):
        inner = jsons.parsed(leaf) if isinstance(leaf, str) and leaf.lstrip()[:1] in ("{", "[") else leaf
        if inner is leaf:
            yield leaf
        else:
            yield from (below for _, below in paths.leaves(inner))


async def _judged(reach: Reach, judge: str, result: ToolResult, afterwards: str) -> bool:
    marks = Marks()
    output = marks.around("result", jsons.encode(jsons.plain(result.output)).decode())
    prompt = (
        f"{marks.rule}\n\nA tool gave the result below. Does what was said and asked afterwards make use of it?\n\n"
        f"{output}\n\n{marks.around('afterwards', jsons.whole_text(afterwards))}"
    )
    verdict = await reach.judge(judge, prompt, schema=_VERDICT)
    return isinstance(verdict, dict) and verdict.get("used") is True  # pyright: ignore[reportUnknownMemberType]  # JSON
