"""The search results of a turn: those that the client sent, and new ones."""

from typing import Any

import pytest

from palaver_jobchat.docs.previous_results import MAX_RESULT_CHARACTERS, RagResults, select_results, valid_results
from palaver_jobchat.docs.search import SearchResult, SearchResults
from palaver_jobchat.payload import PreviousTopic

NOW = PreviousTopic(page="a", adaptor="@openfn/language-http", version="6.5.4")
THEIRS = [{"text": "one", "metadata": {"doc_title": "One"}, "score": 1}, {"text": "two"}]
SEARCHED = SearchResults("q", (SearchResult("two", "Two", score=1.0), SearchResult("three", "Three", score=0.5)))


def texts(rag: RagResults) -> list[str]:
    return [one.text for one in rag.results]


@pytest.mark.parametrize("incoming", [[], [None, 5, "x", {}, {"text": 3}, {"text": " "}, {"text": "x" * 4001}]])
def test_without_usable_results_the_turns_own_search_counts(incoming: list[Any]) -> None:
    assert texts(select_results(incoming, SEARCHED, topic=NOW, previous_topic=NOW)) == ["two", "three"]


@pytest.mark.parametrize("earlier", [NOW, None])
def test_results_stay_in_their_order_and_new_ones_follow(earlier: PreviousTopic | None) -> None:
    rag = select_results(THEIRS, SEARCHED, topic=NOW, previous_topic=earlier)

    assert texts(rag) == ["one", "two", "three"]
    assert rag.queries == ("q",)


@pytest.mark.parametrize(
    ("earlier", "refresh"),
    [
        (NOW, True),
        (None, True),
        (PreviousTopic(page="b", adaptor=NOW.adaptor, version=NOW.version), False),
        (PreviousTopic(page="a", adaptor="@openfn/language-dhis2", version=NOW.version), False),
        (PreviousTopic(page="a", adaptor=NOW.adaptor, version="6.0.0"), False),
    ],
)
def test_results_for_something_else_are_dropped(earlier: PreviousTopic | None, refresh: bool) -> None:
    assert texts(select_results(THEIRS, SEARCHED, topic=NOW, previous_topic=earlier, refresh=refresh)) == [
        "two",
        "three",
    ]


def test_without_an_index_theirs_are_used_even_if_new_ones_were_wanted() -> None:
    assert select_results(THEIRS, None, topic=NOW, refresh=True) == RagResults(
        (SearchResult("one", "One", score=1), SearchResult("two"))
    )
    assert select_results([], None, topic=NOW) == RagResults()


def test_at_most_ten_and_the_budget() -> None:
    nine = [{"text": f"{number:02}"} for number in range(9)]

    assert texts(select_results(nine, SEARCHED, topic=NOW)) == [f"{number:02}" for number in range(9)] + ["two"]
    assert texts(select_results(nine, SEARCHED, topic=NOW, budget=5)) == ["00", "01"]


def test_of_a_strangers_result_only_what_we_know_is_kept() -> None:
    strange = {
        "text": None,
        "content": "x" * MAX_RESULT_CHARACTERS,
        "title": "Title",
        "metadata": {"section": 5, "path": "p.md", "evil": 1},
        "score": True,
        "more": [],
    }

    assert valid_results([strange, {"text": "y", "metadata": [], "score": 0.5}]) == [
        SearchResult("x" * MAX_RESULT_CHARACTERS, "Title", "", "p.md"),
        SearchResult("y", score=0.5),
    ]


def test_the_answer_has_exactly_three_keys() -> None:
    rag = RagResults(
        (SearchResult("a", "T", "S", "p.md", 1.0), SearchResult("b", "T"), SearchResult("c"), SearchResult("d", "U")),
        ("q",),
    )

    meta = rag.meta()

    assert meta["search_results"][0] == {
        "text": "a",
        "metadata": {"doc_title": "T", "docs_type": "general_docs", "section": "S", "path": "p.md"},
        "score": 1.0,
    }
    assert meta["search_results_sections"] == ["T", "U"]
    assert meta["search_queries"] == [{"query": "q"}]
    assert list(meta) == ["search_results", "search_results_sections", "search_queries"]
    assert RagResults().meta() == {"search_results": [], "search_results_sections": [], "search_queries": []}


def test_what_we_answer_can_be_sent_back() -> None:
    rag = select_results([], SEARCHED, topic=NOW)

    assert (
        select_results(rag.meta()["search_results"], SearchResults(), topic=NOW, previous_topic=NOW).results
        == rag.results
    )
