"""Split Markdown into chunks."""

from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.docs.markdown import MAX_CHUNK_CHARACTERS, Chunk, split_markdown

LONG = "A line about reading books aloud. " * 12  # More than 400 characters.


def test_document_is_split_at_headings_and_chunks_name_them() -> None:
    markdown = f"# Library\n\n{LONG}\n\n## Lending\n\n{LONG}\n\n### For long ##\n\n{LONG}\n\n## Burning\n\n{LONG}\n"

    assert [
        (chunk.title, chunk.section, chunk.text.split("\n")[0]) for chunk in split_markdown(markdown, name="x")
    ] == [
        ("Library", "", "# Library"),
        ("Library", "Lending", "## Lending"),
        ("Library", "Lending > For long", "### For long ##"),
        ("Library", "Burning", "## Burning"),
    ]


def test_title_is_taken_from_the_front_matter() -> None:
    (chunk,) = split_markdown('---\nsidebar: 1\ntitle: "How to lend"\n---\n\n## First\r\n\r\nAsk.', name="x")

    assert chunk == Chunk("How to lend", "First", "## First\n\nAsk.")


def test_document_without_headings_is_titled_by_its_file_name() -> None:
    assert split_markdown("Only this.", name="notes") == [Chunk("notes", "", "Only this.")]
    assert split_markdown("\n\n", name="notes") == []


def test_small_sections_are_merged_under_the_first_heading() -> None:
    chunks = split_markdown(f"# A\n\nShort.\n\n## B\n\nShort.\n\n## C\n\n{LONG}\n\n## D\n\n{LONG}", name="x")

    assert [(chunk.section, chunk.text.count("Short")) for chunk in chunks] == [("", 2), ("D", 0)]


def test_fenced_code_is_not_split_and_its_comments_are_not_headings() -> None:
    code = "```js\n# no heading\n\n" + "call();\n" * 300 + "~~~\n````"

    chunks = split_markdown(f"# A\n\n{LONG}\n\n{code}\n\n{LONG}", name="x")

    assert code in [chunk.text for chunk in chunks]
    assert {chunk.section for chunk in chunks} == {""}


def test_long_paragraphs_are_split_below_the_maximum_without_losing_text() -> None:
    lines, sentences, unbroken = "a line of words\n" * 200, "One sentence here. " * 200, "x" * 4000

    for block in (lines, sentences, unbroken):
        chunks = split_markdown(block, name="x")
        assert all(len(chunk.text) <= MAX_CHUNK_CHARACTERS for chunk in chunks)
        assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(block.split())


def test_heading_without_text_makes_no_chunk() -> None:
    block = "x" * MAX_CHUNK_CHARACTERS

    assert [(c.section, c.text) for c in split_markdown(f"# A\n\n## B\n\n{block}\n\n## C", name="x")] == [("B", block)]


def _text_without_headings(markdown: str) -> str:
    return "".join("".join(line.split()) for line in markdown.split("\n") if line not in ("# A", "## B"))


@given(
    st.lists(st.sampled_from(["# A", "## B", "```", "~~~", "", "word " * 40, "x" * 1600, "- item", "---"]), max_size=25)
)
def test_splitting_loses_no_words(lines: list[str]) -> None:
    markdown = "\n".join(["start", *lines])

    texts = [chunk.text for chunk in split_markdown(markdown, name="x")]

    assert _text_without_headings("\n".join(texts)) == _text_without_headings(markdown)
    assert all(len(text) <= MAX_CHUNK_CHARACTERS or "```" in text or "~~~" in text for text in texts)
