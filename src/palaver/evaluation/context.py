"""What evaluators may use besides the case: other evaluators, judges, webhooks, embeddings, threads."""

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
    """A parameter of this type is given it. Whatever cannot be reached raises Unscored."""

    @property
    def threads(self) -> Executor | None:
        """Where sync evaluators run; None is the loop's own."""
        ...

    def evaluator(self, key: str) -> "Evaluator":
        """Another evaluator; InvalidValue lists the known ones."""
        ...

    def of(self, project: str, key: str | None) -> "EvaluatorContext":
        """The same in the name of a project, and of a key of it."""
        ...

    def check_judge(self, judge: str, pointer: str) -> None:
        """InvalidValue, with that pointer, for a judge that could never be asked."""
        ...

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = 2) -> Any:
        """What a workflow or model answers, as JSON that fits the schema; asked again so often if it does not."""
        ...

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        """UrlRefused for a URL that we never go to, InvalidValue for a secret that is not named as one."""
        ...

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:
        """What a service answers to a POST within so many seconds, as JSON."""
        ...

    def check_model(self, model: str, pointer: str) -> None:
        """InvalidValue, with that pointer, for a model that could never be asked for vectors."""
        ...

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]:
        """The vectors of these texts."""
        ...


_current_spending: ContextVar["Spending | None"] = ContextVar("spent", default=None)


class Spending:
    """What was spent so far."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.cost: float | None = None

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """So much more; None is unknown, not nothing."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
        if cost is not None:
            self.cost = cost + (self.cost or 0.0)


@contextmanager
def track_spending() -> Generator[Spending]:
    """Count what is spent inside; a count around this one has it, too."""
    outer, inner = _current_spending.get(), Spending()
    token = _current_spending.set(inner)
    try:
        yield inner
    finally:
        _current_spending.reset(token)
        if outer is not None:
            outer.add(inner.usage, inner.cost)


def record_spending(usage: Usage | None, cost: float | None) -> None:
    """A model was asked, and this is what it took."""
    if (spent := _current_spending.get()) is not None:
        spent.add(usage, cost)


_P = ParamSpec("_P")
_T = TypeVar("_T")


async def offload(reach: EvaluatorContext, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What the function returns, which runs in a thread."""
    return await asyncio.get_running_loop().run_in_executor(reach.threads, partial(function, *args, **kwargs))
