"""Callables: the `def` behind what an author declares: a function, a method, a partial, an object with `__call__`."""

import functools
import inspect
from pathlib import Path
from typing import Any


def called(function: Any) -> Any:
    """What runs when it is called: of a partial its function, of an object its `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def definition(function: Any) -> Any:
    """Where its annotations, docstring and source stand: a decorated function is asked for the one it wraps."""
    while (inner := called(inspect.unwrap(function))) is not function:
        function = inner
    return function


def place_of(function: Any) -> str:
    """File and line of the function; the path of a file below the working folder, the name of any other."""
    code = getattr(definition(function), "__code__", None)
    if code is None:
        return type(function).__name__
    path, here = Path(code.co_filename), Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path.name}:{code.co_firstlineno}"


def name_of(function: Any) -> str:
    """The name of the function; an object that can be called goes by its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
