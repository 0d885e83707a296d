"""Hypothesis strategies for JSON values and rows, with edge cases of all file formats."""

from typing import Any

from hypothesis import strategies as st

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(
        """null|true|false|42|-5|007|1.50|1e5|1e22|+5|-0|-0.0| 42|NaN|{}|[]|{"a":1}| [1]|[1|"x"|"x|"|=1+1| =1|@a|-x
        |\uff0d1|\uff1d1|\t=1""".split("|")
    ),
    st.sampled_from(
        [
            "",
            " ",
            "\n",
            "\r",
            "\t",
            "\r\n",
            "a\nb",
            "a\rb",
            "a\x00b",
            "\x00",
            "\x7f",
            "\x85",
            "\u2028",
            "\ufeff",
            "\ufeffa",
        ]
    ),
    st.sampled_from(
        ["a,b", "a;b", "a\tb", "a|b", 'a"b', '"a"', '""', '"\\ud800"', "\xa0=1", "[" * 70, "[" * 65 + "]" * 65]
    ),
)
NAMES = st.one_of(
    TEXTS,
    st.sampled_from(["a", "b", "a.b", "messages", "rows", "data", "value", "id"]),
    st.sampled_from(
        [
            "__id__",
            "__dedup_id__",
            "__flags__",
            "__tags__",
            "__meta__",
            "__empty__",
            '"__id__"',
            '"\\"__id__\\""',
            "__ID__",
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 1e22, 1e16, 5e-324, 2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 2**64, 10**40, 1.0]),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
ROWS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(st.dictionaries(NAMES, JSON, max_size=5), max_size=6)
