"""Tokens and BM25 scores."""

from palaver_jobchat.bm25 import bm25_scores, content_terms, tokenize


def test_tokenize_keeps_an_identifier_as_one_token() -> None:
    assert tokenize("Use lend_book(x$1), dataValue & _y: 2 Bücher!") == [
        "use",
        "lend_book",
        "x$1",
        "datavalue",
        "y",
        "2",
        "bücher",
    ]


def test_content_terms_leave_out_stop_words_repeats_and_excluded_terms() -> None:
    question = "How do I use each with the HTTP adaptor, and why each?"

    assert content_terms(question, without=["http"]) == ["each", "adaptor"]
    assert content_terms("how do I do it?") == []
    assert content_terms("what is then? .then() and get('/a')") == ["then", "get"]
    assert content_terms("what does $ do, or $.data?") == ["$", "data"]


def test_bm25_ranks_rare_terms_in_short_texts_highest() -> None:
    scores = bm25_scores(["owl", "bird", "owl"], ["bird owl", "bird " * 20 + "owl", "bird bird", "stone", ""])

    assert sorted(range(5), key=lambda index: -scores[index])[:3] == [0, 1, 2]
    assert scores[3:] == [0.0, 0.0]
    assert bm25_scores(["owl"], []) == []
    assert bm25_scores(["owl"], ["", ""]) == [0.0, 0.0]
