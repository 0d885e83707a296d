"""The pages that come with Job Chat: questions find the expected page."""

from pathlib import Path

import pytest

from palaver_jobchat.docs.embeddings import Embedding
from palaver_jobchat.docs.index import SAMPLE_PAGES, sample_index
from palaver_jobchat.docs.search import build_query, search_index
from tests.jobchat.docs.questions import QUESTIONS


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_index(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize(
    ("question", "adaptor", "page"),
    [
        ("Why is state undefined between my operations at the top level?", None, "operations-and-state"),
        ("Why can't I assign to the lazy state operator?", None, "lazy-state"),
        ("How do I loop over a list of items and send each one?", None, "fn-and-each"),
        ("Should I return a promise from a callback?", None, "callbacks-and-promises"),
        ("How can I fetch only new records since the last run?", None, "cursors"),
        ("One bad record fails the whole batch. How do I go on with the rest?", "salesforce", "errors"),
        ("Where do I put the password and the api token?", "http", "credentials"),
        ("How do I print a value to the run log?", None, "logging"),
        ("remove duplicates from an array by id", None, "arrays-and-jsonpath"),
        ("How do I send a POST request with headers and a body?", "http", "http-requests"),
        ("Which format has a period in a data value set?", "dhis2", "dhis2-basics"),
        ("Remove large keys from the final state before the step ends", None, "cleaning-final-state"),
        ("retry when the server answers 429 too many requests", "http", "retry-and-idempotence"),
        ("Cannot read properties of undefined (reading 'name')", "dhis2", "debugging-from-logs"),
    ],
)
def test_a_question_finds_its_page(file: Path, question: str, adaptor: str | None, page: str) -> None:
    assert search_index(file, build_query(question, adaptor=adaptor)).results[0].path == f"{page}.md"


def test_plain_questions_find_their_page_first_on_average(file: Path) -> None:
    ranks: dict[str, float] = {}
    for question, page in QUESTIONS:
        paths = list(dict.fromkeys(result.path for result in search_index(file, build_query(question)).results))
        ranks[question] = 1 / (paths.index(f"{page}.md") + 1) if f"{page}.md" in paths else 0.0

    assert len(ranks) == 60
    assert {page for _, page in QUESTIONS} == {page.stem for page in SAMPLE_PAGES.glob("*.md")}
    assert sum(ranks.values()) / len(ranks) >= 0.8, {question: rank for question, rank in ranks.items() if rank < 1}
    assert {ranks[question] for question in ("how do I log something?", "how do I loop over an array?")} == {1.0}
    assert ranks["my job ran out of memory"] == 1.0


@pytest.mark.parametrize("question", ["What is the capital of France?", "a recipe for apple cake", "thank you!"])
def test_unrelated_question_finds_nothing(file: Path, question: str) -> None:
    assert search_index(file, build_query(question)).results == ()


def test_each_page_is_short_and_has_a_title() -> None:
    pages = sorted(SAMPLE_PAGES.glob("*.md"))

    assert len(pages) == 14
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith("# ")
        assert 600 <= len(text) <= 2500, page.name


def test_sample_index_is_built_once_and_rebuilt_if_broken(tmp_path: Path) -> None:
    file = sample_index(tmp_path / "deep" / "cache")
    first_stat = file.stat()

    assert sample_index(tmp_path / "deep" / "cache").stat().st_mtime_ns == first_stat.st_mtime_ns
    file.write_bytes(b"what a cache becomes")
    assert sample_index(tmp_path / "deep" / "cache") == file
    assert search_index(file, build_query("cursor since the last run")).results
    file.write_bytes(b"")
    assert search_index(sample_index(tmp_path / "deep" / "cache"), build_query("cursor since the last run")).results


def test_model_configured_later_adds_vectors_to_the_index(tmp_path: Path) -> None:
    batch_sizes: list[int] = []

    def embed(texts: list[str]) -> list[list[float]]:
        batch_sizes.append(len(texts))
        return [[1.0, 2.0]] * len(texts)

    file = sample_index(tmp_path)
    assert sample_index(tmp_path, embeddings=Embedding("mine", embed)) == file
    assert batch_sizes[0] == 1
    assert batch_sizes[1] > 14
    assert sample_index(tmp_path, embeddings=Embedding("mine", embed)) == file
    assert batch_sizes[2:] == [1]
