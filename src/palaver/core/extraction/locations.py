"""The keys under which the searches look for a conversation, and their order.

A *key* holds messages; a *wrapper* holds an object that is searched in turn. Each belongs to the side input or output,
or to none. The extended search knows all keys of the strict one, and more after them.
"""

from collections.abc import Hashable, Mapping
from typing import Any, Literal, NamedTuple

Prefer = Literal["input", "output"]
Names = tuple[str, ...]
Path = tuple[str, ...]
"""The one or two keys that lead to a wrapper."""

MAX_SEARCH_DEPTH = 6
"""Maximum number of keys on the path to a visited value."""

MAX_NESTED_TEXTS = 3
"""Maximum number of JSON texts that the extended search decodes on one path."""

_keys_of = dict[str, Any].keys
_OBJECT = (dict,)
MAX_CACHED_KEYS, _MAX_CACHED_PLANS = 16, 1_000
_RESPONSE_FIELDS = ("choices", "candidates", "generations", "content")
_MESSAGE_KEYS = frozenset(("role", "sender", "author", "type", "lc", "message", "kind", "from"))
"""Every object that is a message has one of these."""


class SearchPlan(NamedTuple):
    """What to try in an object, given its keys."""

    keys: Names
    wrappers: tuple[Path, ...]
    has_responses: bool
    """Whether it may be the response of a model API."""
    is_message: bool
    """Whether it may be a message itself."""


class SearchOrder:
    """The keys and wrappers that a search tries, in order, with a cache of plans."""

    def __init__(self, keys: Names, wrappers: tuple[Path, ...]) -> None:
        self.keys = keys
        self.wrappers = wrappers
        self._names = frozenset((*keys, *(path[0] for path in wrappers), *_RESPONSE_FIELDS, *_MESSAGE_KEYS))
        self._plans: dict[Hashable, SearchPlan] = {}
        self.cached = self._plans.get
        """Look up the cached plan for a tuple of keys."""

    def plan(self, value: dict[str, Any]) -> SearchPlan:
        """Return the plan for an object, cached by its keys, or by the relevant ones if it has many."""
        if len(value) <= MAX_CACHED_KEYS and type(value) in _OBJECT:
            keys = tuple(value)
        else:
            keys = frozenset(_keys_of(value) & self._names)
        plan = self._plans.get(keys)
        if plan is None:
            plan = self._build_plan(frozenset(keys))
            if len(self._plans) < _MAX_CACHED_PLANS:  # Clients may send ever new keys.
                self._plans[keys] = plan
        return plan

    def _build_plan(self, names: frozenset[str]) -> SearchPlan:
        return SearchPlan(
            keys=tuple(key for key in self.keys if key in names),
            wrappers=tuple(path for path in self.wrappers if path[0] in names),
            has_responses=not names.isdisjoint(_RESPONSE_FIELDS),
            is_message=not names.isdisjoint(_MESSAGE_KEYS),
        )


SearchOrders = Mapping[Prefer | None, SearchOrder]


def search_order(orders: SearchOrders, prefer: Prefer | None) -> SearchOrder:
    """Return the order for a preference. Raises ValueError for an unknown one."""
    if prefer not in orders:
        raise ValueError(f"prefer must be None, 'input' or 'output', not {prefer!r}")
    return orders[prefer]


def _keys(names: str) -> Names:
    return tuple(names.split())


def _wrappers(paths: str) -> tuple[Path, ...]:
    """Parse paths: `data/inputs` has two keys, a name with a dot is one."""
    return tuple(tuple(path.split("/")) for path in paths.split())


# The strict search

INPUT = _keys("prompt input_messages")
OUTPUT = _keys("completion output_messages responses")
NEUTRAL = _keys("messages message_history history chat conversation logs")

INPUT_WRAPPERS = _wrappers("inputs data/inputs request")
OUTPUT_WRAPPERS = _wrappers("outputs data/outputs response")
NEUTRAL_WRAPPERS = _wrappers("data")
FIRST_WRAPPERS = _wrappers("data inputs outputs request response")
"""The first wrappers of a search without preference; the strict one needs no others."""

STRICT: SearchOrders = {
    "input": SearchOrder((*INPUT, *NEUTRAL, *OUTPUT), (*INPUT_WRAPPERS, *NEUTRAL_WRAPPERS, *OUTPUT_WRAPPERS)),
    "output": SearchOrder((*OUTPUT, *NEUTRAL, *INPUT), (*OUTPUT_WRAPPERS, *NEUTRAL_WRAPPERS, *INPUT_WRAPPERS)),
    None: SearchOrder((*NEUTRAL, *INPUT, *OUTPUT), FIRST_WRAPPERS),
}

# The extended search

WIDE_INPUT = (
    *INPUT,
    *_keys("input contents new_message gen_ai.input.messages llm.input_messages ai.prompt.messages"),
)
WIDE_OUTPUT = (*OUTPUT, *_keys("output gen_ai.output.messages llm.output_messages replies"))
WIDE_NEUTRAL = (*NEUTRAL, *_keys("chat_history message conversations"))

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

HISTORY_KEYS = _keys("history chat_history message_history")
"""Keys of the messages before the current question, which is beside them."""
QUESTION_KEYS = _keys("question input query content message prompt user_input")
ANSWER_KEYS = _keys("answer output response text")

RESPONSE_KEYS = _keys("choices candidates generations")
"""Keys of lists in responses of model APIs."""

SIDES: Mapping[str, Prefer] = {
    **dict.fromkeys((*WIDE_INPUT, *(path[-1] for path in WIDE_INPUT_WRAPPERS)), "input"),
    **dict.fromkeys((*WIDE_OUTPUT, *(path[-1] for path in WIDE_OUTPUT_WRAPPERS), *RESPONSE_KEYS), "output"),
}
"""The side of each key that has one. A match has the side of the outermost such key on its path."""
