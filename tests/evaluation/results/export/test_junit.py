"""JUnit XML report of an evaluation."""

import re
from collections.abc import Generator
from tempfile import SpooledTemporaryFile
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis.strategies import text

from palaver.evaluation.results.export import formats
from palaver.evaluation.results.export.report import Report
from tests.evaluation.results.export.report_factory import BAD, FLAKY, PLAIN, report, result_detail, score
from tests.evaluation.results.result_factory import row


def render(given: Report) -> str:
    return b"".join(formats.write_junit(given)).decode()


def test_there_is_a_suite_for_each_variant_and_evaluator_and_a_test_for_each_row() -> None:
    properties = '<properties><property name="score" value="{}"/></properties>'

    def suite_properties(scored: int, unscored: int, failed: int, reason: str = "") -> str:
        values = {"scored": scored, "not scored": unscored, "failed calls": failed}
        values |= {"not scored, most often": reason} if reason else {}
        elements = "".join(f'<property name="{name}" value="{value}"/>' for name, value in values.items())
        return f"    <properties>{elements}</properties>"

    assert render(PLAIN) == "".join(
        f"{line}\n"
        for line in (
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<testsuites name="prompt v3">',
            '  <testsuite name="base · exact" tests="2" failures="0" errors="0" skipped="0" time="1.000">',
            suite_properties(2, 0, 0),
            f'    <testcase classname="base.exact" name="What?" time="0.500">{properties.format(1)}</testcase>',
            f'    <testcase classname="base.exact" name="{row(2)}" time="0.500">{properties.format(1)}</testcase>',
            "  </testsuite>",
            '  <testsuite name="base · similar" tests="2" failures="0" errors="1" skipped="0" time="1.000">',
            suite_properties(1, 1, 0, "it is an object"),
            f'    <testcase classname="base.similar" name="What?" time="0.500">{properties.format(0.9)}</testcase>',
            (
                f'    <testcase classname="base.similar" name="{row(2)}" time="0.500">'
                '<error type="not scored" message="needs_text: it is an object"/></testcase>'
            ),
            "  </testsuite>",
            '  <testsuite name="new · exact" tests="2" failures="2" errors="0" skipped="0" time="1.000">',
            suite_properties(1, 0, 1),
            (
                f'    <testcase classname="new.exact" name="What?" time="0.500">{properties.format(0)}'
                "<failure type=\"failed\" message=\"'That.' is not 'This.'\"/></testcase>"
            ),
            (
                f'    <testcase classname="new.exact" name="{row(2)}" time="0.500">{properties.format(0)}'
                '<failure type="failed" message="timeout: It took longer than 60 s."/></testcase>'
            ),
            "  </testsuite>",
            '  <testsuite name="new · similar" tests="2" failures="0" errors="0" skipped="0" time="1.000">',
            suite_properties(1, 0, 1),
            f'    <testcase classname="new.similar" name="What?" time="0.500">{properties.format(0.5)}</testcase>',
            f'    <testcase classname="new.similar" name="{row(2)}" time="0.500">{properties.format(0)}</testcase>',
            "  </testsuite>",
            "</testsuites>",
        )
    )


def test_tests_are_named_after_questions_and_repeated_questions_are_numbered() -> None:
    questions = ["Why?", "", "Why?", f"  Is\nthis {'very ' * 40}long?"]
    cells = [
        result_detail(index, 0, [score("exact", True)], cell=index, question=question)
        for index, question in enumerate(questions)
    ]
    root = ET.fromstring(render(report(cells, {"exact": [[[True]]] * 4}, variants=("base",))))

    assert [test.get("name") for test in root.iter("testcase")] == [
        "Why?",
        row(2),
        "Why? (2)",
        f"Is this {'very ' * 22}v…",
    ]


def test_a_row_whose_repeats_differ_passes_by_majority_and_is_marked_as_flaky() -> None:
    (test,) = ET.fromstring(render(FLAKY)).iter("testcase")

    assert {one.get("name"): one.get("value") for one in test.iter("property")} == {
        "score": "0.666667",
        "flaky": "true",
        "passed": "2 of 3",
    }
    assert list(test.iter("failure")) == []


def test_markup_in_content_is_escaped() -> None:
    root = ET.fromstring(render(BAD))

    (failure,) = root.iter("failure")
    assert failure.get("message") == "</table><script>alert(1)</script> & \"x\" 'y'  |pipe `tick`\n=1+1"
    assert list(root.iter("script")) == []


@given(text(max_size=60))
def test_any_text_is_parsed_back_without_characters_invalid_in_xml(message: str) -> None:
    cells = [result_detail(0, 0, [score("exact", False, message)], cell=0)]

    (failure,) = ET.fromstring(render(report(cells, {"exact": [[[False]]]}, variants=("base",)))).iter("failure")

    assert failure.get("message") == re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "", message)


def test_thousands_of_rows_are_counted_in_their_suite() -> None:
    cells = [result_detail(index, 0, [score("exact", False, "x" * 200)], cell=index) for index in range(6_000)]
    many = report(cells, {"exact": [[[True]]]}, variants=("base",))

    actual = render(many)

    assert 'tests="6000" failures="6000"' in actual
    assert actual.count("<testcase ") == 6_000


def test_closing_an_unfinished_report_closes_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[SpooledTemporaryFile[bytes]] = []

    class RecordedFile(SpooledTemporaryFile[bytes]):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            files.append(self)

    monkeypatch.setattr(formats, "SpooledTemporaryFile", RecordedFile)
    lines = formats.write_junit(PLAIN)
    next(lines)
    before = [file.closed for file in files]
    assert isinstance(lines, Generator)
    lines.close()

    assert (before, [file.closed for file in files]) == ([False] * 4, [True] * 4)
