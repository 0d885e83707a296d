"""The search results of a turn: results that the client sent, and new ones."""

from typing import Any

import pytest

from palaver_jobchat.docs.previous_results import MAX_RESULT_CHARACTERS, RagResults, select_results, valid_results
from palaver_jobchat.docs.search import SearchResult, SearchResults
from palaver_jobchat.payload import PreviousTopic

TOPIC = PreviousTopic(page="a", adaptor="@openfn/language-http", version="6.5.4")
CLIENT_RESULTS = [{"text": "one", "metadata": {"doc_title": "One"}, "score": 1}, {"text": "two"}]
NEW_RESULTS = SearchResults("q", (SearchResult("two", "Two", score=1.0), SearchResult("three", "Three", score=0.5)))


def texts(rag: RagResults) -> list[str]:
    return [one.text for one in rag.results]


@pytest.mark.parametrize("incoming", [[], [None, 5, "x", {}, {"text": 3}, {"text": " "}, {"text": "x" * 4001}]])
def test_new_search_results_are_used_without_valid_earlier_ones(incoming: list[Any]) -> None:
    assert texts(select_results(incoming, NEW_RESULTS, topic=TOPIC, previous_topic=TOPIC)) == ["two", "three"]


@pytest.mark.parametrize("earlier", [TOPIC, None])
def test_earlier_results_keep_their_order_and_new_ones_follow(earlier: PreviousTopic | None) -> None:
    rag = select_results(CLIENT_RESULTS, NEW_RESULTS, topic=TOPIC, previous_topic=earlier)

    assert texts(rag) == ["one", "two", "three"]
    assert rag.queries == ("q",)


@pytest.mark.parametrize(
    ("earlier", "refresh"),
    [
        (TOPIC, True),
        (None, True),
        (PreviousTopic(page="b", adaptor=TOPIC.adaptor, version=TOPIC.version), False),
        (PreviousTopic(page="a", adaptor="@openfn/language-dhis2", version=TOPIC.version), False),
        (PreviousTopic(page="a", adaptor=TOPIC.adaptor, version="6.0.0"), False),
    ],
)
def test_earlier_results_are_dropped_on_refresh_or_another_topic(earlier: PreviousTopic | None, refresh: bool) -> None:
    assert texts(select_results(CLIENT_RESULTS, NEW_RESULTS, topic=TOPIC, previous_topic=earlier, refresh=refresh)) == [
        "two",
        "three",
    ]


def test_earlier_results_are_used_without_an_index_even_on_refresh() -> None:
    assert select_results(CLIENT_RESULTS, None, topic=TOPIC, refresh=True) == RagResults(
        (SearchResult("one", "One", score=1), SearchResult("two"))
    )
    assert select_results([], None, topic=TOPIC) == RagResults()


def test_results_are_limited_to_ten_and_to_the_budget() -> None:
    nine = [{"text": f"{number:02}"} for number in range(9)]

    assert texts(select_results(nine, NEW_RESULTS, topic=TOPIC)) == [f"{number:02}" for number in range(9)] + ["two"]
    assert texts(select_results(nine, NEW_RESULTS, topic=TOPIC, budget=5)) == ["00", "01"]


def test_only_known_fields_of_a_result_are_used() -> None:
    untrusted = {
        "text": None,
        "content": "x" * MAX_RESULT_CHARACTERS,
        "title": "Title",
        "metadata": {"section": 5, "path": "p.md", "evil": 1},
        "score": True,
        "more": [],
    }

    assert valid_results([untrusted, {"text": "y", "metadata": [], "score": 0.5}]) == [
        SearchResult("x" * MAX_RESULT_CHARACTERS, "Title", "", "p.md"),
        SearchResult("y", score=0.5),
    ]


def test_rag_metadata_has_exactly_three_keys() -> None:
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


def test_results_in_the_response_can_be_sent_back() -> None:
    rag = select_results([], NEW_RESULTS, topic=TOPIC)

    assert (
        select_results(rag.meta()["search_results"], SearchResults(), topic=TOPIC, previous_topic=TOPIC).results
        == rag.results
    )
