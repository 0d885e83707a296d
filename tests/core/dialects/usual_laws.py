"""What holds for the usual shapes of every dialect, and elements that have nearly one of them."""

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from palaver.core import dialects
from palaver.core.elements import Dialect, judge, quick_look
from palaver.core.kinds import plain
from palaver.core.recognition import Nobodys, Stretch, dialect_of, name_of, stretches

ODD: list[Any] = [None, True, 0, 1.5, "", "x", "ai", "\ud800", [], {}, [1], ["x"], {"x": 1}, [{"type": "text"}]]
FOREIGN: list[Any] = [
    {"role": "user", "content": "hi"},
    {"role": "model", "parts": [{"text": "hi"}]},
    {"role": "assistant", "parts": [{"type": "text", "text": "hi"}]},
    {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "human", "content": "hi"},
    {"type": "system", "content": "hi"},
    {"type": "ai", "data": {"content": "hi"}},
    {"lc": 1, "id": ["x", "AIMessage"], "kwargs": {"content": "hi"}},
    {"at": "noon"},
]


@st.composite
def nearly(draw: st.DrawFn, elements: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> Any:
    """One of them, with one field changed, added, left out or of a wrong type, anywhere in it."""
    element = deepcopy(draw(elements))
    inside: Any = draw(st.sampled_from(_containers(element)))
    if isinstance(inside, list):
        inside.insert(draw(st.integers(0, len(inside))), draw(st.sampled_from(ODD)))
    elif draw(st.booleans()) and inside:
        del inside[draw(st.sampled_from(sorted(inside)))]
    else:
        inside[draw(st.sampled_from(sorted(inside)) | names if inside else names)] = draw(st.sampled_from(ODD))
    return element


def lists(elements: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> st.SearchStrategy[list[Any]]:
    """Mostly such elements, some that are nearly such, some of other dialects."""
    some = st.one_of(elements, elements, nearly(elements, names), st.sampled_from(FOREIGN))
    return st.lists(elements, min_size=1, max_size=12) | st.lists(some, min_size=1, max_size=12)


def shapes_of(readable: Any, elements: list[Any]) -> list[Any]:
    """What the dialect says of them; nothing where one of them is nobody's."""
    try:
        return readable.shapes(elements)
    except Nobodys:
        assert stretches(elements) is None
        return []


def assert_both_ways_agree(dialect: Dialect, elements: list[Any]) -> None:
    """What has a shape is of the dialect for certain, and reads as it does the long way; so does the whole."""
    readable = dialects.READABLE[dialect]
    shapes = shapes_of(readable, elements)
    recognised, judged = dialects.recognised(elements), stretches(elements)

    assert [dialect_of([element]) for element, shape in zip(elements, shapes, strict=False) if shape] == [
        dialect for shape in shapes if shape
    ]
    assert all(shapes[: len(shapes) - shapes.count(None)]), "None is said only of the last ones"
    assert all(quick_look(element) in (None, judge(plain(element))) for element in elements)
    assert readable.read(elements, 3, shapes) == readable.read(elements, 3)
    assert (recognised is None, (recognised and name_of(recognised))) == (judged is None, (judged and name_of(judged)))
    assert _elements(recognised or []) == _elements(judged or [])
    assert dialects.read_stretches(recognised or []) == dialects.read_stretches(judged or [])


def _elements(found: list[Stretch]) -> list[tuple[int, Any]]:
    return [place for stretch in found for place in enumerate(stretch.elements, stretch.start)]


def _containers(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [] if inner is None else [value, *(found for held in inner for found in _containers(held))]
