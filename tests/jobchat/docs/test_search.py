"""Index a folder and search it."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palaver import PalaverError
from palaver_jobchat.docs.index import IndexReport, build_index
from palaver_jobchat.docs.search import Query, SearchResult, SearchResults, build_query, fit_budget, search_index

LENDING = "# Lending\n\nTo lend a book, call `lend_book` with its title. Loans end after fourteen days.\n"
SHELVES = "# Shelves\n\nBooks are sorted on shelves by their titles. A shelf has forty places.\n"
PAPER = "# Paper\n\nPaper comes from wood and rags.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "more").mkdir(parents=True)
    (tmp_path / "docs" / ".git").mkdir()
    (tmp_path / "docs" / "lending.md").write_text(LENDING)
    (tmp_path / "docs" / "more" / "shelves.md").write_text(SHELVES)
    (tmp_path / "docs" / "paper.md").write_text(PAPER)
    (tmp_path / "docs" / "notes.txt").write_text("lend_book")
    (tmp_path / "docs" / ".git" / "x.md").write_text("lend_book")
    return tmp_path / "docs"


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder.parent / "docs.sqlite"
    build_index(folder, path)
    return path


def titles(file: Path, question: str, *, adaptor: str | None = None, budget: int = 12_000) -> list[str]:
    return [one.title for one in search_index(file, build_query(question, adaptor=adaptor), budget=budget).results]


def test_reindexing_updates_only_changed_files(folder: Path, file: Path) -> None:
    (folder / "paper.md").unlink()
    (folder / "lending.md").write_text("# Lending\n\nNobody may borrow parchment here.\n")
    (folder / "new.md").write_text("# New\n\nSomething else.\n")

    assert build_index(folder, file) == IndexReport(added=1, changed=1, removed=1, unchanged=1, chunks=3)
    assert build_index(folder, file) == IndexReport(unchanged=3, chunks=3)
    assert titles(file, "wood and rags for paper") == []
    assert titles(file, "how long is a loan of a book in days?") == []
    assert titles(file, "who may borrow parchment?") == ["Lending"]


def test_result_has_text_title_section_and_path(file: Path) -> None:
    results = search_index(file, build_query("How do loans of a book end?"))

    assert results == SearchResults(
        "How do loans of a book end?", (SearchResult(LENDING.strip(), "Lending", "", "lending.md", 0.4486),)
    )
    assert results.results[0].to_dict() == {
        "text": LENDING.strip(),
        "metadata": {"doc_title": "Lending", "docs_type": "general_docs", "section": "", "path": "lending.md"},
        "score": 0.4486,
    }


def test_words_match_by_synonym_with_a_lower_score(tmp_path: Path) -> None:
    (tmp_path / "list.md").write_text("# Lists\n\nLists are long.\n")
    file = tmp_path / "index.sqlite"
    build_index(tmp_path, file)

    (exact,) = search_index(file, build_query("a list")).results
    (synonym,) = search_index(file, build_query("arrays")).results

    assert (exact.path, synonym.path) == ("list.md", "list.md")
    assert 0 < (synonym.score or 0) < (exact.score or 0)


def test_words_match_by_stem_and_identifiers_only_exactly(file: Path) -> None:
    assert titles(file, "sorting shelf") == ["Shelves"]
    assert titles(file, "lend_book") == ["Lending"]
    assert titles(file, "lend_boo") == []


def test_result_must_contain_two_terms_or_all_if_there_are_fewer(file: Path) -> None:
    assert titles(file, "paper planes for children") == []
    assert titles(file, "what is paper?") == ["Paper"]


@pytest.mark.parametrize("question", ["", "how do I use it?", "OpenFn job!", "the salesforce job", "?!"])
def test_question_without_content_terms_returns_no_results(file: Path, question: str) -> None:
    assert search_index(file, build_query(question, adaptor="salesforce")) == SearchResults()


def test_adaptor_name_is_part_of_the_query_but_does_not_match_alone(file: Path) -> None:
    assert build_query("sort books", adaptor="paper") == Query("sort books paper", ("sort", "books"), "paper")
    assert titles(file, "sort books", adaptor="paper") == ["Shelves"]


def test_previous_question_only_decides_between_equal_scores() -> None:
    before = "How are books sorted?"

    assert build_query(" and why? ", previous_question=before) == Query(
        "and why? How are books sorted?", ("books", "sorted")
    )
    assert (
        build_query("and why?", adaptor="http", previous_question=before).text == "and why? http How are books sorted?"
    )
    assert build_query("which shelf?", previous_question=before) == Query(
        "which shelf?", ("shelf",), None, ("books", "sorted")
    )


def test_of_two_equal_pages_the_one_about_the_previous_question_is_first(tmp_path: Path) -> None:
    for name in ("owls", "mice", "cats"):
        (tmp_path / f"{name}.md").write_text(f"# Food\n\nThe food of {name}.\n")
    file = tmp_path / "index.sqlite"
    build_index(tmp_path, file)

    def paths(question: str, before: str) -> list[str]:
        return [one.path for one in search_index(file, build_query(question, previous_question=before)).results]

    assert paths("which food?", "Tell me about mice.")[0] == "mice.md"
    assert paths("which food?", "Tell me about owls.")[0] == "owls.md"
    assert paths("food of cats", "Tell me about owls.")[0] == "cats.md"


def test_scores_are_comparable_between_questions(file: Path) -> None:
    def best(question: str) -> float:
        return search_index(file, build_query(question)).results[0].score or 0.0

    assert best("paper") > best("paper of wood and stone") > best("paper of wood, stone, iron, glass and gold")


def test_results_fit_the_budget(file: Path) -> None:
    assert len(titles(file, "book titles")) == 2
    assert len(titles(file, "book titles", budget=100)) == 1
    assert fit_budget([SearchResult("aa"), SearchResult("bbb"), SearchResult("c")], 4) == [SearchResult("aa")]


@pytest.mark.parametrize("number", [9, 2])
def test_at_most_five_results_are_returned_and_none_far_below_the_best(tmp_path: Path, number: int) -> None:
    for index in range(number):
        (tmp_path / f"{index}.md").write_text("Owls hunt mice at night. Mice hear owls. " * 5)
    (tmp_path / "far.md").write_text("owls " + "something else " * 80 + "mice")
    for index in range(30):
        (tmp_path / f"other{index}.md").write_text("Nothing of the kind.")
    file = tmp_path / "index.sqlite"
    build_index(tmp_path, file)

    results = search_index(file, build_query("owls and mice")).results

    assert len(results) == min(number, 5)
    assert len({one.score for one in results}) == 1


@pytest.mark.parametrize(
    "question", ['"a" AND', "NEAR(x y)", "title:paper*", "a OR b -c ^d", "it's 100% {x}", "é日本 \x00"]
)
def test_search_operators_in_a_question_are_treated_as_text(file: Path, question: str) -> None:
    assert search_index(file, build_query(f"{question} zebra")).results == ()


@given(st.text(max_size=200), st.none() | st.text(max_size=60), st.none() | st.sampled_from(["http", "paper", "x-y"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_can_be_searched(file: Path, question: str, before: str | None, adaptor: str | None) -> None:
    results = search_index(file, build_query(question, previous_question=before, adaptor=adaptor)).results

    assert len(results) <= 5
    assert [one.score for one in results] == sorted((one.score or 0 for one in results), reverse=True)
    assert all(one.score is not None and 0 < one.score <= 1 for one in results)


def test_a_long_question_is_ranked_by_its_rarest_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(20):
        (tmp_path / f"{index}.md").write_text(f"Common words stand here, often ones too{' often' * (index % 2)}.")
    (tmp_path / "owl.md").write_text("Common words about an owl, seldom seen.")
    file = tmp_path / "index.sqlite"
    build_index(tmp_path, file)

    assert titles(file, "common words about the owl seldom seen") == ["owl"]
    assert len(titles(file, "common words")) == 5
    monkeypatch.setattr("palaver_jobchat.docs.search._MAX_SCORED_ROWS", 1)
    assert titles(file, "common words about the owl seldom seen") == ["owl"]


def test_searching_a_missing_index_raises_and_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error):
        search_index(tmp_path / "gone.sqlite", build_query("paper"))
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_or_foreign_output_file_is_rejected(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is no database at all.")
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE files (mine)")
    other.close()

    with pytest.raises(PalaverError, match="Folder not found"):
        build_index(tmp_path / "gone", tmp_path / "x")
    with pytest.raises(PalaverError, match="Delete it or choose another file"):
        build_index(folder, tmp_path / "text")
    with pytest.raises(PalaverError, match="it is not a Job Chat index"):
        build_index(folder, tmp_path / "other")


def test_index_of_another_schema_version_is_rebuilt(folder: Path, file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()

    assert build_index(folder, file) == IndexReport(added=3, chunks=3)
