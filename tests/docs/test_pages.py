"""Finding code blocks in the docs, and that none is skipped without a reason."""

import re

from tests.docs.pages import ROOT, Block, blocks, pages_with

CHECKED_LANGUAGES = {"python", "sh", "bash", "json", "toml", "js", "ts", "diff", "yaml"}
SHOWN_LANGUAGES = {"text"}
"""Languages of blocks that tests run or parse, and of blocks that are only shown."""

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
```sh
make demo
```
1. Then:
   ```python
   if a:
       b = 2
   ```
"""


def test_blocks_are_found_with_their_language_line_and_reason() -> None:
    assert blocks(PAGE) == [
        Block(language="python", line=3, source="a = 1\n", reason=None),
        Block(language="python", line=7, source="ask()\n\n", reason="needs a model"),
        Block(language="python", line=13, source="", reason=""),
        Block(language="sh", line=15, source="make demo\n", reason=None),
        Block(language="python", line=19, source="if a:\n    b = 2\n", reason=None),
    ]


def test_every_block_has_a_language_that_is_run_or_only_shown() -> None:
    others = [
        f"{page}:{block.line}: {block.language or 'none'}"
        for page, page_blocks in pages_with().items()
        for block in page_blocks
        if block.language not in CHECKED_LANGUAGES | SHOWN_LANGUAGES
    ]

    assert others == []


def test_a_block_that_is_not_run_has_a_reason() -> None:
    without_reason = [
        f"{page}:{block.line}"
        for page, page_blocks in pages_with().items()
        for block in page_blocks
        if block.reason == ""
    ]

    assert without_reason == []


def test_test_files_named_in_reasons_exist() -> None:
    reasons = [block.reason for page_blocks in pages_with().values() for block in page_blocks if block.reason]
    paths = {path for reason in reasons for path in re.findall(r"tests/[\w/.]*\w", reason)}

    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
