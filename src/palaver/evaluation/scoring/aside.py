"""Aside: work that takes its time, away from the loop on which all else runs."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from palaver.evaluation.scoring.reach import Reach

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def aside(reach: Reach, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What the function returns, which runs in a thread."""
    return await asyncio.get_running_loop().run_in_executor(reach.threads, partial(function, *args, **kwargs))
