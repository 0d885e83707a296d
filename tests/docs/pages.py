"""The pages of the docs and the fenced blocks in them.

A block that cannot run here stands under a comment that says why: `<!-- not run: needs a model -->`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]

BLOCK = re.compile(
    r"""
    (?:^\ *<!--\ *not\ run:?(?P<reason>[^\n]*?)\ *-->\n\s*?)?
    ^(?P<indent>\ *)```(?P<language>\w*)[^\n]*\n
    (?P<source>.*?)
    ^(?P=indent)```$
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: where its first line stands, and why it is not run (None: it is)."""

    language: str
    line: int
    source: str
    reason: str | None


def blocks(page: str, *languages: str) -> list[Block]:
    """The blocks of a page, of these languages or of all."""
    all_blocks = [
        Block(
            language=match["language"],
            line=page.count("\n", 0, match.start("source")) + 1,
            source=dedent(match["source"]),
            reason=None if match["reason"] is None else match["reason"].strip(),
        )
        for match in BLOCK.finditer(page)
    ]
    return [block for block in all_blocks if not languages or block.language in languages]


def page_name(page: Path) -> str:
    """A page as people call it."""
    return page.relative_to(ROOT).as_posix()


def pages_with(*languages: str) -> dict[str, list[Block]]:
    """By page, the blocks of these languages, where there are any."""
    every = {page_name(page): blocks(page.read_text("utf-8"), *languages) for page in PAGES}
    return {page: all_blocks for page, all_blocks in every.items() if all_blocks}
