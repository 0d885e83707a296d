"""The pages of the docs and the fenced blocks in them.

A block that cannot be run follows a comment with the reason: `<!-- not run: needs a model -->`.
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
    """A fenced block, its first line, and why it is not run (None: it is)."""

    language: str
    line: int
    source: str
    reason: str | None


def blocks(page: str, *languages: str) -> list[Block]:
    """Return the blocks of a page, of these languages or of all."""
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
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def pages_with(*languages: str) -> dict[str, list[Block]]:
    """Return the blocks of these languages by page, without pages that have none."""
    blocks_by_page = {page_name(page): blocks(page.read_text("utf-8"), *languages) for page in PAGES}
    return {page: all_blocks for page, all_blocks in blocks_by_page.items() if all_blocks}
