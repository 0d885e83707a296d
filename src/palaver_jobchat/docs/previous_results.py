"""Search results that a client sends back with the next turn, and whether they still apply (`meta.rag`)."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from palaver_jobchat.docs.search import RESULTS_BUDGET_CHARACTERS, SearchResult, SearchResults, fit_budget
from palaver_jobchat.payload import PreviousTopic

MAX_RAG_RESULTS = 10
MAX_RESULT_CHARACTERS = 4_000
"""Limit of one result that a client sent."""


class RagResults(msgspec.Struct, frozen=True):
    results: tuple[SearchResult, ...] = ()
    queries: tuple[str, ...] = ()

    def meta(self) -> dict[str, Any]:
        """Return the value of `meta.rag` in the answer."""
        return {
            "search_results": [result.to_dict() for result in self.results],
            "search_results_sections": list(dict.fromkeys(result.title for result in self.results if result.title)),
            "search_queries": [{"query": query} for query in self.queries],
        }


def valid_results(results: Sequence[object]) -> list[SearchResult]:
    """Return the well-formed results of a client, without unknown fields."""
    return [valid for result in results if (valid := _valid_result(result)) is not None]


def select_results(
    incoming: Sequence[object],
    found: SearchResults | None,
    *,
    topic: PreviousTopic,
    previous_topic: PreviousTopic | None = None,
    refresh: bool = False,
    budget: int = RESULTS_BUDGET_CHARACTERS,
) -> RagResults:
    """Merge the results that the client sent back with new ones. `found` is None if the search failed.

    The client's results are dropped if they belong to another topic. Otherwise they come first, in their order, to keep
    the prompt's cached prefix.
    """
    earlier = valid_results(incoming)
    if found is None:
        return RagResults(tuple(fit_budget(earlier[:MAX_RAG_RESULTS], budget)))
    if refresh or (previous_topic is not None and previous_topic != topic):
        earlier = []
    known = {result.text for result in earlier}
    merged = [*earlier, *(result for result in found.results if result.text not in known)]
    return RagResults(tuple(fit_budget(merged[:MAX_RAG_RESULTS], budget)), (found.query,) if found.query else ())


def _valid_result(result: object) -> SearchResult | None:
    if not isinstance(result, dict):
        return None
    item = cast("dict[str, Any]", result)
    text = item.get("content") if item.get("text") is None else item["text"]
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_RESULT_CHARACTERS:
        return None
    item_metadata = item.get("metadata")
    metadata = cast("dict[str, Any]", item_metadata) if isinstance(item_metadata, dict) else {}
    score = item.get("score")
    return SearchResult(
        text=text,
        title=_short_text(metadata.get("doc_title")) or _short_text(item.get("title")),
        section=_short_text(metadata.get("section")),
        path=_short_text(metadata.get("path")),
        score=score if isinstance(score, int | float) and not isinstance(score, bool) else None,
    )


def _short_text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
