"""HTML report of an evaluation."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from palaver.evaluation.results.export import html
from palaver.evaluation.results.export.report import Report
from palaver.storage.evaluations.results import ResultDetail
from tests.evaluation.results.export.report_factory import BAD, CHANGED, FLAKY, PLAIN, report, result_detail, score
from tests.evaluation.results.result_factory import row


class Elements(HTMLParser):
    """All elements, and all text outside of the style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def render(evaluation_report: Report) -> str:
    return b"".join(html.write_html(evaluation_report)).decode()


def test_the_report_shows_figures_verdicts_and_rows() -> None:
    page = Elements(render(PLAIN))

    rendered = re.sub(r"\s+", " ", page.text)
    assert "prompt v3 partial" in rendered
    assert "2 rows of questions (revision 4) · 2 variants · ev_1" in rendered
    assert "new vs. base" in rendered
    assert f"exact, worst regressions: What? {row(2)}" in rendered
    assert "timeout: It took longer than 60 s." in rendered
    assert page.names.count("details") == 2
    assert [value for name, value in page.attributes if name == "href"] == [f"#{row(1)}", f"#{row(2)}"]
    assert ("id", row(2)) in page.attributes


def test_a_flaky_row_is_marked() -> None:
    assert ("title", "2 of 3 passed") in Elements(render(FLAKY)).attributes
    assert ("class", "mark passed flaky") in Elements(render(FLAKY)).attributes


def test_changed_rows_are_counted() -> None:
    assert "Not compared: 2 rows with changed content." in Elements(render(CHANGED)).text


def test_content_is_escaped_and_nothing_is_fetched() -> None:
    page = Elements(render(BAD))

    assert "script" not in page.names
    assert {name for name, _ in page.attributes} <= {
        *"lang charset http-equiv content name dir class rowspan viewbox preserveaspectratio aria-hidden x y".split(),
        *"width height id title".split(),
    }
    assert page.text.count("<script>alert(1)</script>") > 3


def test_the_content_security_policy_allows_only_the_inline_style() -> None:
    page = render(PLAIN)
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    (policy,) = [value for name, value in Elements(page).attributes if name == "content" and "default" in str(value)]

    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "prefers-color-scheme: dark" in style


def test_a_conversation_is_shown_message_by_message() -> None:
    cell = result_detail(0, 0, [score("exact", True)], cell=0)
    message = {"index": 0, "role": "user", "text": "Hi & bye", "cut": 0, "calls": ["search(q)"], "attachments": 0}
    preview = {"renderer": "chat", "text": "Hi", "role": "user", "count": 3, "messages": [message], "more": 2}
    cell.result.preview_in.clear()
    cell.result.preview_in.update(preview)

    page = Elements(render(report([cell], {"exact": [[[True]]]}, variants=("base",))))

    assert "Hi & bye" in page.text
    assert "search(q)" in page.text
    assert "and 2 more messages" in page.text


@pytest.mark.parametrize(
    ("preview", "expected_html"),
    [
        ({"renderer": "text", "text": "A <b>"}, '<pre dir="auto">A &lt;b&gt;</pre>'),
        (
            {"renderer": "later", "picture": "<b>"},
            "<pre>{&quot;renderer&quot;:&quot;later&quot;,&quot;picture&quot;:&quot;&lt;b&gt;&quot;}</pre>",
        ),
        ({"renderer": "text", "text": "", "body": "x" * 2_001}, f'<pre dir="auto">{"x" * 2_000}…</pre>'),
        ({"renderer": "chat", "text": "", "messages": ["no message"]}, ""),
        (None, ""),
    ],
    ids=["text", "unknown", "long", "no message", "nothing"],
)
def test_previews_of_any_renderer_are_shown(preview: Any, expected_html: str) -> None:
    detail = result_detail(0, 0, [score("exact", True)], cell=0)
    cell = ResultDetail(msgspec.structs.replace(detail.result, preview_in=preview), detail.body)

    page = render(report([cell], {"exact": [[[True]]]}, variants=("base",)))

    assert f'<p class="note">{row(1)}</p>{expected_html}<h3 dir="auto">base</h3>' in page.replace("\n", "")


def test_rows_beyond_the_limit_are_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_ROWS", 1)

    page = Elements(render(PLAIN))

    assert page.names.count("details") == 1
    assert "Only the first 1 rows are shown. Export as CSV for all rows." in page.text
