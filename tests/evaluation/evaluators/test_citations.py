"""citations: the sources cited by the answer are among those provided."""

from typing import Any

import pytest

from palaver.core.messages import Annotation, Message, Text
from palaver.evaluation.case import Case
from tests.evaluation.evaluators.fake_judge import bind_error, call, chat, score_record, score_summary

SEARCH_RESULT = {
    "hits": [{"url": "https://a.org/one", "text": "Oslo is the capital of Norway."}, {"url": "https://a.org/two"}]
}


def case_with_sources(text: str | Text, output: Any = SEARCH_RESULT, **more: Any) -> Case:
    return chat(Message.assistant(call("search")), Message.tool("c", output), Message.assistant(text), **more)


def annotated_text(*urls: str) -> Text:
    return Text(text="As they say.", annotations=tuple(Annotation(kind="url", url=url) for url in urls))


@pytest.mark.parametrize(
    ("text", "parameters", "expected"),
    [
        ("Oslo [1].", {}, (True, 1, "")),
        ("Oslo [1][2].", {"min": 2}, (True, 1, "")),
        ("Oslo [1, 2].", {"min": 2}, (True, 1, "")),
        ("Oslo [3].", {}, (False, 0, "no source for [3]")),
        ("Oslo [1], Bergen [0].", {}, (False, 0.5, "no source for [0]")),
        ("Oslo.", {}, (False, 0, "citations: 0, expected at least 1")),
        ("Oslo.", {"min": 0}, (True, 0, "")),
        ("Oslo [1].", {"min": 2}, (False, 1, "citations: 1, expected at least 2")),
        ("Oslo (1).", {"marker": "(n)"}, (True, 1, "")),
        ("Oslo [^2].", {"marker": "[^n]"}, (True, 1, "")),
        ("Oslo 【1】.", {"marker": "【n】"}, (True, 1, "")),
        ("Oslo [source 2].", {"marker": "[source n]"}, (True, 1, "")),
        ("Write `rows[9]` or\n```js\nrows[8]\n```\nas said [1].", {}, (True, 1, "")),
        ("See [here](https://a.org) and [x].", {}, (False, 0, "citations: 0, expected at least 1")),
        ("Oslo [9].", {"style": "annotations"}, (False, 0, "citations: 0, expected at least 1")),
    ],
)
async def test_markers_refer_to_sources_by_number(text: str, parameters: dict[str, Any], expected: Any) -> None:
    assert await score_summary("citations", case_with_sources(text), parameters) == expected


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        (["https://a.org/one"], (True, 1, "")),
        (["https://a.org/one/", "https://a.org/two#part"], (True, 1, "")),
        (["https://a.org/three"], (False, 0, "no source for https://a.org/three")),
        (["https://a.org/on"], (False, 0, "no source for https://a.org/on")),
        (["https://a.org/one", "https://b.org"], (False, 0.5, "no source for https://b.org")),
    ],
)
async def test_annotations_refer_to_sources_by_url(urls: list[str], expected: Any) -> None:
    assert await score_summary("citations", case_with_sources(annotated_text(*urls))) == expected


async def test_annotations_refer_to_files_by_id() -> None:
    text = Text(text="So it says.", annotations=(Annotation(kind="file", file_id="file_1"),))

    assert (await score_record("citations", case_with_sources(text, {"file_id": "file_1", "text": "…"}))).passed
    assert not (await score_record("citations", case_with_sources(text, {"file_id": "file_12"}))).passed


async def test_annotations_and_markers_count_together_or_separately() -> None:
    text = Text(text="So [7].", annotations=(Annotation(kind="url", url="https://a.org/two"),))

    assert await score_summary("citations", case_with_sources(text)) == (False, 0.5, "no source for [7]")
    assert await score_summary("citations", case_with_sources(text), {"style": "annotations"}) == (True, 1, "")
    assert await score_summary("citations", case_with_sources(text), {"style": "markers"}) == (
        False,
        0,
        "no source for [7]",
    )


@pytest.mark.parametrize(
    ("output", "text", "passed"),
    [
        ([{"id": 7}, {"id": 9}], "See [9].", True),
        ('[{"url": "https://a.org"}]', "See [1].", True),
        ("Found at https://a.org/one.", "See [1].", True),
        ("Found.", "See [2].", False),
        (None, "See [1].", False),
        ([], "See [1].", False),
    ],
)
async def test_tool_results_of_any_shape_are_sources(output: Any, text: str, passed: bool) -> None:
    assert (await score_record("citations", case_with_sources(text, output))).passed is passed


async def test_a_url_in_a_text_result_is_matched_completely() -> None:
    result = "Found at https://a.org/one."

    assert (await score_record("citations", case_with_sources(annotated_text("https://a.org/one"), result))).passed
    assert not (await score_record("citations", case_with_sources(annotated_text("https://a.org/o"), result))).passed


async def test_sources_may_come_from_inputs() -> None:
    case = chat(Message.assistant("As they say [2]."), inputs={"context": {"docs": ["one", "two"]}, "a.b": ["x"]})

    assert (await score_record("citations", case, {"sources": "context.docs"})).passed
    assert await score_summary("citations", case, {"sources": "a.b"}) == (False, 0, "no source for [2]")
    assert await score_summary("citations", case, {"sources": "gone"}) == (
        None,
        None,
        "no_sources: the inputs have no value at 'gone'",
    )


async def test_failed_tool_results_are_not_sources() -> None:
    case = chat(
        Message.assistant(call("search")), Message.tool("c", "it broke", is_error=True), Message.assistant("So [1].")
    )

    assert await score_summary("citations", case) == (False, 0, "no source for [1]")


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("Let me see. Oslo is the capital of Norway [1]. More?", True),
        ("Oslo is the capital of Norway. [1]", True),
        ("Bananas grow well on the moon in June [1].", False),
        ("Oslo is the capital of Norway. Bananas grow well on the moon in June [1].", False),
    ],
)
async def test_supported_requires_the_cited_sentence_to_be_in_the_source(text: str, passed: bool) -> None:
    scored = await score_record("citations", case_with_sources(text), {"supported": True})

    assert scored.passed is passed
    assert scored.details == {
        "sources": 2,
        "citations": [{"citation": "[1]", "resolved": True, "source": 1, "supported": passed}],
    }


async def test_an_annotation_is_about_the_sentence_that_it_marks() -> None:
    text = "Bananas grow well on the moon. Oslo is the capital of Norway."
    good = Annotation(kind="url", url="https://a.org/one", start=31, end=40)
    bad = Annotation(kind="url", url="https://a.org/one", start=2, end=10)

    assert (await score_record("citations", case_with_sources(Text(text, (good,))), {"supported": True})).passed
    assert not (await score_record("citations", case_with_sources(Text(text, (bad,))), {"supported": True})).passed


async def test_at_most_a_thousand_citations_are_checked() -> None:
    scored = await score_record("citations", case_with_sources("[1]. " * 50_000), {"supported": True})

    assert scored.passed is False
    assert len(scored.details["citations"]) == 1_000


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"marker": "[]"}, "/parameters/marker"),
        ({"marker": "n"}, "/parameters/marker"),
        ({"marker": "[n/n]"}, "/parameters/marker"),
        ({"sources": "a["}, "/parameters/sources"),
        ({"min": -1}, "/parameters/min"),
        ({"style": "all"}, "/parameters/style"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], pointer: str) -> None:
    assert bind_error("citations", parameters)[0] == pointer
