"""The structure report of `make check`, on sources small enough to count by hand."""

from itertools import pairwise

import pytest

from tests.shape import __main__ as shape
from tests.shape import cycles, duplicates, names, sizes
from tests.shape.duplicates import Pair
from tests.shape.sizes import Length

PYTHON_SOURCE = """
class Door:
    @property
    def open(self):
        if self:
            def hinge():
                return 1
            return hinge

async def close(): ...
"""

WEB_SOURCE = """
export function Door() {
  const open = () => {
    one();
    two();
  };
  return [1].map((n) => n + 1);
}
const shut = function () { return 1; };
"""

SAME_LINES = ["a = 1", "b = 2", "if c:", "    d = 3", "e = 4", "f = 5", "g = 6"]


def join_lines(*parts: str) -> str:
    return "\n".join(parts) + "\n"


def test_function_lengths_exclude_nested_functions() -> None:
    assert sizes.functions({"door.py": PYTHON_SOURCE}) == [
        Length(lines=4, name="door.py Door.open"),
        Length(lines=2, name="door.py Door.open.hinge"),
        Length(lines=1, name="door.py close"),
    ]


def test_web_function_lengths_are_counted() -> None:
    assert sizes.web_functions({"door.tsx": WEB_SOURCE}) == [
        Length(lines=5, name="door.tsx Door"),
        Length(lines=4, name="door.tsx open"),
        Length(lines=1, name="door.tsx shut"),
    ]


def test_the_table_has_the_median_the_95th_percentile_and_the_longest() -> None:
    lengths = sizes.modules({f"{number:>03}.py": "x\n" * number for number in range(1, 101)})

    assert (sizes.median(lengths), sizes.percentile_95(lengths)) == (50.5, 95)
    assert shape.table_row("src modules", lengths[1:]) == "src modules           99      50    95       99  099.py"


def test_duplicate_lines_are_found_regardless_of_indentation_and_blank_lines() -> None:
    one = join_lines("import os", *SAME_LINES, "h = 7")
    other = join_lines("z = 0", "", *(f"    {line}\n" for line in SAME_LINES), "    i = 8")

    assert duplicates.pairs({"one.py": one, "other.py": other}) == [
        Pair(lines=7, one="one.py:2-8", other="other.py:3-15")
    ]


def test_duplicate_lines_in_one_file_are_found_and_do_not_overlap() -> None:
    assert duplicates.pairs({"one.py": join_lines(*SAME_LINES, *SAME_LINES)}) == [
        Pair(lines=7, one="one.py:1-7", other="one.py:8-14")
    ]
    assert duplicates.pairs({"one.py": join_lines(*["a = 1"] * 6)}) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("py", join_lines(*SAME_LINES[:5])),
        ("py", join_lines("from a import (", "    b,", "    c,", "    d,", "    e,", "    f,", ")", *SAME_LINES[:3])),
        ("ts", join_lines("import {", "  b,", "  c,", "  d,", "  e,", "} from 'a';", *SAME_LINES[:3])),
        ("ts", join_lines(*["}", "", "});"] * 5)),
    ],
)
def test_short_blocks_imports_and_brackets_are_not_duplicates(path: str, text: str) -> None:
    assert duplicates.pairs({f"one.{path}": text, f"other.{path}": text}) == []


def test_modules_of_an_import_cycle_are_listed_in_order() -> None:
    assert cycles.cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    cycle = cycles.cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})

    assert sorted(pairwise(cycle)) == [("a", "b"), ("b", "c"), ("c", "a")]


def test_exceeded_limits_are_reported() -> None:
    modules = [Length(lines=701, name="long.py"), Length(lines=700, name="full.py")]
    functions = [
        Length(lines=61, name="long.py f"),
        Length(lines=60, name="g"),
    ]

    assert shape.length_problems(modules, functions, 60) == [
        "long.py: 701 lines (limit: 700)",
        "long.py f: 61 lines (limit: 60)",
    ]


def test_all_pairs_are_listed_when_there_are_too_many() -> None:
    pairs = [Pair(lines=7, one="a.py:1-7", other="b.py:2-8")]

    assert shape.duplicate_problems(pairs, 1, "src") == []
    assert shape.duplicate_problems(pairs, 0, "src") == [
        "src: 1 pairs of places share 6 or more lines (limit: 0):\n    7 equal lines: a.py:1-7 and b.py:2-8"
    ]


def test_modules_named_by_verb_forms_are_listed() -> None:
    paths = [
        "src/keeping/rows.py",
        "src/routing.py",
        "src/ping.py",
        "src/rate_limiting.py",
        "web/src/chat/cell-adding.tsx",
    ]

    assert names.gerund_modules(paths) == ["src/keeping", "src/rate_limiting.py", "web/src/chat/cell-adding.tsx"]


def test_names_used_more_than_three_times_are_listed() -> None:
    rows = "class Row: ...\ndef load(): ...\ndef _load(): ...\n"
    sources = {f"{number}.py": rows for number in range(4)} | {"5.py": "class Page: ...\ndef load(): ...\n"}

    assert names.common_names(names.python_classes(sources)) == ["Row ×4"]
    assert names.common_names(names.python_functions(sources)) == ["load ×5"]


def test_lines_of_the_web_page_that_are_too_long_are_problems() -> None:
    sources = {"short.ts": "x" * 120, "long.ts": join_lines("y", "x" * 121)}

    assert shape.line_problems(sources) == ["long.ts:2: 121 characters (limit: 120)"]
