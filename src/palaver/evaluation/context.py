"""The interface of what evaluators may use besides the case: other evaluators, judges, webhooks, embeddings, threads.

Spending on models is tracked here as well, separately from the workflow's: the code that calls a model records it, and
the caller of the evaluator reads the sum, without passing it through the functions in between.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from palaver.core.messages import Usage

if TYPE_CHECKING:
    from palaver.evaluation.evaluator import Evaluator


class EvaluatorContext(Protocol):
    """Passed to parameters of this type. Methods raise ScoringError for anything that is unavailable."""

    @property
    def executor(self) -> Executor | None:
        """Where sync evaluators run; None for the event loop's default executor."""
        ...

    def evaluator(self, key: str) -> "Evaluator":
        """Return another evaluator by its key. Raises InvalidValue, which lists the known ones."""
        ...

    def for_project(self, project: str, key: str | None) -> "EvaluatorContext":
        """Return the same context, acting for a project and an API key."""
        ...

    def check_judge(self, judge: str, pointer: str) -> None:
        """Raise InvalidValue for a judge that can never answer."""
        ...

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = 2) -> Any:
        """Ask a workflow or model for JSON that matches the schema. Retries answers that do not match."""
        ...

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        """Raise UrlRefused for a forbidden URL, InvalidValue for a secret that is not a reference."""
        ...

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:
        """POST JSON to a service and return its JSON answer."""
        ...

    def check_model(self, model: str, pointer: str) -> None:
        """Raise InvalidValue for a model that can never embed."""
        ...

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]: ...


_current_spending: ContextVar["Spending | None"] = ContextVar("spending", default=None)


class Spending:
    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.cost: float | None = None

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """Add usage and cost; None means unknown, not zero."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
        if cost is not None:
            self.cost = cost + (self.cost or 0.0)


@contextmanager
def track_spending() -> Generator[Spending]:
    """Track spending inside the block. Enclosing blocks include it."""
    outer, inner = _current_spending.get(), Spending()
    token = _current_spending.set(inner)
    try:
        yield inner
    finally:
        _current_spending.reset(token)
        if outer is not None:
            outer.add(inner.usage, inner.cost)


def record_spending(usage: Usage | None, cost: float | None) -> None:
    if (spending := _current_spending.get()) is not None:
        spending.add(usage, cost)


_P = ParamSpec("_P")
_T = TypeVar("_T")


async def offload(context: EvaluatorContext, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    return await asyncio.get_running_loop().run_in_executor(context.executor, partial(function, *args, **kwargs))
