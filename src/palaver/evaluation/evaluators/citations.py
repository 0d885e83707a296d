"""citations: what the answer cites is among its sources."""

import re
from typing import Annotated, Any

from msgspec import UNSET, Meta

from palaver.errors import InvalidValue
from palaver.evaluation.matching import citing
from palaver.evaluation.matching.citing import Citation, Source, Style
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score, Skip
from palaver.evaluation.values import paths


def _check(parameters: Any, _reach: Reach) -> None:
    if citing.marker_pattern(parameters.marker) is None:
        raise InvalidValue("In a marker n stands for the number, once: [n].", pointer="/parameters/marker")
    if parameters.sources is not None:
        try:
            paths.steps(parameters.sources)
        except ValueError as error:
            raise InvalidValue(f"{error}.", pointer="/parameters/sources") from None


@evaluator(needs={"chat"}, check=_check)
def citations(
    case: Case,
    *,
    sources: Annotated[
        str | None, Meta(description="Where in the inputs they are; without it, what tools gave.")
    ] = None,
    style: Annotated[Style, Meta(description="What counts as a citation.")] = "both",
    marker: Annotated[str, Meta(max_length=40, description="How a marker looks; n is the number.")] = "[n]",
    min: Annotated[int, Meta(ge=0, description="How many citations at least.")] = 1,
    supported: Annotated[bool, Meta(description="Must the source say so, nearly?")] = False,
) -> Score:
    """Each annotation or marker `[n]`, of at least `min`, is a source: of a path in the inputs, else of the tools.

    `supported` also wants that what is said stands in the source, nearly.
    """
    known = citing.sources_in(_given(case, sources))
    pattern = citing.marker_pattern(marker) or re.compile(r"\[(\d+)\]")
    cited = citing.citations_in(case.messages, style, pattern)
    meant = {one: citing.resolved(*one, known) for one in {(one.name, one.number) for one in cited}}
    told = [_told(one, meant[one.name, one.number], supported=supported) for one in cited]
    good = sum(one["resolved"] and one.get("supported", True) for one in told)
    bad = [one["citation"] for one in told if not (one["resolved"] and one.get("supported", True))]
    return Score(
        passed=not bad and len(cited) >= min,
        score=good / len(cited) if cited else 0.0,
        reason=f"no source for {', '.join(dict.fromkeys(bad))}"
        if bad
        else f"{len(cited)} citations; wanted {min} or more"
        if len(cited) < min
        else "",
        details={"sources": len(known), "citations": told},
    )


def _given(case: Case, sources: str | None) -> list[Any]:
    if sources is None:
        return [result.output for message in case.messages for result in message.tool_results if not result.is_error]
    found = case.inputs[sources] if sources in case.inputs else paths.at(case.inputs, sources)
    if found is UNSET:
        raise Skip("no_sources", f"the inputs have no {sources!r}")
    return [found]


def _told(citation: Citation, source: Source | None, *, supported: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"citation": citation.name, "resolved": source is not None}
    if source is not None:
        told["source"] = source.number
        if supported:
            told["supported"] = citing.supported(citation, source)
    return told
