"""Tokens and BM25 scores."""

from palaver_jobchat.bm25 import bm25_scores, content_terms, tokenize


def test_an_identifier_is_one_word() -> None:
    assert tokenize("Use lend_book(x$1), dataValue & _y: 2 Bücher!") == [
        "use",
        "lend_book",
        "x$1",
        "datavalue",
        "y",
        "2",
        "bücher",
    ]


def test_content_terms_say_what_a_question_is_about() -> None:
    question = "How do I use each with the HTTP adaptor, and why each?"

    assert content_terms(question, without=["http"]) == ["each", "adaptor"]
    assert content_terms("how do I do it?") == []


def test_a_rare_word_in_a_short_text_counts_most() -> None:
    marks = bm25_scores(["owl", "bird", "owl"], ["bird owl", "bird " * 20 + "owl", "bird bird", "stone", ""])

    assert sorted(range(5), key=lambda index: -marks[index])[:3] == [0, 1, 2]
    assert marks[3:] == [0.0, 0.0]
    assert bm25_scores(["owl"], []) == []
    assert bm25_scores(["owl"], ["", ""]) == [0.0, 0.0]
