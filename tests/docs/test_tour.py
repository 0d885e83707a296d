"""The tour on the web page and the tour in the docs agree: titles, links and pictures."""

import re

from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "get-started" / "tour.md").read_text("utf-8")
STEPS = (ROOT / "web/src/app/tour/steps.ts").read_text("utf-8")
MAX_IMAGE_BYTES = 150_000


def step_fields(field: str) -> list[str]:
    """Return a field of the page's steps, in order."""
    matches = re.findall(rf"^    {field}:\s+('.+?'),$", STEPS, re.MULTILINE | re.DOTALL)
    return [re.sub(r"' \+\s+'", "", text)[1:-1] for text in matches]


def test_the_steps_have_the_same_titles() -> None:
    titles = [f"{number}. {title}" for number, title in enumerate(step_fields("title"), start=1)]

    assert len(titles) == 7
    assert [heading for heading in re.findall(r"^## (.+)$", PAGE, re.MULTILINE) if heading[0].isdigit()] == titles


def test_each_step_in_the_docs_names_the_link_and_controls_of_the_page() -> None:
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:8]
    for part, link, text in zip(parts, step_fields("link"), step_fields("text"), strict=True):
        assert f"*{link}*" in part
        marked = re.findall(r"\[(.+?)\]|`(.+?)`", text)
        assert [one for one in map("".join, marked) if one not in part] == []


def test_each_step_has_a_picture_and_none_is_large() -> None:
    images = re.findall(r"\]\(\.\./images/(tour-.+?\.png)\)", PAGE)

    assert [name.split("-")[1] for name in images] == list("1234567")
    sizes = {path.name: path.stat().st_size for path in (DOCS / "images").iterdir()}
    assert {name: size for name, size in sizes.items() if size >= MAX_IMAGE_BYTES} == {}
