"""`meta.rag`: which search results a turn uses, those that the client brought back or those just found.

Results that stay, in their order, keep the prompt's cached beginning; so they are dropped only for a reason.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from palaver_jobchat.docs.search import MAX_CHARACTERS, SearchResult, SearchResults, fit_budget
from palaver_jobchat.payload import PreviousTopic

MAX_RESULTS = 10
MAX_RESULT_CHARACTERS = 4_000
"""Characters of one result from a client: it is a stranger's text."""


class RagResults(msgspec.Struct, frozen=True):
    """The results that a turn uses, and what was searched for in it."""

    results: tuple[SearchResult, ...] = ()
    queries: tuple[str, ...] = ()

    def meta(self) -> dict[str, Any]:
        """As the answer's `meta.rag` has it."""
        return {
            "search_results": [one.result() for one in self.results],
            "search_results_sections": list(dict.fromkeys(one.title for one in self.results if one.title)),
            "search_queries": [{"query": query} for query in self.queries],
        }


def valid_results(results: Sequence[object]) -> list[SearchResult]:
    """Those of a client's results that have the shape of one; what else they hold is dropped."""
    return [found for result in results if (found := _read(result)) is not None]


def select_results(
    incoming: Sequence[object],
    searched: SearchResults | None,
    *,
    now: PreviousTopic,
    earlier: PreviousTopic | None = None,
    refresh: bool = False,
    budget: int = MAX_CHARACTERS,
) -> RagResults:
    """The results for this turn. `searched` is none where there is no index, or searching it failed.

    `now` is what this turn is about, `earlier` what the incoming results were found for; if it is another page or
    another adaptor, they are no longer to the point.
    """
    theirs = valid_results(incoming)
    if searched is None:
        return RagResults(tuple(fit_budget(theirs[:MAX_RESULTS], budget)))
    if refresh or (earlier is not None and earlier != now):
        theirs = []
    known = {one.text for one in theirs}
    found = [*theirs, *(one for one in searched.results if one.text not in known)]
    return RagResults(tuple(fit_budget(found[:MAX_RESULTS], budget)), (searched.query,) if searched.query else ())


def _read(result: object) -> SearchResult | None:
    if not isinstance(result, dict):
        return None
    item = cast("dict[str, Any]", result)
    text = item.get("content") if item.get("text") is None else item["text"]
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_RESULT_CHARACTERS:
        return None
    given = item.get("metadata")
    metadata = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    score = item.get("score")
    return SearchResult(
        text=text,
        title=_text(metadata.get("doc_title")) or _text(item.get("title")),
        section=_text(metadata.get("section")),
        path=_text(metadata.get("path")),
        score=score if isinstance(score, int | float) and not isinstance(score, bool) else None,
    )


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
