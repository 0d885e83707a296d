"""Reach for who is alone: evaluators and threads are at hand, and whatever else is asked for is not available."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.registry import EvaluatorRegistry
from palaver.evaluation.score import ScoringError


class OfflineContext:
    """Reaches evaluators and threads, and nothing else. What reaches further begins with it; tests use it, too."""

    def __init__(
        self, evaluators: EvaluatorRegistry | Iterable[Evaluator] = (), *, threads: Executor | None = None
    ) -> None:
        self._evaluators = evaluators
        self._threads = threads

    @property
    def threads(self) -> Executor | None:
        """Those that were given."""
        return self._threads

    def evaluator(self, key: str) -> Evaluator:
        """A built-in one, or one of those given."""
        known = self._evaluators
        return (known if isinstance(known, EvaluatorRegistry) else EvaluatorRegistry(known)).find(key)

    def of(self, project: str, key: str | None) -> EvaluatorContext:  # noqa: ARG002 - nobody asks
        """The same: nothing is asked in anybody's name."""
        return self

    def check_judge(self, judge: str, pointer: str) -> None:
        """Any may be named: whether there is one is known elsewhere."""

    async def judge(self, judge: str, prompt: str, *, schema: Mapping[str, Any], retries: int = 2) -> Any:  # noqa: ARG002 - nobody is asked
        """Nobody is asked."""
        raise ScoringError("not_available", f"the judge {judge!r} cannot be asked here")

    def check_post(self, url: str, secret: str | None, pointer: str) -> None:
        """Any may be named."""

    async def post(self, url: str, body: Any, *, secret: str | None = None, seconds: float = 10) -> Any:  # noqa: ARG002 - nor told
        """Nothing is sent."""
        raise ScoringError("not_available", "nothing can be sent from here")

    def check_model(self, model: str, pointer: str) -> None:
        """Any may be named."""

    async def embed(self, texts: Sequence[str], *, model: str) -> Sequence[Sequence[float]]:  # noqa: ARG002 - nobody reads them
        """There is no model."""
        raise ScoringError("not_available", f"the model {model!r} cannot be asked here; ngram is always there")
