"""Every Python block of the docs runs: the blocks of a page in order, in one module, in an empty folder.

The programs of walkthroughs are run by test_walkthroughs.py.
"""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import ROOT, pages_with
from tests.docs.walkthrough import is_walkthrough

BLOCKS_BY_PAGE = {page: blocks for page, blocks in pages_with("python").items() if not is_walkthrough(page)}


@pytest.mark.parametrize("page", BLOCKS_BY_PAGE)
def test_every_python_block_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("page_under_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # so that annotations in a block can be resolved
    monkeypatch.chdir(tmp_path)

    for block in BLOCKS_BY_PAGE[page]:
        if block.reason is None:
            padding = "\n" * (block.line - 1)  # a traceback then names the line of the page
            exec(compile(padding + block.source, str(ROOT / page), "exec"), module.__dict__)
