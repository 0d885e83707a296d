"""The prompt of `palaver chat`, with and without readline."""

import sys
from pathlib import Path

import pytest

from palaver.cli.chat import ChatScreen


def test_input_history_is_saved_with_readline_and_skipped_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatScreen("tutor").input_history(tmp_path / "with"):
        pass
    monkeypatch.setitem(sys.modules, "readline", None)  # As on Windows.
    with ChatScreen("tutor").input_history(tmp_path / "without"):
        pass

    assert [path.name for path in tmp_path.iterdir()] == ["with"]
