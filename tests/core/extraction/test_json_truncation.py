"""Excerpts of any value as compact JSON."""

from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given

from palaver.core.extraction import truncation
from palaver.core.extraction.truncation import PartialText, json_excerpt
from tests.core.strategies import jsons


class RaisingDict(dict[str, Any]):
    """A dict whose iteration methods raise."""

    def items(self) -> Any:
        raise RuntimeError

    def values(self) -> Any:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError


class Model:
    """An object whose model_dump raises."""

    def model_dump(self, **_: Any) -> Any:
        raise KeyError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, None, True, "x\n"], "b": {}, "c": []}, '{"a":[1,2.5,null,true,"x\\n"],"b":{},"c":[]}'),
        ("a", '"a"'),
        (float("nan"), "null"),
        ((1, (2,), []), "[1,[2],[]]"),
        ({1: "a", None: "b", (1, 2): "c"}, '{"1":"a","null":"b","[1,2]":"c"}'),
        (RaisingDict(a=1, b=[RaisingDict()]), '{"a":1,"b":[{}]}'),
        (date(2026, 11, 15), '"2026-11-15"'),
        (object(), '"<object>"'),
        ([Model(), {"m": Model()}], '["<Model>",{"m":"<Model>"}]'),
        ([10**5_000, 1], '["<int>",1]'),
        ({"\ud800": "\udc00"}, '{"\ufffd":"\ufffd"}'),
    ],
)
def test_excerpts_of_values_are_compact_json(value: Any, text: str) -> None:
    assert json_excerpt(value, 500) == PartialText(text, len(text))


@given(jsons)
def test_the_pieces_of_plain_values_join_to_the_same_json(value: Any) -> None:
    text = msgspec.json.encode(value).decode()
    pieces = list(truncation._json_pieces(value, 4096))

    assert json_excerpt(value, 10) == PartialText(text, len(text))
    assert ("".join(piece for piece, _ in pieces), sum(more for _, more in pieces)) == (text, 0)


@pytest.mark.parametrize("items", [20_000, 150_000])
def test_the_length_of_a_long_list_counts_only_the_items_read(items: int) -> None:
    result = json_excerpt([7] * items, 10)

    assert result.text.startswith("[7,7,7,7,7")
    assert result.length == (len("[]") + 2 * items - 1 if items <= 100_000 else len("[") + 2 * 4_999 - 1)


def test_a_long_nested_text_is_counted_but_only_its_start_is_written() -> None:
    result = json_excerpt({"a": "x" * 50_000_000, "b": [1]}, 500)

    assert result.text == '{"a":"' + "x" * 4096
    assert result.length == len('{"a":"","b":[1]}') + 50_000_000


def test_a_larger_limit_writes_more_text() -> None:
    assert json_excerpt(["x" * 2_000_000], 10_000).text == '["' + "x" * 10_000


def test_long_keys_are_counted_in_full() -> None:
    result = json_excerpt({"k" * 2_000_000: 1}, 10)

    assert (result.text[:10], result.length) == ('{"kkkkkkkk', 2_000_000 + len('{"":1}'))


def test_excerpts_end_for_deep_and_cyclic_values() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    wide: list[Any] = []
    wide += [wide] * 100

    assert json_excerpt(deep, 10).text.startswith("[" * 10)
    assert json_excerpt(cycle, 30).text.startswith('{"again":{"again":{"again":{')
    assert json_excerpt(wide, 10).text.startswith("[" * 10)
