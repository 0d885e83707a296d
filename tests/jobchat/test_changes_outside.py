"""Detecting changes outside the lines that an edit may change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.evaluators.scores import find_changes_outside
from palaver_jobchat.rules import Finding

OLD_CODE = "a();\nb();\nc();\nd();\n"
CHANGED_BEFORE = "This line was changed, but it is before the lines that may change."
CHANGED_AFTER = "This line was changed, but it is after the lines that may change."


@pytest.mark.parametrize(
    ("code", "span", "finding"),
    [
        (OLD_CODE, (2, 2), None),
        ("a();\nx();\ny();\nc();\nd();\n", (2, 2), None),
        ("a();\nc();\nd();\n", (2, 2), None),
        ("a();\nx();\nb();\nc();\nd();\n", (2, 1), None),
        ("x();\n", (1, 4), None),
        ("a();\nx();\nc();\nd();", (2, 2), (CHANGED_AFTER, 4)),
        ("a();\nx();\nC();\nd();\n", (2, 2), (CHANGED_AFTER, 3)),
        ("a();\nB();\nx();\nd();\n", (3, 3), (CHANGED_BEFORE, 2)),
        ("", (3, 3), (CHANGED_BEFORE, 1)),
        ("a();\n", (1, 1), (CHANGED_AFTER, 1)),
    ],
)
def test_changes_outside_the_span_are_reported_with_their_line(
    code: str, span: tuple[int, int], finding: tuple[str, int] | None
) -> None:
    expected = () if finding is None else (Finding("outside_untouched", "error", finding[1], finding[0]),)

    assert find_changes_outside(code, old=OLD_CODE, span=span) == expected


@given(st.text("ab\n", max_size=20), st.text("ab\n", max_size=20), st.integers(-2, 9), st.integers(-2, 9))
def test_lines_of_findings_are_within_the_code(code: str, old: str, first: int, last: int) -> None:
    findings = find_changes_outside(code, old=old, span=(first, last))

    assert all(1 <= finding.line <= code.count("\n") + 1 for finding in findings)
