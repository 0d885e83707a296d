"""The places where a conversation may stand: the names that the searches know, and the order in which they are tried.

A *key* holds messages itself; a *wrapper* holds an object in which the search begins again. Each belongs to a side,
input or output, or to none. The wide search knows all names of the strict one, and more after them.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Literal, NamedTuple

Prefer = Literal["input", "output"]
Names = tuple[str, ...]
Path = tuple[str, ...]
"""The keys that lead to a wrapper: one, or two."""

MAX_SEARCH_DEPTH = 6
"""Keys that may lead to a value which is looked at."""

MAX_NESTED_TEXTS = 3
"""Texts on one path that the wide search opens."""


_keys_of = dict[str, Any].keys
_OBJECT = (dict,)
MAX_CACHED_KEYS, _MAX_CACHED_PLANS = 16, 1_000
_ANSWERS = ("choices", "candidates", "generations", "content")
_MESSAGE_KEYS = frozenset(("role", "sender", "author", "type", "lc", "message"))
"""One of them stands in every object that is a message."""


class SearchPlan(NamedTuple):
    """What to try in an object, by the names that it has."""

    keys: Names
    wrappers: tuple[Path, ...]
    answers: bool
    """May it hold what the API of a model answered?"""
    is_message: bool
    """May it be a message itself?"""


class SearchOrder:
    """What a search tries, first to last."""

    def __init__(self, keys: Names, wrappers: tuple[Path, ...]) -> None:
        self.keys = keys
        self.wrappers = wrappers
        self._names = frozenset((*keys, *(path[0] for path in wrappers), *_ANSWERS, *_MESSAGE_KEYS))
        self._plans: dict[Hashable, SearchPlan] = {}
        self.known = self._plans.get
        """The plan for an object with these keys, if there was one before."""

    def plan(self, value: dict[str, Any]) -> SearchPlan:
        """Many objects have the same keys, and are searched alike. Of many keys only those that we know matter."""
        if len(value) <= MAX_CACHED_KEYS and type(value) in _OBJECT:
            keys = tuple(value)
        else:
            keys = frozenset(_keys_of(value) & self._names)
        plan = self._plans.get(keys)
        if plan is None:
            plan = self._made(frozenset(keys))
            if len(self._plans) < _MAX_CACHED_PLANS:  # Somebody may send ever other ones.
                self._plans[keys] = plan
        return plan

    def _made(self, names: frozenset[str]) -> SearchPlan:
        return SearchPlan(
            keys=tuple(key for key in self.keys if key in names),
            wrappers=tuple(path for path in self.wrappers if path[0] in names),
            answers=not names.isdisjoint(_ANSWERS),
            is_message=not names.isdisjoint(_MESSAGE_KEYS),
        )


SearchOrders = Mapping[Prefer | None, SearchOrder]


def search_order(orders: SearchOrders, prefer: Prefer | None) -> SearchOrder:
    """The order for that preference; any other is a mistake of the program's."""
    if prefer not in orders:
        raise ValueError(f"prefer must be None, 'input' or 'output', not {prefer!r}")
    return orders[prefer]


def _keys(names: str) -> Names:
    return tuple(names.split())


def _wrappers(paths: str) -> tuple[Path, ...]:
    """`data/inputs` leads through `data`; a name with a dot is one key."""
    return tuple(tuple(path.split("/")) for path in paths.split())


# The strict search

INPUT = _keys("prompt input_messages")
OUTPUT = _keys("completion output_messages responses")
NEUTRAL = _keys("messages message_history history chat conversation logs")

INPUT_WRAPPERS = _wrappers("inputs data/inputs request")
OUTPUT_WRAPPERS = _wrappers("outputs data/outputs response")
NEUTRAL_WRAPPERS = _wrappers("data")
FIRST_WRAPPERS = _wrappers("data inputs outputs request response")
"""What a search without preference begins with. The strict one needs no more: `data/inputs` lies in `data`."""

STRICT: SearchOrders = {
    "input": SearchOrder((*INPUT, *NEUTRAL, *OUTPUT), (*INPUT_WRAPPERS, *NEUTRAL_WRAPPERS, *OUTPUT_WRAPPERS)),
    "output": SearchOrder((*OUTPUT, *NEUTRAL, *INPUT), (*OUTPUT_WRAPPERS, *NEUTRAL_WRAPPERS, *INPUT_WRAPPERS)),
    None: SearchOrder((*NEUTRAL, *INPUT, *OUTPUT), FIRST_WRAPPERS),
}

# The wide search

WIDE_INPUT = (
    *INPUT,
    *_keys("input contents new_message gen_ai.input.messages llm.input_messages ai.prompt.messages"),
)
WIDE_OUTPUT = (*OUTPUT, *_keys("output gen_ai.output.messages llm.output_messages"))
WIDE_NEUTRAL = (*NEUTRAL, *_keys("chat_history message"))

WIDE_INPUT_WRAPPERS = (
    *INPUT_WRAPPERS,
    *_wrappers("input input.value mlflow.spanInputs traceloop.entity.input ai.prompt"),
)
WIDE_OUTPUT_WRAPPERS = (
    *OUTPUT_WRAPPERS,
    *_wrappers("output result output.value mlflow.spanOutputs traceloop.entity.output"),
)
WIDE_NEUTRAL_WRAPPERS = (*NEUTRAL_WRAPPERS, *_wrappers("attributes ag gen_ai llm kwargs values body __default__"))

WIDE: SearchOrders = {
    "input": SearchOrder(
        (*WIDE_INPUT, *WIDE_NEUTRAL, *WIDE_OUTPUT),
        (*WIDE_INPUT_WRAPPERS, *WIDE_NEUTRAL_WRAPPERS, *WIDE_OUTPUT_WRAPPERS),
    ),
    "output": SearchOrder(
        (*WIDE_OUTPUT, *WIDE_NEUTRAL, *WIDE_INPUT),
        (*WIDE_OUTPUT_WRAPPERS, *WIDE_NEUTRAL_WRAPPERS, *WIDE_INPUT_WRAPPERS),
    ),
    None: SearchOrder(
        (*WIDE_NEUTRAL, *WIDE_INPUT, *WIDE_OUTPUT),
        tuple(
            dict.fromkeys(
                (*FIRST_WRAPPERS, *WIDE_NEUTRAL_WRAPPERS, *WIDE_INPUT_WRAPPERS, *WIDE_OUTPUT_WRAPPERS),
            )
        ),
    ),
}

ANSWERS = _keys("choices candidates generations")
"""Lists in which the APIs of models give their answers; each of its own form."""

SIDES: Mapping[str, Prefer] = {
    **dict.fromkeys((*WIDE_INPUT, *(path[-1] for path in WIDE_INPUT_WRAPPERS)), "input"),
    **dict.fromkeys((*WIDE_OUTPUT, *(path[-1] for path in WIDE_OUTPUT_WRAPPERS), *ANSWERS), "output"),
}
"""The side of each name that has one. A match has the side of the outermost such name on its path."""
