"""Every page of the docs is in the navigation of the site, and no link is broken."""

import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, page_name

FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    anchors_found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", FENCE.sub("", text), re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        anchors_found.append(f"{name}-{anchors_found.count(name)}" if name in anchors_found else name)
    return set(anchors_found)


def links(text: str) -> list[str]:
    """Return the link targets of a page, outside of code."""
    return LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text)))


def broken_links(page: Path) -> list[str]:
    """Return links to a missing file or heading."""
    faults: list[str] = []
    for link in links(page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            faults.append(link)
    return faults


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "examples/README.md"], ids=page_name)
def test_no_link_is_broken(page: Path) -> None:
    assert broken_links(page) == []


def test_links_to_missing_files_and_headings_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One `two`\n\n```sh\n# three\n```\n", encoding="utf-8")
    page = tmp_path / "b.md"
    page.write_text("[a](a.md#one-two) [b](a.md#three) [c](c.md) `[d](d.md)` [e](#e)\n\n# E\n", encoding="utf-8")

    assert broken_links(page) == ["a.md#three", "c.md"]


def test_the_navigation_of_the_site_has_every_page() -> None:
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}

    pages |= set(runpy.run_path(str(ROOT / "build_docs.py"))["REPOSITORY_PAGES"].values())
    assert sorted(navigation_pages(navigation)) == sorted(page for page in pages if not page.startswith("decisions/0"))


def navigation_pages(navigation: list[Any]) -> Iterator[str]:
    for item in navigation:
        for target in item.values() if isinstance(item, dict) else [item]:
            if isinstance(target, str):
                yield target
            else:
                yield from navigation_pages(target)


def test_every_decision_is_in_the_decision_index() -> None:
    targets = links((DOCS / "decisions/README.md").read_text("utf-8"))

    assert sorted(path.name for path in (DOCS / "decisions").glob("0*.md")) == sorted(
        link for link in targets if link.startswith("0")
    )
