"""Pages that build something step by step work as written: their commands, programs and outputs, with a real server."""

from pathlib import Path

import pytest

from tests.docs import walkthrough
from tests.docs.walkthrough import Block, Reader, read_blocks

PAGES = walkthrough.walkthrough_pages()

PAGE = """\
<!-- walkthrough -->
# Title

<!-- file: greet.py -->
```python
print("hello")
```
```sh
python greet.py  # twice
```

```text
hello
```
Not directly after:
```text
shown only
```
<!-- not run: needs a model -->
```sh
false
```
"""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_as_written(page: str, tmp_path: Path) -> None:
    with Reader(tmp_path / "you") as reader:
        for step in PAGES[page]:
            reader.follow(step)


def test_blocks_are_read_with_what_the_comment_above_says() -> None:
    assert [(block.action, block.value, block.follows_directly) for block in read_blocks(PAGE)] == [
        ("file", "greet.py", False),
        ("", "", True),
        ("", "", True),
        ("", "", False),
        ("not run", "needs a model", True),
    ]
    assert read_blocks(PAGE)[0] == Block(
        language="python", source='print("hello")\n', line=6, action="file", value="greet.py", follows_directly=False
    )


def test_pages_with_steps_in_the_browser_are_run_by_the_browser_tests() -> None:
    tutorial = [f"get-started/first-{name}.md" for name in ("workflow", "evaluation", "trace")]

    assert walkthrough.walkthrough_pages(in_browser=True)[tutorial[-1]] == tutorial
    assert PAGES.keys().isdisjoint(tutorial)


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Follow":
    monkeypatch.setattr(walkthrough, "DOCS", tmp_path)
    return Follow(tmp_path)


class Follow:
    """Follows a page with a given text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.home = folder / "you"

    def __call__(self, page: str) -> None:
        (self._folder / "page.md").write_text(page, "utf-8")
        with Reader(self.home) as reader:
            reader.follow("page.md")


def test_files_are_written_and_commands_are_run_in_the_folder_where_the_reader_is(follow: Follow) -> None:
    follow(
        PAGE
        + "```sh\nmkdir sub\ncd sub\nexport WHO=you\n```\n"
        + "<!-- file: a/b.txt -->\n```text\none\ntwo\n```\n<!-- edit: a/b.txt -->\n```diff\n-two\n+three\n```\n"
        + "<!-- append: a/b.txt -->\n```text\nfour\n```\n"
    )

    assert (follow.home / "project/sub/a/b.txt").read_text("utf-8") == "one\nthree\n\n\nfour\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (PAGE.replace("hello\n```\nNot", "bye\n```\nNot"), r"docs/page\.md:13: expected\nbye\n\nactual\nhello"),
        ("```sh\nfalse\n```\n", r"docs/page\.md:2: exit code 1"),
        ("```sh\npip install 'palaver[nope]'\n```\n", r"docs/page\.md:2: unknown extra in nope"),
        ("```sh\npalaver serve nothing.py\n```\n", r"docs/page\.md:2: palaver serve nothing\.py\s+ended: error: "),
        (
            "<!-- file: a.py -->\n```python\na = 1\n```\n<!-- edit: a.py -->\n```diff\n-b = 1\n+c = 1\n```\n",
            r"docs/page\.md:7: occurs 0 times:\nb = 1",
        ),
    ],
)
def test_the_line_of_the_page_that_does_not_work_is_named(page: str, message: str, follow: Follow) -> None:
    with pytest.raises(AssertionError, match=message):
        follow(page)


def test_steps_in_the_browser_are_done_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walkthrough, "DOCS", tmp_path)
    (tmp_path / "page.md").write_text(
        "```sh\ntouch before\n```\n<!-- in the browser: look -->\n1. Look.\n\n```sh\ntouch after\n```\n", "utf-8"
    )
    seen: list[tuple[str, list[str]]] = []
    with Reader(tmp_path / "you") as reader:
        with pytest.raises(AssertionError, match=r"docs/page\.md:4: needs a browser"):
            reader.follow("page.md")
        reader.browse = lambda name: seen.append((name, [path.name for path in reader.folder.iterdir()]))
        reader.follow("page.md")

    assert seen == [("look", ["before"])]
    assert (reader.folder / "after").exists()


def test_an_id_of_the_page_stands_for_the_one_that_was_printed(follow: Follow) -> None:
    follow("```sh\necho c0ffee12 and c0ffee12\n```\n```text\n0af76519 and 0af76519\n```\n```sh\ntouch 0af76519\n```\n")

    assert (follow.home / "project/c0ffee12").exists()


def test_errors_may_be_shown_after_the_output_and_without_progress(follow: Follow) -> None:
    follow("```sh\necho out; printf '8 of 8 runs\\nFAILED\\n' >&2\n```\n```text\nout\nFAILED\n```\n")


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a  b", "a b\n"),
        ("took 3 ms", "took 12.5 ms"),
        ("2026-11-19 01:45:26 UTC  ok", "2027-01-01 00:00:00 UTC  ok"),
        ('{"id":"01a1f17a…"}', '{"id":"c0ffee1234567890"}'),
        ("plv_…\nCreated", "plv_wtrferqk_ggdc7we5z01ffm7237m1c8encxz5tv5kgzc88dkm\nCreated"),
        ("plv_…\nCreated", "plv_w7rferqk_ggdc7we5z01ffm7237m1c8encxz5tv5kgzc88dkm\nCreated"),
        ("first\n…\nlast", "first\n1\n2\nlast"),
        ("first\n…", "first"),
        ("first\n…", "first\n1\n2"),
    ],
)
def test_times_ids_and_ellipses_stand_for_any_text(shown: str, printed: str, follow: Follow) -> None:
    quoted = printed.replace("\n", "\\n")
    follow(f"```sh\nprintf '{quoted}'\n```\n```text\n{shown}\n```\n")


@pytest.mark.parametrize(("shown", "printed"), [("a b", "a c"), ("", "a"), ("first\n…\nlast", "first\nlost")])
def test_other_differences_are_found(shown: str, printed: str, follow: Follow) -> None:
    quoted = printed.replace("\n", "\\n")
    with pytest.raises(AssertionError, match=r"docs/page\.md:5: expected"):
        follow(f"```sh\nprintf '{quoted}'\n```\n```text\n{shown}\n```\n")
