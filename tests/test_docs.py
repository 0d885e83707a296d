"""Every Python block of README.md and docs/ runs: the blocks of one file in order, in one module, in an empty folder.

A block that cannot run here stands under a comment that says why: `<!-- not run: needs a model -->`.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(
    r"""
    (?:^\ *<!--\ *not\ run:?(?P<reason>[^\n]*?)\ *-->\n\s*?)?
    ^(?P<indent>\ *)```python\b[^\n]*\n
    (?P<source>.*?)
    ^(?P=indent)```$
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: where its first line stands, and why it is not run (None: it is)."""

    line: int
    source: str
    reason: str | None


def blocks(page: str) -> list[Block]:
    return [
        Block(
            line=page.count("\n", 0, match.start("source")) + 1,
            source=dedent(match["source"]),
            reason=None if match["reason"] is None else match["reason"].strip(),
        )
        for match in BLOCK.finditer(page)
    ]


WITH_BLOCKS = {str(page.relative_to(ROOT)): found for page in PAGES if (found := blocks(page.read_text("utf-8")))}


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_every_python_block_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("page_under_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # so that annotations in a block can be resolved
    monkeypatch.chdir(tmp_path)

    for block in WITH_BLOCKS[page]:
        if block.reason is None:
            padding = "\n" * (block.line - 1)  # a traceback then names the line of the page
            exec(compile(padding + block.source, str(ROOT / page), "exec"), module.__dict__)


def test_a_block_that_is_not_run_says_why() -> None:
    silent = [f"{page}:{block.line}" for page, found in WITH_BLOCKS.items() for block in found if block.reason == ""]

    assert silent == []


PAGE = """\
# Title
```python
a = 1
```
<!-- not run: needs a model -->
```python
ask()

```
<!-- not run: -->

```python
```
```bash
make demo
```
1. Then:
   ```python
   if a:
       b = 2
   ```
"""


def test_blocks_are_found_with_their_line_and_reason() -> None:
    assert blocks(PAGE) == [
        Block(line=3, source="a = 1\n", reason=None),
        Block(line=7, source="ask()\n\n", reason="needs a model"),
        Block(line=13, source="", reason=""),
        Block(line=19, source="if a:\n    b = 2\n", reason=None),
    ]
