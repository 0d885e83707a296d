"""The function behind any declared callable."""

import functools
from typing import Any

import pytest

from palaver.workflows.signature import callable_name, underlying_callable, unwrap_definition


def plain(x: int) -> int:
    return x


@functools.wraps(plain)
def wrapped(*args: Any) -> int:
    return plain(*args)


class Agent:
    def __call__(self, x: int) -> int:
        return x

    def method(self, x: int) -> int:
        return x


class Decorated:
    @functools.wraps(plain)
    def __call__(self, *args: Any) -> int:
        return plain(*args)


agent = Agent()
partial_function = functools.partial(plain, 1)
nested_partial = functools.partial(functools.partial(agent.method), 1)

CASES: dict[str, tuple[Any, Any, Any, str]] = {
    "a function": (plain, plain, plain, "plain"),
    "a decorated function": (wrapped, wrapped, plain, "plain"),
    "a partial": (partial_function, plain, plain, "plain"),
    "a partial of a decorated function": (functools.partial(wrapped, 1), wrapped, plain, "plain"),
    "a partial of a partial of a method": (nested_partial, nested_partial.func, nested_partial.func, "method"),
    "an object": (agent, Agent.__call__, Agent.__call__, "Agent"),
    "an object with a decorated call": (Decorated(), Decorated.__call__, plain, "Decorated"),
    "a partial of an object": (functools.partial(agent, 1), Agent.__call__, Agent.__call__, "Agent"),
    "a class": (Agent, Agent, Agent, "Agent"),
    "a builtin": (len, len, len, "len"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_callable_is_resolved_to_its_function_definition_and_name(case: str) -> None:
    function, underlying, definition, name = CASES[case]

    assert (underlying_callable(function), unwrap_definition(function), callable_name(function)) == (
        underlying,
        definition,
        name,
    )
